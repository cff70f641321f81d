"""Kernels of functions with few degrees of freedom: a constant, a linear function, and a quadratic one.

Constant:        k(x, y) = variance                                                f = c
Linear:          k(x, y) = sum_d variance_d (x_d - offset_d)(y_d - offset_d)       f = w^T (x - offset)
QuadraticTrend:  k(x, y) = linear x . y + quadratic (x . y)^2 / 2                  f = w^T x + x^T M x / 2

with c ~ N(0, variance) and independent w_d ~ N(0, variance_d). The quadratic functions vanish at zero, as the
trend of a log density in coordinates about its mode; their w_d ~ N(0, linear) are independent, and so are the
entries of the symmetric M, of variance ``quadratic`` off the diagonal and twice that on it. This kernel is
invariant under rotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gp.arrays import Array, as_like, namespace, require_positive, to_numpy
from gp.kernels.base import Algebra, Derivatives, DiagonalDerivatives, Parameter, Pullback
from gp.kernels.stationary import diagonal_matrix


@dataclass(frozen=True, eq=False)
class Constant(Algebra):
    """The same value everywhere; variance a positive number in squared output units."""

    variance: Array = 1.0

    def __post_init__(self) -> None:
        require_positive("variance", self.variance)

    def __call__(self, x: Array, y: Array) -> Array:
        """Return k(x_i, y_j), (n, m)."""
        xp = namespace(x, y)
        return as_like(self.variance, x) * xp.ones_like(x[:, :1]) * xp.ones_like(y[:, 0])

    def diagonal(self, x: Array) -> Array:
        """Return the variance, (n,)."""
        return as_like(self.variance, x) * namespace(x).ones_like(x[:, 0])

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the variance."""
        return (Parameter("variance", self.variance, "variance", output_power=2),)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with another variance."""
        return replace(self, variance=values[0])

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return k(x, x) and its pull-back to log variance."""
        return self(x, x), lambda weights: np.atleast_1d(self.variance * weights.sum())

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Return k; every derivative is zero."""
        xp = namespace(x, y)
        k = self(x, y)
        k_x = xp.zeros_like(x)[:, :, None] * xp.ones_like(k[0, :])
        k_y = xp.ones_like(k)[:, :, None] * xp.zeros_like(x[0, :])
        return Derivatives(k, k_x, k_y, k_x[:, :, :, None] * xp.ones_like(x[0, :]))

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        """Return k; every derivative is zero."""
        zero = namespace(x).zeros_like(x)
        return DiagonalDerivatives(self.diagonal(x), zero, zero, zero[:, :, None] * zero[0, :])


@dataclass(frozen=True, eq=False)
class Linear(Algebra):
    """Linear functions that vanish at ``offset``.

    Attributes
    ----------
    variance : a positive number or (D,), of the weights: (output unit / input unit)^2.
    offset : a number or (D,), in the unit of the inputs.
    """

    variance: Array = 1.0
    offset: Array = 0.0

    def __post_init__(self) -> None:
        require_positive("variance", self.variance)
        if not np.all(np.isfinite(to_numpy(self.offset))):
            raise ValueError(f"offset = {self.offset!r}: it has to be finite")

    def _centred(self, x: Array) -> Array:
        return x - as_like(self.offset, x)

    def _weighted(self, x: Array) -> Array:
        return self._centred(x) * as_like(self.variance, x)

    def __call__(self, x: Array, y: Array) -> Array:
        """Return k(x_i, y_j), (n, m)."""
        return self._weighted(x) @ self._centred(y).T

    def diagonal(self, x: Array) -> Array:
        """Return k(x_i, x_i), (n,)."""
        return namespace(x).sum(self._weighted(x) * self._centred(x), axis=1)

    def parameters(self) -> tuple[Parameter, ...]:
        """Return variance and offset."""
        return (
            Parameter("variance", self.variance, "variance", input_power=-2, output_power=2),
            Parameter("offset", self.offset, "location", input_power=1, positive=False),
        )

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other values."""
        return replace(self, variance=values[0], offset=values[1])

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return k(x, x) and its pull-back to log variance and offset."""
        centred = self._centred(x)

        def pullback(weights: Array) -> Array:
            product = weights @ centred  # (n, D)
            variance = self.variance * np.einsum("id,id->d", centred, product)
            offset = -2 * self.variance * product.sum(axis=0)
            return np.concatenate(
                [
                    variance if np.size(self.variance) > 1 else [variance.sum()],
                    offset if np.size(self.offset) > 1 else [offset.sum()],
                ]
            )

        return self(x, x), pullback

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Return k and its first derivatives in both arguments; shapes in :class:`Derivatives`."""
        xp = namespace(x, y)
        n, m = xp.ones_like(x[:, 0]), xp.ones_like(y[:, 0])
        variance = as_like(self.variance, x) * xp.ones_like(x[0, :])
        k_x = n[:, None, None] * self._weighted(y).T
        k_y = self._weighted(x)[:, None, :] * m[:, None]
        identity = diagonal_matrix(variance)[:, None, :] * m[:, None]  # (D, m, D)
        return Derivatives(self(x, y), k_x, k_y, n[:, None, None, None] * identity)

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        """Return k and its first derivatives at the pairs (x_i, x_i)."""
        xp = namespace(x)
        k_x = self._weighted(x)
        variance = as_like(self.variance, x) * xp.ones_like(x[0, :])
        k_xy = xp.ones_like(x[:, 0])[:, None, None] * diagonal_matrix(variance)
        return DiagonalDerivatives(self.diagonal(x), k_x, k_x, k_xy)


@dataclass(frozen=True, eq=False)
class QuadraticTrend(Algebra):
    """Quadratic functions that vanish at zero.

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
