"""The upper confidence bound in the form of the thesis (Section 7.3.4).

    a(x) = lambda m(x) + Var(f(x))

lambda = 0 is pure exploration, uncertainty sampling of f. Bayesian optimisation usually has m + beta sd; here
the variance is added, so lambda has the units of f.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise.criterion import Moments, Partials
from gp.arrays import Array, namespace


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
