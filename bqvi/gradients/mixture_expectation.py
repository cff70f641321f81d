"""E_q[f] and its gradients for q a mixture of Gaussians, from a process on the log joint f.

A process speaks in units whitened by one Gaussian, theta = mu + L u, of phi(u) = f(theta) + |u|^2 / 2. So

    E_q[f] = E_q[phi] - E_q[|u|^2] / 2

with q in those units, both closed (`gp.expectation`); gradients in the means and
covariances come back by the chain rule, dE/dm_k = L^-T dE/dm'_k and dE/dS_k = L^-T dE/dS'_k L^-1. A process
given derivatives only knows phi up to a constant: E_q[f] then lacks it, and dE/dw_k lacks it alike for
all k, which no step along weights that sum to one notices. The entropy of a mixture has no closed form and is
the caller's.

For the frame take the Gaussian with the mixture's moments (`moment_matched`), or any q the evaluations
were made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bqvi.families import Gaussian
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.whitened import Frame
from gp.arrays import Array
from gp.measures import GaussianMixture, MixtureParameters


class MixtureLike(Protocol):
    """What is read of a mixture."""

    @property
    def weights(self) -> Array:
        """(K,)."""

    @property
    def means(self) -> Array:
        """(K, D)."""

    @property
    def covariances(self) -> Array:
        """(K, D, D)."""


@dataclass(frozen=True, eq=False)
class MixtureExpectation:
    """E_q[f], and its gradients in q."""

    value: float
    gradient: MixtureParameters
    """In weights (K,), means (K, D), covariances (K, D, D); weights are free."""


def moment_matched(q: MixtureLike) -> Gaussian:
    """The Gaussian with q's mean and covariance."""
    weights, means = np.asarray(q.weights), np.asarray(q.means)
    mean = weights @ means
    apart = means - mean
    within = (weights[:, None, None] * np.asarray(q.covariances)).sum(0)
    return Gaussian(mean, within + (weights[:, None] * apart).T @ apart)


def mixture_expectation(process: FunctionSurrogate, frame: Frame, q: GaussianMixture) -> MixtureExpectation:
    """Return E_q[f] of the posterior mean; ``frame`` is that of the process.

    Raises
    ------
    ValueError
        q is of another dimension than the frame.
    TypeError
        q is no mixture of Gaussians, or the process is separable: that predicts gradients of no function.
    """
    if not isinstance(q, GaussianMixture):
        raise TypeError(f"q is a {type(q).__name__}; it must be a gp.measures.GaussianMixture")
    if not isinstance(process, FunctionSurrogate):
        raise TypeError(
            f"process is a {type(process).__name__}, which is no model of the log joint; use the surrogate "
            "of BayesianQuadrature(process='derivative' or 'joint'), or of a log joint with values only"
        )
    if q.dimension != len(frame.mean):
        raise ValueError(f"q has dimension {q.dimension}, the frame {len(frame.mean)}")
    return less_square(of_phi(process, frame, q), frame, q)


def of_phi(process: FunctionSurrogate, frame: Frame, q: MixtureLike) -> MixtureExpectation:
    """E_q of what the process is on, and its gradients; nothing is checked."""
    inverse, within = _in_frame(frame, q)
    value, gradient = process.process.posterior_mean.integrate_mixture(within)
    bends = inverse.T @ gradient.covariances @ inverse
    return MixtureExpectation(value, MixtureParameters(gradient.weights, gradient.means @ inverse, bends))


def less_square(found: MixtureExpectation, frame: Frame, q: MixtureLike) -> MixtureExpectation:
    """Less E_q[|u|^2] / 2."""
    inverse, (weights, means, covariances) = _in_frame(frame, q)
    squares = 0.5 * (np.square(means).sum(1) + np.einsum("kii->k", covariances))
    slopes = found.gradient.means - weights[:, None] * means @ inverse
    bends = found.gradient.covariances - 0.5 * weights[:, None, None] * (inverse.T @ inverse)
    return MixtureExpectation(
        found.value - float(weights @ squares),
        MixtureParameters(found.gradient.weights - squares, slopes, bends),
    )


def _in_frame(frame: Frame, q: MixtureLike) -> tuple[np.ndarray, MixtureParameters]:
    """L^-1, and q in the frame's units."""
    inverse = np.linalg.inv(frame.scale)
    covariances = inverse @ np.asarray(q.covariances) @ inverse.T
    means = (np.asarray(q.means) - frame.mean) @ inverse.T
    return inverse, MixtureParameters(np.asarray(q.weights), means, 0.5 * (covariances + covariances.mT))
