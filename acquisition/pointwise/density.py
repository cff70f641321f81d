"""The gradient of a measure's log density in the point, such as -S^-1 (x - m) for a Gaussian N(m, S)."""

from __future__ import annotations

from functools import singledispatch

from gp.arrays import Array, as_like, namespace
from gp.embeddings.autodiff import gradient_in_points
from gp.linear_maps import lower_inverse
from gp.measures import Gaussian, GaussianMixture, Measure, Uniform

__all__ = ["log_density_gradient"]


@singledispatch
def log_density_gradient(measure: Measure, x: Array) -> Array:
    """Return d log p(x)/dx, (m, D), at points x (m, D); by autodiff where nothing is registered."""
    return gradient_in_points(measure.log_density, x)


@log_density_gradient.register
def _gaussian(measure: Gaussian, x: Array) -> Array:
    whitening = lower_inverse(as_like(measure.factor, x))
    return -((x - as_like(measure.mean, x)) @ whitening.T) @ whitening


@log_density_gradient.register
def _mixture(measure: GaussianMixture, x: Array) -> Array:
    """Return the components' gradients, weighted by their responsibilities for the point."""
    xp = namespace(x)
    whitening = lower_inverse(as_like(measure.factors, x))  # (K, D, D)
    centred = x - as_like(measure.means, x)[:, None, :]  # (K, m, D)
    u = centred @ xp.matrix_transpose(whitening)
    logs = as_like(_log_masses(measure), x)[:, None] - 0.5 * xp.sum(u**2, axis=-1)
    logs = logs - xp.max(logs, axis=0)
    responsibilities = xp.exp(logs) / xp.sum(xp.exp(logs), axis=0)
    return -xp.sum(responsibilities[:, :, None] * (u @ whitening), axis=0)


def _log_masses(measure: GaussianMixture) -> Array:
    """Log weight of each component minus its log determinant, (K,); very low for a weight of 0."""
    xp = namespace(measure.weights)
    tiny = float(xp.finfo(measure.weights.dtype).tiny)
    weights = xp.clip(measure.weights, tiny, None)
    return xp.log(weights) - xp.sum(xp.log(xp.linalg.diagonal(measure.factors)), axis=-1)


@log_density_gradient.register
def _uniform(measure: Uniform, x: Array) -> Array:
    return namespace(x).zeros_like(x)
