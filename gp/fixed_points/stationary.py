"""Gram matrices of stationary kernels at fixed points.

With the gaps g_d = |x_d - y_d| of the pairs and b_d = sqrt(3) g_d / l_d, of variance 1,

    radial                 k = phi(s), s = sum_d g_d^2 / l_d^2,   dk/dlog l_d = -2 phi'(s) g_d^2 / l_d^2
    Matern 3/2 by column   k = prod_d (1 + b_d) exp(-b_d),        dk/dlog l_d = k b_d^2 / (1 + b_d)

and the sums over coordinates are matrix-vector products. `products` has the derivatives of a squared
exponential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from typing import Any

import numpy as np

from gp.fixed_points.gram import Changes, Gram, covariance_with_pullback, gram_of, laid_out, of_gaps
from gp.fixed_points.products import FixedSlopes, by_coordinate
from gp.kernels import (
    ByColumn,
    Columns,
    Mapped,
    Matern32,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
    Tilted,
)
from gp.kernels.base import Pullback
from gp.observations import Functional, Values


@gram_of.register
def _radial_gram(kernel: Stationary, observed: Functional) -> Gram:
    """Return the covariance of values, and of derivatives too under a squared exponential."""

    def at(x: np.ndarray, m: int) -> Gram | None:
        if hasattr(kernel, "with_pullback") or (m and type(kernel) is not SquaredExponential):
            return None
        return FixedSlopes.of(x, m) if m else of_gaps(x, _radial, squared=True)

    return laid_out(observed, at)


@gram_of.register
def _by_column_gram(kernel: ByColumn, observed: Functional) -> Gram:
    """Return the covariance of values under a product over columns."""

    def at(x: np.ndarray, m: int) -> Gram | None:
        return None if m else of_gaps(x, _matern32 if type(kernel.kernel) is Matern32 else _columns)

    return laid_out(observed, at)


def _radial(squares: np.ndarray, kernel: Stationary) -> Any:
    """A `Profile` of squared gaps: k = v phi(s) and dk/dlog l_d = -2 v phi'(s) g_d^2 / l_d^2."""
    lengthscales, one = by_coordinate(kernel, len(squares))
    precision = lengthscales**-2.0
    scaled = cache(lambda: precision @ squares)

    def steep(k: np.ndarray) -> np.ndarray:
        if type(kernel) is SquaredExponential:
            return k
        return -2.0 * float(kernel.variance) * kernel.slope(scaled())

    def shaped(k: np.ndarray) -> np.ndarray:
        """The derivatives in ln alpha, (1, P), where there is one."""
        if not isinstance(kernel, RationalQuadratic):
            return np.zeros((0, len(k)))
        half = 0.5 * scaled()
        return (kernel.alpha * k * (half / (kernel.alpha + half) - np.log1p(half / kernel.alpha)))[None]

    def contracted(weights: np.ndarray, k: np.ndarray) -> np.ndarray:
        lengths = squares @ (weights * steep(k)) * precision
        total = (weights * k).sum()
        return np.concatenate([[lengths.sum()] if one else lengths, shaped(k) @ weights, [total]])

    def changes(k: np.ndarray) -> np.ndarray:
        each = squares.sum(0)[None] * precision[:1] if one else squares * precision[:, None]
        return np.concatenate([steep(k) * each, shaped(k)])

    return lambda: float(kernel.variance) * kernel.profile(scaled()), contracted, changes


def _matern32(gaps: np.ndarray, kernel: ByColumn) -> Any:
    lengthscales, one = by_coordinate(kernel.kernel, len(gaps))
    b = gaps * (sqrt(3) / lengthscales)[:, None]
    raised = 1 + b
    return _product(
        kernel.kernel, lambda: np.prod(raised, axis=0) * np.exp(-b.sum(axis=0)), lambda: b**2 / raised, one
    )


def _columns(gaps: np.ndarray, kernel: ByColumn) -> Any:
    inner = kernel.kernel
    lengthscales, one = by_coordinate(inner, len(gaps))
    s = (gaps / lengthscales[:, None]) ** 2
    factors = np.maximum(inner.profile(s), 1e-300)  # they underflow for distant points
    return _product(inner, lambda: np.prod(factors, axis=0), lambda: -2 * s * inner.slope(s) / factors, one)


def _product(
    kernel: Stationary, of_values: Callable[[], np.ndarray], slopes: Callable[[], np.ndarray], one: bool
) -> Any:
    """A `Profile` from k of variance 1, and its dlog k / dlog l (D, P)."""

    def contracted(weights: np.ndarray, k: np.ndarray) -> np.ndarray:
        weighted = weights * k
        lengths = slopes() @ weighted
        return np.append(lengths.sum() if one else lengths, weighted.sum())

    def changes(k: np.ndarray) -> np.ndarray:
        rows = k * slopes()
        return rows.sum(0)[None] if one else rows

    return lambda: float(kernel.variance) * of_values(), contracted, changes


@gram_of.register
def _tilted_gram(kernel: Tilted, observed: Functional) -> Gram:
    """Return the Gram matrix of k with its rows and columns scaled."""
    if not isinstance(observed, Values):
        return lambda changed: covariance_with_pullback(changed, observed)
    inner, a = gram_of(kernel.kernel, observed), kernel.factor(observed.x)

    def tilted(matrix: np.ndarray) -> np.ndarray:
        both = np.outer(a, a)
        return np.multiply(both, matrix, out=both)

    def gram(changed: Tilted) -> tuple[np.ndarray, Pullback]:
        matrix, pullback = inner(changed.kernel)
        pulled, column = lambda weights: pullback(tilted(weights)), a[:, None]
        if not isinstance(pullback, Changes):
            return tilted(matrix), pulled
        return tilted(matrix), Changes(pulled, lambda vectors: column * pullback.times(column * vectors))

    return gram


@gram_of.register
def _mapped_gram(kernel: Mapped | Columns, observed: Functional) -> Gram:
    """Return the Gram matrix of the kernel inside at the mapped points, or at some of their columns."""
    if not isinstance(observed, Values):
        return lambda changed: covariance_with_pullback(changed, observed)
    inner = gram_of(kernel.kernel, Values(kernel.forward(observed.x)))
    return lambda changed: inner(changed.kernel)


def components_gram(
    scaled: np.ndarray, components: Sequence[np.ndarray]
) -> Callable[[np.ndarray], tuple[np.ndarray, Pullback]]:
    """The covariance exp(-|x - y|^2 / (2 l^2)) + sum_j b_j C_j as a function of psi = ln (l, b_1, ..).

    Parameters
    ----------
    scaled : points x, (n, D). components : C_j, (n, n) each, which may be of other coordinates.
    """
    halved = 0.5 * np.einsum("nd,nd->n", scaled, scaled)
    distances = np.maximum(2.0 * (halved[:, None] + halved - scaled @ scaled.T), 0.0)

    def gram(psi: np.ndarray) -> tuple[np.ndarray, Pullback]:
        lengthscale, *sizes = np.exp(psi)
        stretched = distances / lengthscale**2
        matrix = np.exp(-0.5 * stretched)
        stretched *= matrix
        for size, component in zip(sizes, components, strict=True):
            matrix += size * component
        return matrix, Changes.of([1.0, *sizes], [stretched, *components])

    return gram
