"""Pointwise acquisition functions: a criterion of the moments of f at a point, bound to a posterior.

    x  --predictor-->  moments of f(x)  --criterion-->  score  --search-->  the next x

The moments are those of f(x) under the Gaussian process before it is evaluated: mean m, variance v,
covariance s with the integral of f, and log p(x). A criterion is a formula in these, with its partial
derivatives, which are pulled back through the predictor; it depends on no kernel, no measure and no array
library. The score of a positive criterion is its *logarithm*, which does not underflow where p(x) does, and
allows joint ascents from points with very different values.

    UncertaintySampling          v p^a               thesis Eq. 7.18 (Gunter et al. 2014): a = 2, Var[f p]
    IntegralVarianceReduction    s^2 / (v + noise)   thesis Eq. 7.17

With S the posterior variance of the integral, an observation of f(x) with noise changes S to
S - s^2 / (v + noise), whatever its value.

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from gp.arrays import Array, as_like, at_least, is_torch, namespace, positive, to_numpy
from gp.embeddings import Formulas, formulas
from gp.embeddings.embed import gradient_in_points, in_kind_of
from gp.integrals import Integrals
from gp.kernels.crossed import contracted_gradient, diagonal_gradient
from gp.matrices import lower_inverse
from gp.measures import Gaussian, GaussianMixture, Measure, Uniform
from gp.measures.mixture import MixtureDensity
from gp.observations import Gradients, Values, covariance

if TYPE_CHECKING:
    from gp.regression.marginal import MarginalPosterior
    from gp.regression.posterior import Posterior

__all__ = [
    "Acquisition", "Criterion", "IntegralVarianceReduction", "Moments", "Partials", "UncertaintySampling",
    "bind",
]  # fmt: skip


class Moments(Protocol):
    """Posterior moments of f at m points before it is evaluated there."""

    @property
    def mean(self) -> Array:
        """Posterior mean, (m,)."""

    @property
    def variance(self) -> Array:
        """Posterior variance of f, (m,), plus rounding, so that it is positive."""

    @property
    def predictive_variance(self) -> Array:
        """Variance of the next observation, noise included, (m,)."""

    @property
    def signals(self) -> Array:
        """Covariances of f(x) with the integral of f against the measure, (m,)."""

    @property
    def integral_variance(self) -> Array:
        """Posterior variance of that integral, ()."""

    @property
    def log_density(self) -> Array:
        """log p(x), (m,)."""


@dataclass(frozen=True, eq=False)
class Partials:
    """Derivatives of a score in the moments; ``None`` for those that it does not depend on.

    Attributes
    ----------
    mean, variance, signals, log_density : (m,). The derivative in the variance includes that in the
        predictive variance, which is the variance plus noise.
    """

    mean: Array | None = None
    variance: Array | None = None
    signals: Array | None = None
    log_density: Array | None = None


@runtime_checkable
class Criterion(Protocol):
    """The gain of evaluating f at a point."""

    @property
    def logarithmic(self) -> bool:
        """Whether the score is the logarithm of the criterion."""

    def score(self, at: Moments) -> Array:
        """Return the criterion or its logarithm, (m,), from the moments ``at`` m points."""

    def partials(self, at: Moments) -> Partials:
        """Return the derivatives of the score in the moments, for those ``at`` m points."""


@dataclass(frozen=True)
class UncertaintySampling:
    """v(x) p(x)^a, a = ``density_power``: 2 for the variance of the integrand, 0 for that of f."""

    density_power: float = 2.0

    logarithmic = True

    def __post_init__(self) -> None:
        if not 0 <= self.density_power < np.inf:
            raise ValueError(
                f"density_power = {self.density_power!r}: give 0 (posterior variance), 2 (variance "
                "of f p) or another finite number that is not negative"
            )

    def score(self, at: Moments) -> Array:
        score = namespace(at.variance).log(at.variance)
        return score + self.density_power * at.log_density if self.density_power else score

    def partials(self, at: Moments) -> Partials:
        if not self.density_power:
            return Partials(variance=1 / at.variance)
        ones = namespace(at.variance).ones_like(at.variance)
        return Partials(variance=1 / at.variance, log_density=self.density_power * ones)


@dataclass(frozen=True)
class IntegralVarianceReduction:
    """s^2 / (v + noise): the reduction of the variance of the integral (thesis Eq. 7.17)."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        return namespace(at.variance).log(reduction(at))

    def partials(self, at: Moments) -> Partials:
        return Partials(
            variance=-1 / at.predictive_variance, signals=2 * at.signals / positive(at.signals**2)
        )


def reduction(at: Moments) -> Array:
    """s^2 / (v + noise), s^2 raised above zero where rounding or symmetry makes it vanish, (m,)."""
    return positive(at.signals**2) / at.predictive_variance


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
    """The moments of f at points x (m, D); see :class:`Moments`."""

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


@dataclass(frozen=True, eq=False)
class Acquisition:
    """A function of points, to be maximised; made by :func:`bind`.

    Points are of the posterior's kind, NumPy or torch, and so is what is returned; torch gradients
    flow through :meth:`score` and :meth:`value`. Of a marginalised posterior the criterion itself is averaged
    over hyperparameters by weight (Snoek et al. 2012).

    Attributes
    ----------
    criterion : the formula in the moments of f at a point.
    posterior : the Gaussian process, or the mixture, given what has been observed.
    predictors : compute these moments for the process, or for each of the mixture.
    """

    criterion: Criterion
    posterior: Posterior | MarginalPosterior
    predictors: tuple[Predictor, ...]

    @property
    def measure(self) -> Measure:
        """The measure that f is integrated against."""
        return self.predictors[0].measure

    def value(self, x: Array) -> Array:
        """Return the criterion itself at points x (m, D), (m,)."""
        score = self.score(x)
        return namespace(score).exp(score) if self.criterion.logarithmic else score

    def score(self, x: Array) -> Array:
        """Return the score, which is the criterion or its logarithm, at points x (m, D), (m,)."""
        return self._mixed([self.criterion.score(each.moments(x)) for each in self.predictors])[0]

    def score_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Return the scores (m,) and their gradients in x (m, D), in closed form."""
        every = [each.moments(x) for each in self.predictors]
        score, shares = self._mixed([self.criterion.score(at) for at in every])
        pairs = zip(self.predictors, every, strict=True)
        gradients = [each.pullback(at, self.criterion.partials(at)) for each, at in pairs]
        if shares is None:
            return score, gradients[0]
        return score, sum(share[:, None] * each for share, each in zip(shares, gradients, strict=True))

    def _mixed(self, scores: list[Array]) -> tuple[Array, Array]:
        """The score of the mean criterion (m,), and its derivatives in the parts' scores (J, m)."""
        if len(self.predictors) == 1:
            return scores[0], None
        xp = namespace(*scores)
        stacked = xp.stack(scores)
        weights = as_like(self.posterior.weights, stacked)[:, None] * xp.ones_like(stacked)
        if not self.criterion.logarithmic:
            return xp.sum(weights * stacked, axis=0), weights
        largest = xp.max(stacked, axis=0)
        terms = weights * xp.exp(stacked - largest)
        total = xp.sum(terms, axis=0)
        return largest + xp.log(total), terms / total


def bind(
    criterion: Criterion,
    posterior: Posterior | MarginalPosterior,
    measure: Measure,
    *,
    noise: float | None = None,
) -> Acquisition:
    """Return ``criterion`` as a function of points.

    Parameters
    ----------
    criterion : the gain of evaluating f at a point, such as ``IntegralVarianceReduction()``.
    posterior : the posterior of f given the observations, of which there may be none. Of a marginalised one
        the criterion is averaged over its hyperparameters.
    measure : the measure against which f is integrated.
    noise : noise variance of the next observation; by default the number the posterior has.

    Raises
    ------
    ValueError
        If dimensions differ, or the posterior has a noise for each observation and ``noise`` is
        not given.
    UnknownPairError
        When the acquisition is first used, if the criterion needs the integral and the kernel has no
        embedding against the measure.
    """
    parts: Sequence[Any] = getattr(posterior, "posteriors", (posterior,))
    return Acquisition(criterion, posterior, tuple(_predictor(part, measure, noise) for part in parts))


def _predictor(posterior: Posterior, measure: Measure, noise: float | None) -> Predictor:
    if measure.dimension != posterior.x.shape[1]:
        raise ValueError(
            f"measure has dimension {measure.dimension}, the posterior's points have "
            f"{posterior.x.shape[1]} columns: give a measure on the same space"
        )
    measure = in_kind_of(measure, posterior.x)
    return Predictor(posterior, measure, _next_noise(posterior, noise))


def _next_noise(posterior: Posterior, noise: float | None) -> float:
    if noise is not None:
        if not 0 <= noise < float("inf"):
            raise ValueError(f"noise = {noise!r}: give a variance, finite and not negative")
        return float(noise)
    if getattr(posterior.noise, "ndim", 0) == 1:
        raise ValueError(
            "noise = None, but the posterior has a noise for each observation: give that of the next one"
        )
    return float(posterior.noise)
