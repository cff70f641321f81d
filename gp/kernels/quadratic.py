"""Quadratic functions that vanish at zero: the trend of a log density in coordinates about its mode.

    k(x, y) = linear x . y + quadratic (x . y)^2 / 2

is the covariance of f(x) = w . x + x^T M x / 2 with independent w_d ~ N(0, linear) and entries of the
symmetric M of variance ``quadratic`` off the diagonal and twice that on it. The kernel is invariant under
rotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gp.arrays import Array, as_like, namespace, require_positive
from gp.kernels.base import Algebra, Derivatives, DiagonalDerivatives, Parameter, Pullback

__all__ = ["QuadraticTrend"]


@dataclass(frozen=True, eq=False)
class QuadraticTrend(Algebra):
    """The kernel above.

    Attributes
    ----------
    linear : a positive number, in (output unit / input unit)^2.
    quadratic : a positive number, in (output unit / input unit^2)^2.
    """

    linear: Array = 1.0
    quadratic: Array = 1.0

    def __post_init__(self) -> None:
        require_positive("linear", self.linear)
        require_positive("quadratic", self.quadratic)

    def of_products(self, t: Array) -> Array:
        """Return k where x . y is t, of any shape."""
        return t * (as_like(self.linear, t) + 0.5 * as_like(self.quadratic, t) * t)

    def slope(self, t: Array) -> Array:
        """Return dk/dt at inner products ``t``."""
        return as_like(self.linear, t) + as_like(self.quadratic, t) * t

    def __call__(self, x: Array, y: Array) -> Array:
        """Return k(x_i, y_j), (n, m)."""
        return self.of_products(x @ y.T)

    def diagonal(self, x: Array) -> Array:
        """Return k(x_i, x_i), (n,)."""
        return self.of_products(namespace(x).sum(x**2, axis=1))

    def parameters(self) -> tuple[Parameter, ...]:
        """Return both variances."""
        return (
            Parameter("linear", self.linear, "variance", input_power=-2, output_power=2),
            Parameter("quadratic", self.quadratic, "variance", input_power=-4, output_power=2),
        )

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other variances."""
        return replace(self, linear=values[0], quadratic=values[1])

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return k(x, x) and its pull-back to the logarithms of the variances."""
        t = x @ x.T

        def pullback(weights: Array) -> Array:
            of_squares = 0.5 * self.quadratic * np.vdot(weights, t * t)
            return np.array([self.linear * np.vdot(weights, t), of_squares])

        return self.of_products(t), pullback

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Return k and its first derivatives in both arguments; shapes in :class:`Derivatives`."""
        xp = namespace(x, y)
        t = x @ y.T
        slope, second = self.slope(t), as_like(self.quadratic, x)
        k_x, k_y = slope[:, None, :] * y.T, slope[:, :, None] * x[:, None, :]
        identity = xp.eye(x.shape[1], dtype=x.dtype, device=x.device)
        k_xy = slope[:, None, :, None] * identity[:, None, :]
        k_xy = k_xy + second * y.T[None, :, :, None] * x[:, None, None, :]
        return Derivatives(self.of_products(t), k_x, k_y, k_xy)

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        """Return the same at the pairs (x_i, x_i)."""
        xp = namespace(x)
        t = xp.sum(x**2, axis=1)
        slope = self.slope(t)
        k_x = slope[:, None] * x
        identity = xp.eye(x.shape[1], dtype=x.dtype, device=x.device)
        k_xy = slope[:, None, None] * identity + as_like(self.quadratic, x) * x[:, :, None] * x[:, None, :]
        return DiagonalDerivatives(self.of_products(t), k_x, k_x, k_xy)
