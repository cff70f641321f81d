"""The gradient of a measure's log density in the point, such as -S^-1 (x - m) for a Gaussian N(m, S)."""

from __future__ import annotations

from functools import singledispatch

from gp.arrays import Array, as_like, namespace
from gp.embeddings.autodiff import gradient_in_points
from gp.linear_maps import lower_inverse
from gp.measures import Gaussian, GaussianMixture, Measure, Uniform
from gp.measures.mixture_density import MixtureDensity


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
    parts = (as_like(part, x) for part in (measure.weights, measure.means, measure.factors))
    return MixtureDensity.of(*parts).with_gradient(x)[1]


@log_density_gradient.register
def _uniform(measure: Uniform, x: Array) -> Array:
    return namespace(x).zeros_like(x)
