"""E_q[f] and its gradients for q a mixture of Gaussians, from a process on the log joint f.

The process is on phi(u) = f(theta) + |u|^2 / 2, in units whitened by one Gaussian, theta = mu + L u. Hence

    E_q[f] = E_q[phi] - E_q[|u|^2] / 2

with q in those units, both in closed form (`gp.expectation`); gradients in the means and
covariances follow by the chain rule, dE/dm_k = L^-T dE/dm'_k and dE/dS_k = L^-T dE/dS'_k L^-1. A process
given derivatives alone determines phi up to a constant: E_q[f] then lacks the constant, and so does dE/dw_k,
by the same amount for all k, which changes no step of weights that sum to one. The entropy of a mixture has
no closed form and is computed by the caller.

The Gaussian of the units is the one with the mixture's moments (`moment_matched`), or any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.families import Gaussian, GaussianMixture
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.whitened import WhitenedFrame
from gp.measures import MixtureParameters

__all__ = ["MixtureExpectation", "less_square", "moment_matched", "of_phi"]


@dataclass(frozen=True, eq=False)
class MixtureExpectation:
    """E_q[f], and its gradients in q."""

    value: float
    gradient: MixtureParameters
    """Gradients in weights (K,), means (K, D), covariances (K, D, D); weights are free."""


def moment_matched(q: GaussianMixture) -> Gaussian:
    """The Gaussian with q's mean and covariance."""
    weights, means = np.asarray(q.weights), np.asarray(q.means)
    mean = weights @ means
    offsets = means - mean
    within = (weights[:, None, None] * np.asarray(q.covariances)).sum(0)
    return Gaussian(mean, within + (weights[:, None] * offsets).T @ offsets)


def of_phi(process: FunctionSurrogate, frame: WhitenedFrame, q: GaussianMixture) -> MixtureExpectation:
    """E_q[phi] and its gradients, without checks.

    Parameters
    ----------
    process : on phi, in the units of ``frame``. frame : the units. q : the mixture.
    """
    inverse, within = _in_frame(frame, q)
    value, gradient = process.posterior_mean.integrate_mixture(within)
    by_covariance = inverse.T @ gradient.covariances @ inverse
    return MixtureExpectation(
        value, MixtureParameters(gradient.weights, gradient.means @ inverse, by_covariance)
    )


def less_square(found: MixtureExpectation, frame: WhitenedFrame, q: GaussianMixture) -> MixtureExpectation:
    """The expectation ``found`` less E_q[|u|^2] / 2.

    Parameters
    ----------
    found : E_q of a function, with its gradients. frame : the units u. q : a mixture of K Gaussians over
        theta.
    """
    inverse, (weights, means, covariances) = _in_frame(frame, q)
    squares = 0.5 * (np.square(means).sum(1) + np.einsum("kii->k", covariances))
    slopes = found.gradient.means - weights[:, None] * means @ inverse
    by_covariance = found.gradient.covariances - 0.5 * weights[:, None, None] * (inverse.T @ inverse)
    return MixtureExpectation(
        found.value - float(weights @ squares),
        MixtureParameters(found.gradient.weights - squares, slopes, by_covariance),
    )


def _in_frame(frame: WhitenedFrame, q: GaussianMixture) -> tuple[np.ndarray, MixtureParameters]:
    """L^-1, and q in the frame's units."""
    inverse = frame.inverse
    covariances = inverse @ np.asarray(q.covariances) @ inverse.T
    means = (np.asarray(q.means) - frame.mean) @ inverse.T
    return inverse, MixtureParameters(np.asarray(q.weights), means, 0.5 * (covariances + covariances.mT))
