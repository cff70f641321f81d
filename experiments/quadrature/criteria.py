"""Criteria of the study of nodes, besides the two of `acquisition`: mutual information, WSABI's, and a bound.

    MutualInformation            -log(1 - c^2 / (S (v + noise))) / 2, of f(x) + e and the integral, in nats
    LinearisedWarpedUncertainty  m^2 v p^2        f = offset + g^2 / 2 linearised at m (WSABI-L)
    MatchedWarpedUncertainty     (v^2 / 2 + m^2 v) p^2    the exact variance of g^2 / 2 (WSABI-M)
    UpperConfidenceBound         lambda m + v     thesis Section 7.3.4

In the warped ones the posterior is that of a Gaussian g (Gunter et al. 2014, "Sampling for inference in
probabilistic models with fast Bayesian quadrature"); the variance of WSABI-L vanishes where m = 0, that of
WSABI-M does not. Bayesian optimisation usually has m + beta sd; here the variance is added, so that lambda
has the units of f. `bqvi.integrate` takes each as its criterion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise import IntegralVarianceReduction, Moments, Partials, reduction
from gp.arrays import Array, at_least, namespace, positive

_MOST_CORRELATED = 1e-12
"""The smallest 1 - reduction / S; smaller ones are rounding."""


@dataclass(frozen=True)
class MutualInformation:
    """-log(1 - c^2 / (S (v + noise))) / 2: the information of f(x) about the integral, in nats."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        """The criterion or its logarithm, (m,), from the moments ``at`` m points."""
        xp = namespace(at.variance)
        return xp.log(-0.5 * xp.log1p(-_correlation(at)))

    def partials(self, at: Moments) -> Partials:
        """Return the partials of log correlation times d log(information) / d log(correlation)."""
        xp, inner = namespace(at.variance), IntegralVarianceReduction().partials(at)
        correlation = _correlation(at)
        factor = correlation / ((correlation - 1) * xp.log1p(-correlation))
        return Partials(variance=factor * inner.variance, signals=factor * inner.signals)


@dataclass(frozen=True)
class LinearisedWarpedUncertainty:
    """m(x)^2 v(x) p(x)^2: the variance of the integrand of WSABI-L."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        """The criterion or its logarithm, (m,), from the moments ``at`` m points."""
        xp = namespace(at.variance)
        return xp.log(positive(at.mean**2)) + xp.log(at.variance) + 2 * at.log_density

    def partials(self, at: Moments) -> Partials:
        """The derivatives of the score in the moments ``at`` m points."""
        xp = namespace(at.variance)
        return Partials(
            mean=2 * at.mean / positive(at.mean**2),
            variance=1 / at.variance,
            log_density=2 * xp.ones_like(at.variance),
        )


@dataclass(frozen=True)
class MatchedWarpedUncertainty:
    """(v(x)^2 / 2 + m(x)^2 v(x)) p(x)^2: the variance of the integrand of WSABI-M."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        """The criterion or its logarithm, (m,), from the moments ``at`` m points."""
        xp = namespace(at.variance)
        spread = at.variance / 2 + at.mean**2
        return xp.log(at.variance) + xp.log(spread) + 2 * at.log_density

    def partials(self, at: Moments) -> Partials:
        """The derivatives of the score in the moments ``at`` m points."""
        spread = at.variance / 2 + at.mean**2
        return Partials(
            mean=2 * at.mean / spread,
            variance=1 / at.variance + 0.5 / spread,
            log_density=2 * namespace(at.variance).ones_like(at.variance),
        )


@dataclass(frozen=True)
class UpperConfidenceBound:
    """lambda m(x) + v(x).

    Attributes
    ----------
    weight : lambda, in units of f: 0 for pure exploration, a positive number to prefer large f, a negative
        one to prefer small f.
    """

    weight: float = 1.0

    logarithmic = False

    def __post_init__(self) -> None:
        if not np.isfinite(self.weight):
            raise ValueError(f"weight = {self.weight!r}: give a finite number")

    def score(self, at: Moments) -> Array:
        """The criterion or its logarithm, (m,), from the moments ``at`` m points."""
        return self.weight * at.mean + at.variance

    def partials(self, at: Moments) -> Partials:
        """The derivatives of the score in the moments ``at`` m points."""
        ones = namespace(at.variance).ones_like(at.variance)
        return Partials(mean=self.weight * ones, variance=ones)


def _correlation(at: Moments) -> Array:
    """The squared correlation of f(x) + e and the integral, below 1 by more than rounding, (m,)."""
    if not bool(at.integral_variance > 0):
        raise ValueError("the integral has no variance left, so nothing can be learnt about it: stop")
    correlation = positive(reduction(at) / at.integral_variance)
    slack = max(_MOST_CORRELATED, 10 * float(namespace(correlation).finfo(correlation.dtype).eps))
    return -at_least(-correlation, slack - 1)
