"""Gram matrices of stationary kernels, and of products over columns, at fixed points.

Of analysis of variance kernels and squared exponentials, in the notation of :mod:`gp.kernels.anova`, values,
derivatives and pull-backs are functions of p and the D ratios u_d. Arrays (D, n, n) are kept coordinate
first: sums over pairs are then matrix-vector products.

With h_d = (x_d - y_d)^2 / l_d^2, g_d = u_d (x_d - y_d) / l_d^2 and c_d = u_d (1 - h_d) / l_d^2, covariances
are p (of values, less a constant), p g_d, -p g_d g_e and p c_d, and in the logarithm of a lengthscale l_c

    dp = p u_c h_c,   dg_c = g_c ((1 - u_c) h_c - 2),   dc_c = c_c (1 - u_c) h_c + u_c (4 h_c - 2) / l_c^2,

in that of w, dp = p sum_d u_d, dg_d = g_d (1 - u_d), dc_d = c_d (1 - u_d), less the derivative of the norm.
A squared exponential has all u_d = 1, no w and no constant.

Of other kernels, with the gaps g_d = |x_d - y_d| of the pairs and b_d = sqrt(3) g_d / l_d, of variance 1,

    radial                 k = phi(s), s = sum_d g_d^2 / l_d^2,   dk/dlog l_d = -2 phi'(s) g_d^2 / l_d^2
    Matern 3/2 by column   k = prod_d (1 + b_d) exp(-b_d),        dk/dlog l_d = k b_d^2 / (1 + b_d)

and the sums over coordinates are matrix-vector products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any

import numpy as np

from gp.arrays import differences
from gp.fixed_points.gram import Changes, Gram, covariance_with_pullback, gram_of, laid_out, of_gaps
from gp.kernels import (
    Anova,
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
def _anova_gram(kernel: Anova, observed: Functional) -> Gram:
    """Return the covariance as a function of lengthscales, interaction and variance."""

    def at(x: np.ndarray, m: int) -> Gram:
        return FixedSlopes.of(x, m) if m else of_gaps(x, _of_squares, squared=True)

    return laid_out(observed, at)


def by_coordinate(kernel: Stationary | Anova, width: int) -> tuple[np.ndarray, bool]:
    """One lengthscale for each of ``width`` coordinates, (D,), and whether they are one parameter."""
    given = kernel.lengthscale
    if type(given) is np.ndarray and given.shape == (width,):
        return given, width == 1
    return np.broadcast_to(np.asarray(given, dtype=float), (width,)), np.size(given) == 1


def _of_squares(squares: np.ndarray, kernel: Anova) -> Any:
    """A `gp.fixed_points.gram.Profile` of squared gaps (D, P)."""
    precision, height = kernel.lengthscale**-2.0, kernel.height
    varying = np.exp((-0.5 * precision)[:, None] * squares)
    varying *= kernel.interaction
    ratio = 1.0 + varying
    p, u = np.prod(ratio, axis=0), np.divide(varying, ratio, out=varying)

    def contracted(weights: np.ndarray, k: np.ndarray) -> np.ndarray:
        weighted, total = weights * (height * p), float(weights @ k)
        lengths = ((u * squares) @ weighted) * precision
        # the diagonal does not depend on the interaction
        return np.array([*lengths, float((u @ weighted).sum()) - kernel.norm_slope * total, total])

    def changes(k: np.ndarray) -> np.ndarray:
        raised = height * p * u
        lengths = raised * squares * precision[:, None]
        return np.concatenate([lengths, (raised.sum(0) - kernel.norm_slope * k)[None]])

    return lambda: height * (p - 1.0), contracted, changes


@dataclass(frozen=True, eq=False)
class FixedSlopes:
    """Points (n, D); derivatives are observed at the first m of them: N = n + m D observations in all.

    Attributes
    ----------
    points : (n, D). slopes : m >= 1. gap : x_d - y_d with y among the first m, (D, n, m). squares : of all
        gaps, (D, n, n).
    """

    points: np.ndarray
    slopes: int
    gap: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, slopes: int) -> FixedSlopes:
        """The gaps of (n, D) points; derivatives are observed at the first of them, as many as ``slopes``."""
        gap = differences(points, points)
        return cls(points, slopes, gap[:, :, :slopes].copy(), np.square(gap, out=gap))

    def __call__(self, kernel: Anova | SquaredExponential) -> tuple[np.ndarray, Pullback]:
        lengthscale, one = by_coordinate(kernel, self.points.shape[1])
        precision, m = (lengthscale**-2.0)[:, None, None], self.slopes
        h = np.empty_like(self.squares)
        if isinstance(kernel, Anova):
            p, u = np.ones(h.shape[1:]), np.empty_like(h)
            for d, varying in enumerate(u):  # one (n, n) plane at a time, which stays in the cache
                np.multiply(self.squares[d], precision[d], out=h[d])
                np.exp(np.multiply(h[d], -0.5, out=varying), out=varying)
                varying *= kernel.interaction
                ratio = varying + 1.0
                p *= ratio
                varying /= ratio
            values = kernel.height * (p - 1.0)
            p *= kernel.height
        else:
            np.multiply(self.squares, precision, out=h)
            values = p = float(kernel.variance) * np.exp(-0.5 * h.sum(0))
            u = np.ones((len(h), 1, 1))
        g = u[:, :, :m] * self.gap
        g *= precision
        curved = u[:, :m, :m] * precision * (1.0 - h[:, :m, :m])
        matrix = self._matrix(values, p, g, curved)
        pullback = _Pullback(self, kernel, precision, one, matrix, p, u, h, g, curved)
        return matrix, Changes(pullback, pullback.times)

    def _matrix(self, values: np.ndarray, p: np.ndarray, g: np.ndarray, curved: np.ndarray) -> np.ndarray:
        n, dimension = self.points.shape
        m = self.slopes
        full = np.empty((n + m * dimension,) * 2)
        full[:n, :n] = values
        full[:n, n:] = np.moveaxis(p[:, :m] * g, 0, -1).reshape(n, -1)
        full[n:, :n] = full[:n, n:].T
        p, g = p[:m, :m], g[:, :m]
        both = -np.einsum("dij,eij->idje", p * g, g)
        for d in range(dimension):
            both[:, d, :, d] = p * curved[d]
        full[n:, n:] = both.reshape(m * dimension, -1)
        return full


@dataclass(frozen=True, eq=False)
class _Pullback:
    """The gradient of sum W K in the logarithms of (l, w, variance), given symmetric weights W (N, N).

    Attributes
    ----------
    at : the points. kernel : the kernel at its parameters. precision : l^-2, (D, 1, 1). one : whether l is a
        single parameter. matrix : K, (N, N). p : h p, (n, n).
    u, h : as in the module's docstring, (D, n, n). g : with y among the first m points, (D, n, m).
    curved : c, (D, m, m).
    """

    at: FixedSlopes
    kernel: Anova | SquaredExponential
    precision: np.ndarray
    one: bool
    matrix: np.ndarray
    p: np.ndarray
    u: np.ndarray
    h: np.ndarray
    g: np.ndarray
    curved: np.ndarray

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """The gradient (D + 2,), or without w, for symmetric weights (N, N)."""
        n, dimension = self.at.points.shape
        m = self.at.slopes
        u, h, g, curved = self.u, self.h, self.g, self.curved
        own_u, own_g, own_h, own_p = u[:, :m, :m], g[:, :m], h[:, :m, :m], self.p[:m, :m]
        cross = np.moveaxis(weights[:n, n:].reshape(n, m, dimension), -1, 0)
        both = weights[n:, n:].reshape(m, dimension, m, dimension)
        own = np.einsum("idjd->dij", both).copy()
        mixed = np.einsum("idje,dij->eij", both, own_g) - own * own_g  # the sum over d != e
        of_p = weights[:n, :n] * self.p
        of_p[:, :m] += self.p[:, :m] * (2.0 * np.einsum("dij,dij->ij", cross, g))
        of_p[:m, :m] += own_p * (
            np.einsum("dij,dij->ij", own, curved) - np.einsum("dij,dij->ij", mixed, own_g)
        )
        of_g = 2.0 * self.p[:, :m] * cross
        of_g[:, :m] -= 2.0 * own_p * mixed
        of_curved = own_p * own
        if isinstance(self.kernel, Anova):
            through_u = of_p * u
            through_u[:, :, :m] += of_g * g * (1.0 - u[:, :, :m])
            through_u[:, :m, :m] += of_curved * curved * (1.0 - own_u)
            lengths = np.einsum("dij,dij->d", through_u, h)
        else:
            lengths = np.einsum("ij,dij->d", of_p, h)
        lengths += np.einsum("dij,dij->d", of_g, -2.0 * g)
        lengths += np.einsum("dij,dij->d", of_curved, own_u * self.precision * (4.0 * own_h - 2.0))
        total = float(np.vdot(weights, self.matrix))
        if not isinstance(self.kernel, Anova):
            return np.append(lengths.sum() if self.one else lengths, total)
        interaction = float(through_u.sum()) - self.kernel.norm_slope * total
        return np.concatenate([lengths, [interaction, total]])

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """The derivatives of K in the logarithms of (l, w, variance) times vectors (N, O), (D + 2, N, O)."""
        changes = np.stack([self._times(column) for column in vectors.T], axis=-1)
        if self.one and not isinstance(self.kernel, Anova):
            changes = changes.sum(0, keepdims=True)
        return np.concatenate([changes, (self.matrix @ vectors)[None]])

    def _times(self, vector: np.ndarray) -> np.ndarray:
        """The derivatives of K in ln (l, w) times a vector (N,), (D + 1, N): O(n^2 D^2), without matrices.

        With a (n,) and B (m, D) the vector's numbers of values and of derivatives, s = sum_d g_d B_d and
        z = a + s, the rows of K times the vector are, at x, sums over y of

            p z - h a,        -p g_d z + p (c_d + g_d^2) B_d,

        and the derivatives of p, g_d and c_d are those of the module's docstring. Without w there is no last
        row: ``w`` is then an empty slice.
        """
        n, dimension = self.at.points.shape
        m, w = self.at.slopes, slice(dimension, None)
        norm_slope, height = 0.0, 0.0
        if isinstance(self.kernel, Anova):
            norm_slope, height = self.kernel.norm_slope, float(self.kernel.height)
        a, b = vector[:n], vector[n:].reshape(m, dimension).T[:, None]  # (n,), (D, 1, m)
        u, h, g, curved = self.u, self.h, self.g, self.curved
        rest = 1.0 - u[:, :m]
        of_slope = rest * h[:, :m] - 2.0
        along = g * b
        pz = np.tile(a, (n, 1))
        pz[:, :m] += along.sum(0)
        pz *= self.p
        factor = np.empty((dimension + isinstance(self.kernel, Anova), n, n))
        np.multiply(u, h, out=factor[:dimension])
        factor[w] = u.sum(0) - norm_slope
        moved = factor * pz
        along *= self.p[:, :m]
        moved[:dimension, :, :m] += along * of_slope.swapaxes(1, 2)
        moved[w, :, :m] += (along * rest.swapaxes(1, 2)).sum(0)
        found = np.empty((len(factor), len(vector)))
        found[:, :n] = moved.sum(2)
        found[w, :n] += norm_slope * height * a.sum()  # from the term -h a
        # rows of derivatives: first the change of p and s with all g_d, then that of g_d and c_d themselves
        of_g, pb, pz = -g.swapaxes(1, 2), self.p[:m, :m] * b, pz[:m]
        through_g, through_rest = (pz * of_g * of_slope).sum(2), (pz * of_g * rest).sum(2)
        g, u, h = g[:, :m], u[:, :m, :m], h[:, :m, :m]
        rest, of_slope = rest[:, :, :m], of_slope[:, :, :m]
        slopes = _summed(factor[:, :m, :m], (curved + g**2) * pb) - _summed(moved[:, :m], of_g)
        change = curved * rest * h + u * self.precision * (4.0 * h - 2.0)
        of_length = ((change + 2.0 * g**2 * of_slope) * pb).sum(2) - through_g
        slopes[np.arange(dimension), np.arange(dimension)] += of_length
        slopes[w] += ((curved + 2.0 * g**2) * rest * pb).sum(2) - through_rest
        found[:, n:] = slopes.swapaxes(1, 2).reshape(len(factor), -1)
        return found


def _summed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Sums over y of left (C, m, n) times right (D, m, n), (C, D, m)."""
    sums: np.ndarray = np.matmul(left.transpose(1, 0, 2), right.transpose(1, 2, 0))
    return sums.transpose(1, 2, 0)


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
