"""Criteria of the mean m and the variance v of f at a point: uncertainty sampling and a confidence bound.

    UncertaintySampling          v p^a            thesis Eq. 7.18 (Gunter et al. 2014): a = 2, Var[f p]
    LinearisedWarpedUncertainty  m^2 v p^2        f = offset + g^2 / 2 linearised at m (WSABI-L)
    MatchedWarpedUncertainty     (v^2 / 2 + m^2 v) p^2    the exact variance of g^2 / 2 (WSABI-M)
    UpperConfidenceBound         lambda m + v     thesis Section 7.3.4

In the warped ones the posterior is that of a Gaussian g (Gunter et al. 2014, "Sampling for inference in
probabilistic models with fast Bayesian quadrature"); the variance of WSABI-L vanishes where m = 0, that of
WSABI-M does not. Bayesian optimisation usually has m + beta sd; here the variance is added, so that lambda
has the units of f.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise.criterion import Moments, Partials
from gp.arrays import Array, namespace, positive


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
class LinearisedWarpedUncertainty:
    """m(x)^2 v(x) p(x)^2: the variance of the integrand of WSABI-L."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        xp = namespace(at.variance)
        return xp.log(positive(at.mean**2)) + xp.log(at.variance) + 2 * at.log_density

    def partials(self, at: Moments) -> Partials:
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
        xp = namespace(at.variance)
        spread = at.variance / 2 + at.mean**2
        return xp.log(at.variance) + xp.log(spread) + 2 * at.log_density

    def partials(self, at: Moments) -> Partials:
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
        return self.weight * at.mean + at.variance

    def partials(self, at: Moments) -> Partials:
        ones = namespace(at.variance).ones_like(at.variance)
        return Partials(mean=self.weight * ones, variance=ones)
