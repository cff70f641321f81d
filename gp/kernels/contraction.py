"""Weighted sums of gradients in points, for ascent in x, without an (n, m, D) array.

For weights A, the gradient of sum_ij A_ij k(x_i, y_j) in x_i is

    g_i = sum_j A_ij dk(x_i, y_j)/dx_i.

A radial kernel has dk/dx = 2 variance phi'(s) (x - y) / l^2, so that with B = 2 variance A phi'(s)

    g_i = (x_i sum_j B_ij - sum_j B_ij y_j) / l^2,

two matrix products. Each factor of a product is contracted with weights times the other factors. For kernels
without a function registered here the array of derivatives is computed.
"""

from __future__ import annotations

from functools import reduce, singledispatch
from operator import mul

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Homogeneous, Kernel, differentiable
from gp.kernels.composite import ByColumn, Columns, Product, Sum, spread_columns
from gp.kernels.stationary import Stationary
from gp.kernels.white import White


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
def _radial(kernel: Stationary, x: Array, y: Array, weights: Array) -> Array:
    if y.shape[0] == 0:
        return namespace(x).zeros_like(x)
    b = weights * kernel.slope(kernel.squared_distance(x, y))
    centre = y[:1, :]  # differences from a point of y keep digits that differences from the origin would lose
    total = namespace(x).sum(b, axis=1)[:, None]
    pulled = (x - centre) * total - b @ (y - centre)
    return 2 * as_like(kernel.variance, x) * pulled / as_like(kernel.lengthscale, x) ** 2


@contracted_gradient.register
def _by_column(kernel: ByColumn, x: Array, y: Array, weights: Array) -> Array:
    # sum_j A_ij k_ij dlog phi_d / dx_d
    return namespace(x).sum((weights * kernel(x, y)) * kernel.log_slopes(x, y), axis=2).T


@contracted_gradient.register
def _white(kernel: White, x: Array, y: Array, weights: Array) -> Array:
    return namespace(x).zeros_like(x)


@contracted_gradient.register
def _sum(kernel: Sum, x: Array, y: Array, weights: Array) -> Array:
    return sum(contracted_gradient(term, x, y, weights) for term in kernel.terms)


@contracted_gradient.register
def _product(kernel: Product, x: Array, y: Array, weights: Array) -> Array:
    values = [factor(x, y) for factor in kernel.factors]
    return sum(
        contracted_gradient(factor, x, y, reduce(mul, [*values[:t], *values[t + 1 :]], weights))
        for t, factor in enumerate(kernel.factors)
    )


@contracted_gradient.register
def _columns(kernel: Columns, x: Array, y: Array, weights: Array) -> Array:
    seen = list(kernel.columns)
    inner = contracted_gradient(kernel.kernel, x[:, seen], y[:, seen], weights)
    return spread_columns(inner, kernel.columns, x.shape[1], 1)
