"""E_q[f] and its gradients for q a mixture of Gaussians, from a process on the log joint f.

A process speaks in units whitened by one Gaussian, theta = mu + L u, of psi(u) = f(theta) + |u|^2 / 2. So

    E_q[f] = E_q[psi] - E_q[|u|^2] / 2

with q carried to those units, both closed (`bqvi.quadrature.kernel_sums`); gradients in the means and
covariances come back by the chain rule, dE/dm_k = L^-T dE/dm'_k and dE/dS_k = L^-T dE/dS'_k L^-1. A process
given derivatives only knows psi up to a constant: E_q[f] then lacks it, and dE/dw_k lacks it alike for
all k, which no step along weights that sum to one notices. The entropy of a mixture has no closed form and is
the caller's.

For the frame take the Gaussian with the mixture's moments (`moment_matched`), or any q the evaluations
were made for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from bqvi.families import Gaussian
from bqvi.gradients.derivative_process import DerivativeProcess
from bqvi.gradients.joint_process import JointProcess
from bqvi.gradients.value_process import ValueProcess
from bqvi.gradients.whitened import Frame
from gp.measures import GaussianMixture, MixtureParameters


@dataclass(frozen=True, eq=False)
class MixtureExpectation:
    """E_q[f], and its gradients in q."""

    value: float
    gradient: MixtureParameters
    """In weights (K,), means (K, D), covariances (K, D, D); weights are free."""


def moment_matched(q: GaussianMixture) -> Gaussian:
    """The Gaussian with q's mean and covariance."""
    return Gaussian(np.asarray(q.mean), np.asarray(q.covariance))


def mixture_expectation(
    process: ValueProcess | DerivativeProcess | JointProcess, frame: Frame, q: GaussianMixture
) -> MixtureExpectation:
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
    if not hasattr(process, "posterior_mean"):
        raise TypeError(
            f"process is a {type(process).__name__}, which is no model of the log joint; use the surrogate "
            "of BayesianQuadrature(process='derivative' or 'joint'), or of a log joint with values only"
        )
    if q.dimension != len(frame.mean):
        raise ValueError(f"q has dimension {q.dimension}, the frame {len(frame.mean)}")
    inverse = scipy.linalg.solve_triangular(frame.scale, np.eye(q.dimension), lower=True)
    means = frame.whiten(np.asarray(q.means))
    covariances = inverse @ np.asarray(q.covariances) @ inverse.T
    weights = np.asarray(q.weights)
    carried = GaussianMixture(weights, means, 0.5 * (covariances + covariances.mT))
    value, gradient = process.posterior_mean.integrate_mixture(carried)
    squares = np.square(means).sum(1) + np.einsum("kii->k", covariances)
    slopes = gradient.means - weights[:, None] * means
    bends = gradient.covariances - 0.5 * weights[:, None, None] * np.eye(q.dimension)
    return MixtureExpectation(
        value - 0.5 * float(weights @ squares),
        MixtureParameters(gradient.weights - 0.5 * squares, slopes @ inverse, inverse.T @ bends @ inverse),
    )
