"""Targets whose ELBO gradient is computed by a product rule."""

import functools
import itertools

import numpy as np
import torch

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.gradient import Batch
from bqvi.gradients.surrogates import FunctionSurrogate
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from bqvi.models import LogJoint
from gp.conditioning import FunctionKernel, Shown

BATCH = Batch(None, 0)
SHOWN = {"values": Shown(True, False), "derivatives": Shown(False, True), "both": Shown(True, True)}


def between(kernel, left, right):
    """The covariances over s^2 between points (m, D) and (n, D)."""
    return kernel.covariance(kernel.at(left), kernel.at(right))


def of_function(shown, shape, points, targets):
    """A process on one function with hyperparameters (l, b1, b2)."""
    return FunctionSurrogate.of_targets(FunctionKernel(*shape, shown), points, targets)


def drawn_process(shown, shape, m=5, seed=6):
    """A process on m points in the plane with random targets."""
    rng = np.random.default_rng(seed)
    points = 1.3 * rng.standard_normal((m, 2))
    return of_function(shown, shape, points, rng.standard_normal((m, shown.width(2))))


def without(process, kept):
    """The process on some of its points, hyperparameters kept."""
    given = process.given
    return FunctionSurrogate.of_targets(process.given.kernel, given.points[kept], given.targets[kept])


def gram(process):
    """K / s^2 with the noise, from the kernel."""
    given = process.given
    noise = np.repeat(given.noise(given.points), given.numbers)
    return between(given.kernel, given.points, given.points) + np.diag(noise)


def gauss_hermite(dimension, n):
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=dimension)))
    return points, functools.reduce(np.multiply.outer, [weights] * dimension).ravel()


def banana(theta):
    return -0.5 * theta[:, 0] ** 2 - (theta[:, 1] - theta[:, 0] ** 2) ** 2 / 0.98


SLOPES = torch.tensor(np.random.default_rng(8).standard_normal((12, 3)))


def logistic(theta):
    return -0.5 * theta.square().sum(1) / 4.0 - torch.nn.functional.softplus(theta @ SLOPES.T).sum(1)


TARGETS = {
    "banana": (
        LogJoint(banana, 2),
        Gaussian(np.array([0.3, -0.4]), np.array([[0.6, 0.2], [0.2, 0.5]])),
    ),
    "wide": (LogJoint(logistic, 3), DiagonalGaussian(np.array([-0.2, 0.4, 0.1]), 1.5 * np.ones(3))),
    "logistic": (
        LogJoint(logistic, 3),
        DiagonalGaussian(np.array([-0.2, 0.4, 0.1]), np.array([0.3, 0.5, 0.2])),
    ),
}


def exact(name):
    """dL/dmu by a product rule: of the banana's polynomial exact, of the logistic to 1e-8."""
    model, q = TARGETS[name]
    frame = WhitenedFrame.of(q)
    noise, weights = gauss_hermite(len(frame.mean), 20)
    theta = torch.tensor(frame.points(noise), requires_grad=True)
    (slopes,) = torch.autograd.grad(model.log_prior(theta).sum(), theta)
    y = slopes.numpy() @ frame.scale + noise
    crossed = y.T @ (noise * weights[:, None])
    return frame.natural_gradient(WhitenedMoments(weights @ y, 0.5 * (crossed + crossed.T)))
