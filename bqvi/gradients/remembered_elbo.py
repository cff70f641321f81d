"""The ELBO of a Gaussian q from the evaluations of the log joint that a run has kept, at no further one.

In units whitened by q, theta = mu + L u, the log joint f is modelled by phi(u) = f + |u|^2 / 2 under the
process of `gp.conditioning`, from values, and from gradients where there are any. Its integral under q is
closed:

    ELBO = E_q[f] + H(q) = E[phi] - D / 2 + H(q),        u ~ N(0, I) under q.

With k(u, u') = s^2 (h exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2), P = 1 / (l^2 + 1) and
z(u) = h (l^2 P)^(D/2) exp(-P |u|^2 / 2),

    Cov(phi(u), E[phi]) = z + b2 |u|^2 / 2,    Cov(grad phi(u), E[phi]) = -P z u + b2 u,
    Var E[phi]          = h (l^2 / (l^2 + 2))^(D/2) + b2 D / 2                              all times s^2.

The sd holds the posterior variance, with the constant profiled out, and the jackknife's variance and bias
over evaluations, which answer for what the kernel does not fit. Failed evaluations are left out: the ELBO is
that over the region where the log joint is finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqvi.gradients.memory import Memory
from bqvi.gradients.settings import EVIDENCE, NOISE
from bqvi.gradients.surrogates import OnFunction
from bqvi.gradients.whitened import Frame
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.function_kernel import FunctionKernel
from gp.conditioning.function_process import FunctionProcess


@dataclass(frozen=True)
class ElboEstimate:
    """An ELBO and its standard deviation, nats."""

    value: float
    sd: float


def remembered_elbo(q: Any, memory: Memory) -> ElboEstimate | None:
    """Return the ELBO of a Gaussian q, or None where fewer than D + 2 evaluations are near q.

    Parameters
    ----------
    q : a `Gaussian` or `DiagonalGaussian` over R^D.
    memory : m evaluations; the latest are used where they are more than a solve of reasonable size takes.
    """
    found = process_near(q, memory)
    if found is None:
        return None
    process, dimension = found[0], len(found[1].mean)
    value = process.posterior_mean.integrate(np.zeros(dimension), np.eye(dimension)).value
    return ElboEstimate(value - 0.5 * dimension + float(q.entropy), _sd(process.given, process.kernel))


def process_near(q: Any, memory: Memory) -> tuple[FunctionProcess, Frame] | None:
    """Return the process on phi in units whitened by q, and these; else as `remembered_elbo`."""
    frame = Frame.of(q)
    dimension = len(frame.mean)
    kind = OnFunction(values=True, gradients=memory.gradients.shape[1] > 0)
    numbers = 1 + memory.gradients.shape[1]
    u = frame.whiten(memory.points)
    near = np.flatnonzero(np.square(u).sum(1) < NOISE.left_out * dimension)
    near = near[-max(EVIDENCE.rows // numbers, dimension + 2) :]
    if len(near) < dimension + 2:
        return None
    u = u[near]
    targets = kind.targets(frame, u, memory.values[near], memory.gradients[near])
    noise = kind.noise(frame, memory.noise[near])
    return kind.process(u, targets, kind.fit(u, targets, None, noise), noise).process, frame


def _sd(given: Conditioned, kernel: FunctionKernel) -> float:
    """Standard deviation of E[phi] under N(0, I): the model's and the jackknife's."""
    dimension, l2 = given.points.shape[1], kernel.lengthscale**2
    prior = kernel.height * (l2 / (l2 + 2.0)) ** (dimension / 2) + 0.5 * kernel.quadratic * dimension
    whitened = given.whitening @ _observed(given, kernel)[:, None]
    level = np.ones(1)
    variance = float(given.covariance(np.array([[prior]]), whitened, level)[0, 0])
    changes = given.changes(whitened, level)[:, 0]
    return float(np.sqrt(max(variance, 0.0) + np.square(changes).sum() + changes.sum() ** 2))


def _observed(given: Conditioned, kernel: FunctionKernel) -> np.ndarray:
    """Covariances / s^2 of what the points show with E[phi], (m B,)."""
    u, p = given.points, 1.0 / (kernel.lengthscale**2 + 1.0)
    squares = np.square(u).sum(1)
    z = kernel.height * (kernel.lengthscale**2 * p) ** (u.shape[1] / 2) * np.exp(-0.5 * p * squares)
    values: np.ndarray = z + 0.5 * kernel.quadratic * squares
    if given.numbers == 1:
        return values
    slopes = (kernel.quadratic - p * z)[:, None] * u
    return np.asarray(np.concatenate([values[:, None], slopes], 1).reshape(-1))
