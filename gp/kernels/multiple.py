"""The kernel of multiples of one known function, k(x, y) = variance g(x) g(y): f = a g, a ~ N(0, variance).

Added to a process with the prior mean g it gives that mean an unknown scale: the mean is a g with
a ~ N(1, variance), and a is integrated out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import Array
from gp.kernels.base import Algebra, Derivatives, Differentiable, of_rank_one, parameter


@dataclass(frozen=True, eq=False)
class Multiple(Algebra):
    """The kernel above. NumPy only.

    Attributes
    ----------
    function : g. variance : the variance of the factor a, a positive number.
    """

    function: Differentiable
    variance: Array = parameter(1.0, "variance")

    def __call__(self, x: Array, y: Array) -> Array:
        return self.variance * np.outer(self.function(x), self.function(y))

    def diagonal(self, x: Array) -> Array:
        return self.variance * self.function(x) ** 2

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        g, slope = self.variance * self.function(y), self.variance * self.function.gradient(y)
        return of_rank_one(self.function(x), g, self.function.gradient(x), slope)
