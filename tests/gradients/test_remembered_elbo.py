"""The ELBO from kept evaluations: exact for quadratics, beside Gauss-Hermite rules, at no evaluation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bqvi.families import Gaussian
from bqvi.gradients.memory import Memory
from bqvi.gradients.remembered import remembered_elbo

MEAN, COVARIANCE = np.array([0.5, -1.0]), np.array([[1.0, 0.4], [0.4, 0.5]])


def banana(theta):
    x, y = theta[:, 0], theta[:, 1]
    return -0.5 * x**2 - 0.5 * ((y - x**2) / 0.7) ** 2


def memory_of(function, points, with_gradients):
    theta = torch.tensor(points, requires_grad=True)
    values = function(theta)
    (slopes,) = torch.autograd.grad(values.sum(), theta)
    kept = Memory.empty(points.shape[1], with_gradients)
    gradients = slopes.numpy() if with_gradients else np.empty((len(points), 0))
    noise = np.zeros((len(points), 1 + gradients.shape[1]))
    kept = replace(kept, points=points, values=values.detach().numpy(), gradients=gradients)
    return replace(kept, noise_variances=noise)


def exact(function, q):
    """Gauss-Hermite of order 40 in each of two dimensions: exact for polynomials of degree 79."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    u = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    w = np.outer(weights, weights).reshape(-1) / (2.0 * np.pi)
    theta = q.mean + u @ np.linalg.cholesky(q.covariance).T
    return float(w @ function(torch.tensor(theta)).numpy()) + float(q.entropy)


def points_of(q, n, seed):
    u = 1.3 * np.random.default_rng(seed).standard_normal((n, len(q.mean)))
    return q.mean + u @ np.linalg.cholesky(q.covariance).T


@pytest.mark.parametrize("with_gradients", [True, False])
def test_a_quadratic_log_joint_is_integrated_exactly(with_gradients):
    def quadratic(theta):
        return (
            3.0 - 0.5 * (theta**2 @ torch.tensor([1.0, 4.0], dtype=theta.dtype)) + theta[:, 0] * theta[:, 1]
        )

    q = Gaussian(MEAN, COVARIANCE)
    found = remembered_elbo(q, memory_of(quadratic, points_of(q, 20, 0), with_gradients))
    # the jitter of 1e-6 of the process' variance
    assert found.value == pytest.approx(exact(quadratic, q), abs=1e-3)
    assert found.sd < 1e-2


@pytest.mark.parametrize("with_gradients", [True, False])
def test_errors_are_of_the_size_that_is_said(with_gradients):
    """Forty designs: if z-scores are standard normal, more than 6 beyond 2.8 sd have a probability below
    1e-7.
    """
    q = Gaussian(np.array([0.2, 1.0]), np.array([[0.6, 0.3], [0.3, 0.9]]))
    truth, z = exact(banana, q), []
    for seed in range(40):
        found = remembered_elbo(q, memory_of(banana, points_of(q, 25, seed), with_gradients))
        z.append((found.value - truth) / found.sd)
        assert abs(found.value - truth) < 0.5
    assert (np.abs(z) > 2.8).sum() <= 6


def test_too_few_evaluations_give_no_estimate():
    q = Gaussian(MEAN, COVARIANCE)
    assert remembered_elbo(q, Memory.empty(2, True)) is None
    assert remembered_elbo(q, memory_of(banana, points_of(q, 3, 0), True)) is None
    assert remembered_elbo(q, memory_of(banana, 1e3 + points_of(q, 30, 0), True)) is None


@pytest.mark.parametrize("seed", [1, 4])
def test_evaluations_of_a_climb_are_no_draws_of_q(seed):
    """Three quarters of them lie near a mode where f is more curved than on average under q, D = 40."""
    dimension, rng = 40, np.random.default_rng(seed)
    q = Gaussian(np.zeros(dimension), np.eye(dimension))
    scales = torch.logspace(-0.3, 0.5, dimension, dtype=torch.float64)
    points = rng.standard_normal((100, dimension))
    points[:75] *= 0.1
    found = remembered_elbo(q, memory_of(lambda x: -torch.log(torch.cosh(x * scales)).sum(1), points, True))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    marginals = -np.log(np.cosh(np.outer(nodes, scales.numpy()))).sum(1)
    truth = float(weights @ marginals / weights.sum()) + float(q.entropy)
    assert abs(found.value - truth) < 2.0 * found.sd < 10.0
