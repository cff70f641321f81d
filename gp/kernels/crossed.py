"""Covariances of f with its values and its derivatives at other points, in one pass.

Values and derivatives have most of their computation in common, and the derivatives in both arguments, which
:meth:`gp.kernels.base.DifferentiableKernel.derivatives` returns too, are not needed here. A faster function
for a kernel class is registered by ``@value_slopes.register``.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from gp.arrays import IN_CACHE, differences
from gp.kernels.anova import Anova
from gp.kernels.base import Kernel, differentiable
from gp.kernels.composite import Sum
from gp.kernels.multiple import Multiple
from gp.kernels.polynomial import Constant, QuadraticTrend


def crossed(kernel: Kernel, x: np.ndarray, y: np.ndarray, slopes: int = 0) -> np.ndarray:
    """Return the covariances of f at x (m, D) with f at y (n, D), and with derivatives at the first of y.

    The shape is (m, n + D slopes): values, and then the derivatives at the first ``slopes`` points, those of
    a point next to each other. NumPy only.
    """
    if not slopes:
        return kernel(x, y)
    m, (n, dimension) = len(x), y.shape
    found = np.empty((m, n + slopes * dimension))
    if slopes < n:
        found[:, slopes:n] = kernel(x, y[slopes:])
    steep = found[:, n:].reshape(m, slopes, dimension)  # a view
    block = max(IN_CACHE // max(slopes * dimension, 1), 1)
    for rows in (slice(at, at + block) for at in range(0, m, block)):
        found[rows, :slopes], slope = _value_slopes(kernel, x[rows], y[:slopes])
        for d in range(dimension):  # a loop over pairs each, where `moveaxis` has one over coordinates
            steep[rows, :, d] = slope[d]
    return found


@singledispatch
def _value_slopes(kernel: Kernel, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return k(x_i, y_j), (m, n), and its derivatives in y, (D, m, n). NumPy only."""
    found = differentiable(kernel).derivatives(x, y)
    return found.k, np.moveaxis(found.k_y, -1, 0)


@_value_slopes.register
def _anova(kernel: Anova, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _anovas([kernel], x, y)


def _anovas(kernels: list[Anova], x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum over kernels, which have the differences of coordinates in common."""
    gap = differences(x, y)
    squares = gap * gap
    values, slopes = np.zeros(gap.shape[1:]), np.zeros(())
    for kernel in kernels:
        precision = (kernel.lengthscale**-2.0)[:, None, None]
        varying = squares * (-0.5 * precision)
        np.exp(varying, out=varying)
        varying *= kernel.interaction
        ratio = varying + 1.0
        p = np.prod(ratio, axis=0)
        g = np.divide(varying, ratio, out=varying)
        g *= gap
        g *= precision
        height = kernel.height
        g *= height * p
        p -= 1.0  # before it is multiplied: the height may be far larger than the variance
        p *= height
        values += p
        slopes = np.add(slopes, g, out=slopes) if slopes.ndim else g
    return values, slopes


@_value_slopes.register
def _quadratic(kernel: QuadraticTrend, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t = x @ y.T
    return kernel.of_products(t), kernel.slope(t) * np.ascontiguousarray(x.T)[:, :, None]


@_value_slopes.register
def _constant(kernel: Constant, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return kernel(x, y), np.zeros((x.shape[1], len(x), len(y)))


@_value_slopes.register
def _multiple(kernel: Multiple, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    g = kernel.variance * kernel.function(x)
    return np.outer(g, kernel.function(y)), g[:, None] * kernel.function.gradient(y).T[:, None, :]


@_value_slopes.register
def _sum(kernel: Sum, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    varying = [term for term in kernel.terms if isinstance(term, Anova)]
    values, slopes = _anovas(varying, x, y) if varying else (np.zeros((len(x), len(y))), np.zeros(()))
    for term in kernel.terms:
        if isinstance(term, Constant):
            values += term(x, y)
        elif not isinstance(term, Anova):
            more, steeper = _value_slopes(term, x, y)
            values += more
            slopes = slopes + steeper
    return values, np.broadcast_to(slopes, (x.shape[1], len(x), len(y)))
