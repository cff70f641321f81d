"""Gram matrices of stationary kernels at fixed points.

With the gaps g_d = |x_d - y_d| of the pairs and b_d = sqrt(3) g_d / l_d, of variance 1,

    squared exponential    k = exp(-sum_d g_d^2 / (2 l_d^2)),     dk/dlog l_d = k g_d^2 / l_d^2
    Matern 3/2 by column   k = prod_d (1 + b_d) exp(-b_d),        dk/dlog l_d = k b_d^2 / (1 + b_d)
    Matern 1/2 by column   k = exp(-sum_d g_d / l_d),             dk/dlog l_d = k g_d / l_d

and the sums over coordinates are matrix-vector products. For a squared exponential with all derivatives
observed at the same points too, s = (x - y) / l^2 gives cov(f, d_d f') = k s_d and cov(d_d f, d_e f') = k
(1[d = e] / l_d^2 - s_d s_e). Their derivatives in log l_m follow from dk/dlog l_m and ds_m/dlog l_m = -2 s_m
by the product rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from gp.fixed_points.gram import (
    MOST_PAIRED,
    Changes,
    Gram,
    gradients_alone,
    gram_of,
    of_gaps,
    slopes_at,
    without_values,
)
from gp.grams import covariance_with_pullback
from gp.kernels import ByColumn, Mapped, Matern12, Matern32, SquaredExponential, Stationary, Tilted
from gp.kernels.base import Pullback
from gp.observations import Functional, Values


@gram_of.register
def _squared_exponential_gram(kernel: SquaredExponential, observed: Functional) -> Gram:
    """Return the covariance of values, or of values and all derivatives at the same points."""
    if gradients_alone(observed) and type(kernel) is SquaredExponential:
        return without_values(kernel, observed.x)
    found = slopes_at(observed)
    if type(kernel) is not SquaredExponential or found is None:
        return lambda changed: covariance_with_pullback(changed, observed)
    x, m = found
    if m == 0:
        return of_gaps(x, _squared_exponential, squared=True)
    if m < len(x) or m > MOST_PAIRED:
        return lambda changed: covariance_with_pullback(changed, observed)
    return _of_slopes(x)


@gram_of.register
def _by_column_gram(kernel: ByColumn, observed: Functional) -> Gram:
    """Return the covariance of values under a product over columns of Matern 1/2 or 3/2 kernels."""
    found, inner = slopes_at(observed), type(kernel.kernel)
    if found is None or found[1] or inner not in (Matern12, Matern32):
        return lambda changed: covariance_with_pullback(changed, observed)
    gram = of_gaps(found[0], _exponential if inner is Matern12 else _rough)
    return lambda changed: gram(changed.kernel)


def _squared_exponential(squares: np.ndarray, kernel: Stationary) -> Any:
    lengthscales, one = _by_coordinate(kernel, len(squares))
    precision = lengthscales**-2.0
    return _stationary(
        kernel,
        lambda: np.exp((-0.5 * precision) @ squares),
        lambda weighted: squares @ weighted * precision,
        lambda: squares.sum(0)[None] * precision[:1] if one else squares * precision[:, None],
        one,
    )


def _exponential(gaps: np.ndarray, kernel: Stationary) -> Any:
    lengthscales, one = _by_coordinate(kernel, len(gaps))
    return _stationary(
        kernel,
        lambda: np.exp((-1 / lengthscales) @ gaps),
        lambda weighted: gaps @ weighted / lengthscales,
        lambda: gaps / lengthscales[:, None],
        one,
    )


def _rough(gaps: np.ndarray, kernel: Stationary) -> Any:
    lengthscales, one = _by_coordinate(kernel, len(gaps))
    b = gaps * (sqrt(3) / lengthscales)[:, None]
    raised = 1 + b
    return _stationary(
        kernel,
        lambda: np.prod(raised, axis=0) * np.exp(-b.sum(axis=0)),
        lambda weighted: (b**2 / raised) @ weighted,
        lambda: b**2 / raised,
        one,
    )


def _stationary(
    kernel: Stationary,
    of_values: Callable[[], np.ndarray],
    to_lengths: Callable[[np.ndarray], np.ndarray],
    slopes: Callable[[], np.ndarray],
    one: bool,
) -> Any:
    """A `Profile` from k of variance 1, the gradient in ln l (D,) of weights times k, and dlog k/dlog l."""
    variance = float(kernel.variance)

    def values() -> np.ndarray:
        return of_values() if variance == 1.0 else variance * of_values()

    def contracted(weights: np.ndarray, k: np.ndarray) -> np.ndarray:
        weighted = weights * k
        lengths = to_lengths(weighted)
        return np.append(lengths.sum() if one else lengths, weighted.sum())

    def changes(k: np.ndarray) -> np.ndarray:
        rows = k * slopes()
        return rows.sum(0)[None] if one and len(rows) > 1 else rows

    return values, contracted, changes


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
def _mapped_gram(kernel: Mapped, observed: Functional) -> Gram:
    """Return the Gram matrix of k at the mapped points."""
    if not isinstance(observed, Values):
        return lambda changed: covariance_with_pullback(changed, observed)
    inner = gram_of(kernel.kernel, Values(kernel.forward(observed.x)))
    return lambda changed: inner(changed.kernel)


def _by_coordinate(kernel: Stationary, width: int) -> tuple[np.ndarray, bool]:
    """One lengthscale for each coordinate, (D,), and whether they are one parameter."""
    given = kernel.lengthscale
    if type(given) is np.ndarray and given.shape == (width,):
        return given, width == 1
    return np.broadcast_to(np.asarray(given, dtype=float), (width,)), np.size(given) == 1


def _of_slopes(x: np.ndarray) -> Gram:
    """Return the Gram matrix of values and all derivatives at points (n, D)."""
    n, dimension = x.shape
    apart = x[:, None, :] - x[None, :, :]
    squares = apart**2

    def gram(kernel: SquaredExponential) -> tuple[np.ndarray, Pullback]:
        lengthscales, one = _by_coordinate(kernel, dimension)
        precision = lengthscales**-2.0
        k = kernel.variance * np.exp(-0.5 * squares @ precision)
        s = apart * precision
        matrix = np.empty((n + n * dimension, n + n * dimension))
        matrix[:n, :n] = k
        matrix[:n, n:] = (k[:, :, None] * s).reshape(n, -1)
        matrix[n:, :n] = matrix[:n, n:].T
        slopes = np.einsum("ijd,ije->idje", -(k[:, :, None] * s), s)
        for d in range(dimension):
            slopes[:, d, :, d] += precision[d] * k
        matrix[n:, n:] = slopes.reshape(n * dimension, -1)

        def pullback(weights: np.ndarray) -> np.ndarray:
            lengths, total = _slopes_pullback(weights, k, s, squares, precision)
            return np.append(lengths.sum() if one else lengths, total)

        if not one:
            return matrix, pullback

        def times(vectors: np.ndarray) -> np.ndarray:
            return np.stack([_stretched(matrix, k, s, precision[0]) @ vectors, matrix @ vectors])

        return matrix, Changes(pullback, times)

    return gram


def _stretched(matrix: np.ndarray, k: np.ndarray, s: np.ndarray, precision: float) -> np.ndarray:
    """The derivative of the matrix of values and derivatives in the logarithm of a common lengthscale."""
    n, _, dimension = s.shape
    distances = np.einsum("ijd,ijd->ij", s, s) / precision  # |x - y|^2 / l^2
    found: np.ndarray = matrix.reshape(n + n * dimension, -1).copy()
    found[:n, :n] *= distances
    found[:n, n:].reshape(n, n, dimension)[...] = (k * (distances - 2.0))[:, :, None] * s
    found[n:, :n] = found[:n, n:].T
    slopes = found[n:, n:].reshape(n, dimension, n, dimension)
    slopes *= (distances - 4.0)[:, None, :, None]
    for d in range(dimension):
        slopes[:, d, :, d] += (2.0 * precision) * k
    return found


def _slopes_pullback(
    weights: np.ndarray, k: np.ndarray, s: np.ndarray, squares: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, float]:
    """Sum W dK/dlog l, (D,), and sum W K."""
    n, _, dimension = s.shape
    cross = weights[:n, n:].reshape(n, n, dimension) * k[:, :, None] * s
    both = weights[n:, n:].reshape(n, dimension, n, dimension)
    same = np.einsum("idjd->ijd", both) * k[:, :, None] * precision
    mixed = np.einsum("idje,ije->ijd", both, s) * k[:, :, None] * s
    of_kernel = weights[:n, :n] * k + np.sum(2 * cross + same - mixed, axis=2)
    direct = -4 * cross - 2 * same + 4 * mixed
    lengths = np.einsum("ij,ijd->d", of_kernel, squares) * precision + direct.sum(axis=(0, 1))
    return lengths, float(of_kernel.sum())


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

    fixed = np.stack(components)

    def gram(psi: np.ndarray) -> tuple[np.ndarray, Pullback]:
        lengthscale, *sizes = np.exp(psi)
        changes = np.empty((1 + len(fixed), *distances.shape))
        stretched = np.divide(distances, lengthscale**2, out=changes[0])
        matrix = np.exp(-0.5 * stretched)
        stretched *= matrix
        np.multiply(fixed, np.array(sizes)[:, None, None], out=changes[1:])
        for change in changes[1:]:
            matrix += change
        return matrix, Changes.of(changes)

    return gram
