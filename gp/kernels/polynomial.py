"""Kernels of functions with few degrees of freedom: constant, linear, quadratic, and multiples of one.

Constant:        k(x, y) = variance                                                f = c
Linear:          k(x, y) = sum_d variance_d (x_d - offset_d)(y_d - offset_d)       f = w^T (x - offset)
QuadraticTrend:  k(x, y) = linear x . y + quadratic (x . y)^2 / 2                  f = w^T x + x^T M x / 2
Multiple:        k(x, y) = variance g(x) g(y)                                      f = a g

with c ~ N(0, variance) and independent w_d ~ N(0, variance_d). The quadratic functions vanish at zero, as the
trend of a log density in coordinates about its mode; their w_d ~ N(0, linear) are independent, and so are the
entries of the symmetric M, of variance ``quadratic`` off the diagonal and twice that on it. This kernel is
invariant under rotations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import (
    Algebra,
    Derivatives,
    Differentiable,
    Homogeneous,
    Pullback,
    of_rank_one,
    parameter,
)
from gp.kernels.stationary import diagonal_matrix


@dataclass(frozen=True, eq=False)
class Constant(Homogeneous):
    """The same value everywhere; variance a positive number in squared output units."""

    variance: Array = parameter(1.0, "variance", output_power=2)

    def __call__(self, x: Array, y: Array) -> Array:
        xp = namespace(x, y)
        return as_like(self.variance, x) * xp.ones_like(x[:, :1]) * xp.ones_like(y[:, 0])

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        xp = namespace(x, y)
        return of_rank_one(self.diagonal(x), xp.ones_like(y[:, 0]), xp.zeros_like(x), xp.zeros_like(y))


@dataclass(frozen=True, eq=False)
class Linear(Algebra):
    """Linear functions that vanish at ``offset``.

    Attributes
    ----------
    variance : a positive number or (D,), of the weights: (output unit / input unit)^2.
    offset : a number or (D,), in the unit of the inputs.
    """

    variance: Array = parameter(1.0, "variance", input_power=-2, output_power=2)
    offset: Array = parameter(0.0, "location", input_power=1, positive=False)

    def _centred(self, x: Array) -> Array:
        return x - as_like(self.offset, x)

    def _weighted(self, x: Array) -> Array:
        return self._centred(x) * as_like(self.variance, x)

    def __call__(self, x: Array, y: Array) -> Array:
        return self._weighted(x) @ self._centred(y).T

    def diagonal(self, x: Array) -> Array:
        return namespace(x).sum(self._weighted(x) * self._centred(x), axis=1)

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
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
        xp = namespace(x, y)
        n, m = xp.ones_like(x[:, 0]), xp.ones_like(y[:, 0])
        variance = as_like(self.variance, x) * xp.ones_like(x[0, :])
        k_x = n[:, None, None] * self._weighted(y).T
        k_y = self._weighted(x)[:, None, :] * m[:, None]
        identity = diagonal_matrix(variance)[:, None, :] * m[:, None]  # (D, m, D)
        return Derivatives(self(x, y), k_x, k_y, n[:, None, None, None] * identity)


@dataclass(frozen=True, eq=False)
class QuadraticTrend(Algebra):
    """Quadratic functions that vanish at zero.

    Attributes
    ----------
    linear : a positive number, in (output unit / input unit)^2.
    quadratic : a positive number, in (output unit / input unit^2)^2.
    """

    linear: Array = parameter(1.0, "variance", input_power=-2, output_power=2)
    quadratic: Array = parameter(1.0, "variance", input_power=-4, output_power=2)

    def of_products(self, t: Array) -> Array:
        """Return k where x . y is t, of any shape."""
        return t * (as_like(self.linear, t) + 0.5 * as_like(self.quadratic, t) * t)

    def slope(self, t: Array) -> Array:
        """Return dk/dt at inner products ``t``."""
        return as_like(self.linear, t) + as_like(self.quadratic, t) * t

    def __call__(self, x: Array, y: Array) -> Array:
        return self.of_products(x @ y.T)

    def diagonal(self, x: Array) -> Array:
        return self.of_products(namespace(x).sum(x**2, axis=1))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        xp = namespace(x, y)
        t = x @ y.T
        slope, second = self.slope(t), as_like(self.quadratic, x)
        k_x, k_y = slope[:, None, :] * y.T, slope[:, :, None] * x[:, None, :]
        identity = xp.eye(x.shape[1], dtype=x.dtype, device=x.device)
        k_xy = slope[:, None, :, None] * identity[:, None, :]
        k_xy = k_xy + second * y.T[None, :, :, None] * x[:, None, None, :]
        return Derivatives(self.of_products(t), k_x, k_y, k_xy)


@dataclass(frozen=True, eq=False)
class Multiple(Algebra):
    """Multiples of one known function g, f = a g, a ~ N(0, variance). NumPy only.

    Added to a process with the prior mean g it gives that mean an unknown scale: the mean is a g with
    a ~ N(1, variance), and a is integrated out.

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
