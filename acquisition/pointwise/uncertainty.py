"""Uncertainty sampling: the next point is where the variance of the integrand is largest.

Thesis Eq. 7.18 (Gunter et al. 2014): argmax Var[f(x) p(x)] = v(x) p(x)^2. With the density to the
power 0 it is the posterior variance alone, as thesis 7.3.4 considers for mini-batches. Where f is a
log density that q = p approximates, exp(m) is large where the mass is expected: prospective
uncertainty sampling (Acerbi 2018, Eq. 8), v(x) p(x) exp(m(x)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise.criterion import Moments, Partials
from gp.arrays import Array, namespace


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
