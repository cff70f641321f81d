"""The white kernel: an independent value at every point.

k(x, y) = variance if x = y, else 0.

It is a function of the *point*: two observations at one point share its value. Noise that differs
between observations at one point is not a kernel; give it as ``noise`` to the Gaussian process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gp.arrays import Array, as_like, namespace, require_positive
from gp.kernels.base import Algebra, Derivatives, DiagonalDerivatives, Parameter, Pullback
from gp.kernels.stationary import squared_distance

_NOT_DIFFERENTIABLE = (
    "White has no derivatives: its functions are continuous nowhere. Give the noise of the "
    "observations as `noise` where derivatives are observed or predicted"
)


@dataclass(frozen=True, eq=False)
class White(Algebra):
    """variance where the points are equal; variance a positive number in squared output units."""

    variance: Array = 1.0

    def __post_init__(self) -> None:
        require_positive("variance", self.variance)

    def __call__(self, x: Array, y: Array) -> Array:
        """Return k(x_i, y_j), (n, m)."""
        same = squared_distance(x, y) == 0
        return as_like(self.variance, x) * namespace(x).astype(same, x.dtype)

    def diagonal(self, x: Array) -> Array:
        """Return the variance, (n,)."""
        return as_like(self.variance, x) * namespace(x).ones_like(x[:, 0])

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the variance."""
        return (Parameter("variance", self.variance, "noise", output_power=2),)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with another variance."""
        return replace(self, variance=values[0])

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return k(x, x) and its pull-back to log variance."""
        k = self(x, x)
        return k, lambda weights: np.atleast_1d(np.vdot(weights, k))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Raise TypeError: the functions have no derivative."""
        raise TypeError(_NOT_DIFFERENTIABLE)

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        """Raise TypeError: the functions have no derivative."""
        raise TypeError(_NOT_DIFFERENTIABLE)
