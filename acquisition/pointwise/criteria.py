"""Uncertainty of f at a point, and what an observation there leaves of the variance of the integral.

    UncertaintySampling          v p^a               thesis Eq. 7.18 (Gunter et al. 2014): a = 2, Var[f p]
    IntegralVarianceReduction    c^2 / (v + noise)   thesis Eq. 7.17

With S the posterior variance of the integral and c(x) its posterior covariances with f(x), an observation of
f(x) with noise changes S to S - c^2 / (v + noise), whatever its value.
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
class IntegralVarianceReduction:
    """c^2 / (v + noise): the reduction of the variance of the integral (thesis Eq. 7.17)."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        return namespace(at.variance).log(reduction(at))

    def partials(self, at: Moments) -> Partials:
        return Partials(
            variance=-1 / at.predictive_variance, signals=2 * at.signals / positive(at.signals**2)
        )


def reduction(at: Moments) -> Array:
    """c^2 / (v + noise), c^2 raised above zero where rounding or symmetry makes it vanish, (m,)."""
    return positive(at.signals**2) / at.predictive_variance
