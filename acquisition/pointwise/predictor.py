"""The moments of f at points, and the pull-back of derivatives in them to derivatives in x.

With K = C C^T the covariance of the observations, k_* that of f(x) with them, Z their covariance
with the integral, z(x) the kernel mean, and h = C^-1 k_*^T,

    mean      m0(x) + h^T C^-1 (y - m0)
    variance  k(x, x) - h^T h
    signal    z(x) - h^T C^-1 Z

All three depend on h: one triangular solve serves all moments and a second one all gradients, as
derivatives a_m, a_v, a_s of a score in the moments give

    d score / d k_*  =  C^-T (C^-1 (y - m0) a_m - 2 h a_v - C^-1 Z a_s),
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np

from acquisition.pointwise.criterion import Partials
from gp.arrays import Array, as_like, at_least, is_torch, namespace, to_numpy
from gp.embeddings import Formulas, formulas
from gp.embeddings.embed import gradient_in_points
from gp.integrals import Integrals
from gp.kernels.contraction import contracted_gradient, diagonal_gradient
from gp.linear_maps import lower_inverse
from gp.measures import Gaussian, GaussianMixture, Measure, Uniform
from gp.measures.mixture_density import MixtureDensity
from gp.observations import Gradients, Values, covariance
from gp.posterior import Posterior

_ROUNDING = 100
"""A variance below so many times n rounding errors of the prior variance counts as rounding."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """A posterior and a measure, with the quantities that all points have in common.

    Attributes
    ----------
    posterior : the Gaussian process given the observations.
    measure : the measure whose density is p(x).
    noise : the noise variance of the next observation.
    """

    posterior: Posterior
    measure: Measure
    noise: float = 0.0

    @cached_property
    def pair(self) -> Formulas:
        """The integrals of the kernel."""
        return formulas(self.posterior.kernel, self.measure)

    @cached_property
    def solved_integral(self) -> Array:
        """C^-1 Z, (n,)."""
        posterior = self.posterior
        if self.values_only:
            return posterior.factor.solve(self.pair.mean(posterior.x))
        integral = Integrals((self.measure,))
        return posterior.factor.solve(covariance(posterior.kernel, posterior.observations, integral)[:, 0])

    @cached_property
    def integral_variance(self) -> Array:
        """The posterior variance of the integral, ()."""
        return self.posterior.integral(self.measure).variance

    @cached_property
    def rounding(self) -> float:
        """The variance that counts as rounding; it is added to that of f, so that this is positive."""
        posterior = self.posterior
        nodes = posterior.x if posterior.x.shape[0] else self.measure.mean[None, :]
        prior = float(np.max(to_numpy(posterior.kernel.diagonal(nodes))))
        epsilon = float(namespace(nodes).finfo(nodes.dtype).eps)
        return _ROUNDING * len(posterior.observations) * epsilon * prior + epsilon * prior

    @cached_property
    def values_only(self) -> bool:
        """Whether all observations are values of f."""
        blocks = self.posterior.observations.blocks
        return len(blocks) == 1 and isinstance(blocks[0], Values)

    def moments(self, x: Array) -> PredictedMoments:
        """Return the moments of f at points x (m, D), each computed when it is asked for."""
        return PredictedMoments(self, x)

    def pullback(self, at: PredictedMoments, partials: Partials) -> Array:
        """Return the gradient in x, (m, D), of a score with these derivatives in the moments."""
        posterior, x = self.posterior, at.x
        gradient = namespace(x).zeros_like(x)
        through: Array = 0.0  # derivative in h, (n, m)
        if partials.mean is not None:
            through = posterior.whitened[:, None] * partials.mean
            gradient = gradient + partials.mean[:, None] * posterior.mean_function.gradient(x)
        if partials.variance is not None:
            through = through - 2 * at.whitened * partials.variance
            gradient = gradient + partials.variance[:, None] * diagonal_gradient(posterior.kernel, x)
        if partials.signals is not None:
            through = through - self.solved_integral[:, None] * partials.signals
            slope = (
                self.pair.mean_gradient(x)
                if self.pair.mean_gradient
                else gradient_in_points(self.pair.mean, x)
            )
            gradient = gradient + partials.signals[:, None] * slope
        if partials.log_density is not None:
            slope = log_density_gradient(self.measure, x)
            gradient = gradient + partials.log_density[:, None] * slope
        if isinstance(through, float):
            return gradient
        return gradient + self.through_kernel(x, posterior.factor.solve(through, transposed=True).T)

    def through_kernel(self, x: Array, weights: Array) -> Array:
        """Return sum_i weights_mi d cov(f(x_m), observation i)/dx_m, (m, D)."""
        kernel, observations = self.posterior.kernel, self.posterior.observations
        if self.values_only:
            return contracted_gradient(kernel, x, observations.x, weights)
        m, dimension = x.shape
        slopes = covariance(kernel, Gradients(x), observations).reshape((m, dimension, -1))
        return namespace(x).sum(slopes * weights[:, None, :], axis=2)


@dataclass(frozen=True, eq=False)
class PredictedMoments:
    """The moments of f at points x (m, D); see :class:`criterion.Moments`."""

    predictor: Predictor
    x: Array

    @cached_property
    def whitened(self) -> Array:
        """h = C^-1 k_*^T, (n, m)."""
        posterior = self.predictor.posterior
        kernel, observations = posterior.kernel, posterior.observations
        if self.predictor.values_only:
            return posterior.factor.solve(kernel(observations.x, self.x))
        return posterior.factor.solve(covariance(kernel, observations, Values(self.x)))

    @cached_property
    def mean(self) -> Array:
        posterior = self.predictor.posterior
        return posterior.mean_function(self.x) + posterior.whitened @ self.whitened

    @cached_property
    def prior(self) -> Array:
        """Prior variance, (m,)."""
        return self.predictor.posterior.kernel.diagonal(self.x)

    @cached_property
    def extra(self) -> Array:
        """The variance of the next observation beyond that of f: noise, and the jitter of all rows, (m,)."""
        noise = self.predictor.noise
        return noise + self.predictor.posterior.jitter * (self.prior + noise)

    @cached_property
    def variance(self) -> Array:
        whitened = self.whitened
        explained = (whitened**2).sum(0) if is_torch(whitened) else np.einsum("nm,nm->m", whitened, whitened)
        return at_least(self.prior - explained, 0.0) + self.predictor.rounding

    @cached_property
    def predictive_variance(self) -> Array:
        return self.variance + self.extra

    @cached_property
    def signals(self) -> Array:
        return self.predictor.pair.mean(self.x) - self.whitened.T @ self.predictor.solved_integral

    @property
    def integral_variance(self) -> Array:
        return self.predictor.integral_variance

    @cached_property
    def log_density(self) -> Array:
        return self.predictor.measure.log_density(self.x)


@singledispatch
def log_density_gradient(measure: Measure, x: Array) -> Array:
    """Return d log p(x)/dx, (m, D), at points x (m, D): of N(m, S) -S^-1 (x - m); by autodiff for others."""
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
