"""Kernels of functions with few degrees of freedom: a constant, and a linear function.

Constant:  k(x, y) = variance                                        f = c
Linear:    k(x, y) = sum_d variance_d (x_d - offset_d)(y_d - offset_d)   f = w^T (x - offset)

with c ~ N(0, variance) and independent w_d ~ N(0, variance_d).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gp.arrays import Array, as_like, namespace, require_positive, to_numpy
from gp.kernels.base import Algebra, Derivatives, DiagonalDerivatives, Parameter, Pullback
from gp.kernels.stationary import diagonal_matrix

__all__ = ["Constant", "Linear"]


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
