"""Covariances of f with its values and derivatives at other points, and weighted sums of their gradients.

Values and derivatives have most of their computation in common, and the derivatives in both arguments, which
:meth:`gp.kernels.base.DifferentiableKernel.derivatives` returns too, are not needed here.

For ascent in x the gradient of sum_ij A_ij k(x_i, y_j) in x_i, of weights A, is

    g_i = sum_j A_ij dk(x_i, y_j)/dx_i.

A radial kernel has dk/dx = 2 variance phi'(s) (x - y) / l^2, so that with B = 2 variance A phi'(s)

    g_i = (x_i sum_j B_ij - sum_j B_ij y_j) / l^2,

two matrix products, without an (n, m, D) array. Each factor of a product is contracted with weights times the
other factors. Of both functions there are faster ones for some classes of kernels, which are registered.
"""

from __future__ import annotations

from functools import reduce, singledispatch
from operator import mul

import numpy as np

from gp.arrays import IN_CACHE, Array, as_like, differences, namespace
from gp.kernels.anova import Anova
from gp.kernels.base import Homogeneous, Kernel, differentiable
from gp.kernels.composite import ByColumn, Columns, Product, Sum, spread_columns
from gp.kernels.polynomial import Constant, Multiple, QuadraticTrend
from gp.kernels.stationary import Stationary
from gp.kernels.white import White


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


@singledispatch
def contracted_gradient(kernel: Kernel, x: Array, y: Array, weights: Array) -> Array:
    """Return g_i = sum_j weights_ij dk(x_i, y_j)/dx_i, (n, D).

    Parameters
    ----------
    kernel : differentiable, or radial (whose gradient exists but at x = y, where it is taken as 0).
    x : (n, D), y : (m, D)
    weights : (n, m), or (m,) where they are the same for all x.
    """
    k_x = differentiable(kernel).derivatives(x, y).k_x
    return namespace(x).sum(weights[:, None, :] * k_x, axis=2)


def diagonal_gradient(kernel: Kernel, x: Array) -> Array:
    """Return the gradient of k(x_i, x_i) in x_i, (n, D): twice that in one of the two arguments."""
    if isinstance(kernel, Homogeneous | ByColumn):
        return namespace(x).zeros_like(x)
    return 2 * contracted_gradient(kernel, x, x, namespace(x).eye(x.shape[0], dtype=x.dtype, device=x.device))


@contracted_gradient.register
def _radial_contracted(kernel: Stationary, x: Array, y: Array, weights: Array) -> Array:
    if y.shape[0] == 0:
        return namespace(x).zeros_like(x)
    b = weights * kernel.slope(kernel.squared_distance(x, y))
    centre = y[:1, :]  # differences from a point of y keep digits that differences from the origin would lose
    total = namespace(x).sum(b, axis=1)[:, None]
    pulled = (x - centre) * total - b @ (y - centre)
    return 2 * as_like(kernel.variance, x) * pulled / as_like(kernel.lengthscale, x) ** 2


@contracted_gradient.register
def _by_column_contracted(kernel: ByColumn, x: Array, y: Array, weights: Array) -> Array:
    # sum_j A_ij k_ij dlog phi_d / dx_d
    return namespace(x).sum((weights * kernel(x, y)) * kernel.log_slopes(x, y), axis=2).T


@contracted_gradient.register
def _white_contracted(kernel: White, x: Array, y: Array, weights: Array) -> Array:
    return namespace(x).zeros_like(x)


@contracted_gradient.register
def _sum_contracted(kernel: Sum, x: Array, y: Array, weights: Array) -> Array:
    return sum(contracted_gradient(term, x, y, weights) for term in kernel.terms)


@contracted_gradient.register
def _product_contracted(kernel: Product, x: Array, y: Array, weights: Array) -> Array:
    values = [factor(x, y) for factor in kernel.factors]
    return sum(
        contracted_gradient(factor, x, y, reduce(mul, [*values[:t], *values[t + 1 :]], weights))
        for t, factor in enumerate(kernel.factors)
    )


@contracted_gradient.register
def _columns_contracted(kernel: Columns, x: Array, y: Array, weights: Array) -> Array:
    seen = list(kernel.columns)
    inner = contracted_gradient(kernel.kernel, x[:, seen], y[:, seen], weights)
    return spread_columns(inner, kernel.columns, x.shape[1], 1)
