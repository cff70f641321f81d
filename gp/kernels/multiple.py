"""The kernel of multiples of one known function, k(x, y) = variance g(x) g(y): f = a g, a ~ N(0, variance).

Added to a process with the prior mean g it gives that mean an unknown scale: the mean is a g with
a ~ N(1, variance), and a is integrated out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gp.arrays import Array, require_positive
from gp.kernels.base import Algebra, Derivatives, DiagonalDerivatives, Differentiable, Parameter, Pullback


@dataclass(frozen=True, eq=False)
class Multiple(Algebra):
    """The kernel above. NumPy only.

    Attributes
    ----------
    function : g. variance : the variance of the factor a, a positive number.
    """

    function: Differentiable
    variance: Array = 1.0

    def __post_init__(self) -> None:
        require_positive("variance", self.variance)

    def __call__(self, x: Array, y: Array) -> Array:
        """Return k(x_i, y_j), (n, m)."""
        return self.variance * np.outer(self.function(x), self.function(y))

    def diagonal(self, x: Array) -> Array:
        """Return k(x_i, x_i), (n,)."""
        return self.variance * self.function(x) ** 2

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the variance."""
        return (Parameter("variance", self.variance, "variance"),)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with another variance."""
        return replace(self, variance=values[0])

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return k(x, x) and its pull-back to log variance."""
        matrix = self(x, x)
        return matrix, lambda weights: np.array([np.vdot(weights, matrix)])

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Return k and its first derivatives in both arguments; shapes in :class:`Derivatives`."""
        g_x, g_y = self.function(x), self.variance * self.function(y)
        slope_x, slope_y = self.function.gradient(x), self.variance * self.function.gradient(y)
        k_x = slope_x[:, :, None] * g_y
        k_y = g_x[:, None, None] * slope_y
        return Derivatives(np.outer(g_x, g_y), k_x, k_y, slope_x[:, :, None, None] * slope_y)

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        """Return the same at the pairs (x_i, x_i)."""
        g, slope = self.function(x), self.function.gradient(x)
        k_x = self.variance * g[:, None] * slope
        k_xy = self.variance * slope[:, :, None] * slope[:, None, :]
        return DiagonalDerivatives(self.variance * g**2, k_x, k_x, k_xy)
