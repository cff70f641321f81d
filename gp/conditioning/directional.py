"""A process on one function, given values and derivatives along directions, each a row.

A row (x, w) of (N, 2 D) rows is an observation of phi(x) where w = 0, and of w . grad phi(x) elsewhere, so
that all derivatives, some or none can be kept at each point. With the kernel of `function_kernel`, r = x -
x', e = exp(-|r|^2 / (2 l^2)), v = 1 where w = 0 and v = 0 elsewhere, f = v x + w, the covariances over s^2 of
two rows are, where derivatives are among them (h = l^2),

    e (w . w' - (r . w - l^2 v) (r . w' + l^2 v') / l^2) + b1 f . f'
        + b2 ((f . f' - v v' x . x' / 2) x . x' + (w . x') (x . w')),

and of values alone (h = 1) e + b1 x . x' + b2 (x . x')^2 / 2. All are elementwise products of five matrix
products, which a fit makes once (`directional_gram`). With z and P of `gp.expectation.kernel_sum` under
N(0, I), the covariances over s^2 of a row with E[phi], and the variance of E[phi], are

    v (h z + b2 |x|^2 / 2) + (b2 - P h z) x . w,        h (l^2 / (l^2 + 2))^(D/2) + b2 D / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gp.conditioning.conditioned import Conditioned, Places
from gp.conditioning.function_kernel import TrendedKernel
from gp.expectation import KernelSum, standard_means, standard_variance
from gp.fixed_points import Changes

_IN_CACHE = 2**14
"""Entries of a matrix that are worked on at once: arrays of them are below the 128 KiB from which the
allocator asks the system for each anew."""


def value_rows(points: np.ndarray) -> np.ndarray:
    """The rows (m, 2 D) of values at (m, D) points."""
    return np.concatenate([points, np.zeros_like(points)], 1)


def slope_rows(points: np.ndarray, directions: np.ndarray | None = None) -> np.ndarray:
    """The rows (m R, 2 D) of derivatives at (m, D) points along (m, R, D) directions; None for the axes."""
    m, d = points.shape
    if directions is None:
        directions = np.broadcast_to(np.eye(d), (m, d, d))
    at = np.repeat(points, directions.shape[1], axis=0)
    return np.concatenate([at, directions.reshape(-1, d)], 1)


@dataclass(frozen=True)
class DirectionalKernel(TrendedKernel):
    """k between (N, 2 D) rows; ``slopes``: whether derivatives are among them, then h = l^2, else h = 1."""

    slopes: bool = True

    @property
    def height(self) -> float:
        """h."""
        return self.lengthscale**2 if self.slopes else 1.0

    def constant(self, points: np.ndarray) -> np.ndarray:
        return _shows_value(points)

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """Return the covariances over s^2 between N rows, ``left``, and M rows, ``right``."""
        found, itself = np.empty((len(left.points), len(right.points))), left is right
        for rows in _blocks(*found.shape):
            others = slice(rows.start if itself else 0, None)
            pairs, block = _RowPairs.of(left.points[rows], right.points[others]), found[rows, others]
            block[...], _ = pairs.bumps(self.lengthscale, self.slopes)
            block += self.linear * pairs.linear
            block += self.quadratic * pairs.quadratic
            if itself:
                found[others, rows] = block.T
        return found

    def with_integral(self, points: np.ndarray) -> np.ndarray:
        """The covariances over s^2 of rows, ``points`` (N, 2 D), with E[phi] under N(0, I): (N,)."""
        x, w = np.hsplit(points, 2)
        z, a, _ = standard_means(x, self.lengthscale)
        z *= self.height
        squares, along = (np.einsum("nd,nd->n", x, other) for other in (x, w))
        found: np.ndarray = _shows_value(points) * (z + 0.5 * self.quadratic * squares)
        return found + self.quadratic * along - z * np.einsum("nd,nd->n", a, w)

    def integral_variance(self, dimension: int) -> float:
        """The prior variance over s^2 of E[phi] under N(0, I) with D = ``dimension``."""
        return self.height * standard_variance(dimension, self.lengthscale) + 0.5 * self.quadratic * dimension

    def posterior_mean(self, given: Conditioned) -> KernelSum:
        """The posterior mean of phi ``given`` data in rows."""
        x, w = np.hsplit(given.points, 2)
        weights = given.weights[:, 0]
        slopes = weights[:, None] * w if self.slopes else None
        return self.kernel_sum(x, weights * _shows_value(given.points), slopes, given.constant)


def directional_gram(
    rows: np.ndarray, slopes: bool = True
) -> Callable[[np.ndarray], tuple[np.ndarray, Changes]]:
    """Return the covariance of (N, 2 D) rows, with its changes, as a function of psi = ln (l, b1, b2)."""
    blocks = [(at, _RowPairs.of(rows[at], rows)) for at in _blocks(len(rows), len(rows))]
    trends = [np.concatenate([getattr(pairs, of) for _, pairs in blocks]) for of in ("linear", "quadratic")]

    def of(psi: np.ndarray) -> tuple[np.ndarray, Changes]:
        lengthscale, *sizes = np.exp(psi)
        matrix, change = np.empty_like(trends[0]), np.empty_like(trends[0])
        for at, pairs in blocks:
            matrix[at], change[at] = pairs.bumps(lengthscale, slopes, True)
            matrix[at] += sizes[0] * pairs.linear
            matrix[at] += sizes[1] * pairs.quadratic
        return matrix, Changes.of([1.0, *sizes], [change, *trends])

    return of


def _blocks(left: int, right: int) -> Iterator[slice]:
    """Blocks of the rows ``left``, so small that arrays of them with all rows ``right`` fit the cache."""
    block = max(_IN_CACHE // max(right, 1), 1)
    return (slice(at, at + block) for at in range(0, left, block))


def _shows_value(rows: np.ndarray) -> np.ndarray:
    return (~rows[:, rows.shape[1] // 2 :].any(1)).astype(float)


@dataclass(frozen=True, eq=False)
class _RowPairs:
    """The arrays (N, M) that do not depend on the hyperparameters."""

    squares: np.ndarray
    """|r|^2."""
    left: np.ndarray
    """r . w."""
    right: np.ndarray
    """r . w'."""
    tilts: np.ndarray
    """w . w'."""
    shown: tuple[np.ndarray, np.ndarray]
    """v, (N, 1), and v', (M,)."""
    linear: np.ndarray
    """The term that b1 multiplies."""
    quadratic: np.ndarray
    """The term that b2 multiplies."""

    @classmethod
    def of(cls, left: np.ndarray, right: np.ndarray) -> _RowPairs:
        """The arrays of all pairs of N and M rows."""
        (x, w), (y, z) = np.hsplit(left, 2), np.hsplit(right, 2)
        v, v_right = _shows_value(left)[:, None], _shows_value(right)
        inner, along, beside = x @ y.T, w @ y.T, x @ z.T
        linear: np.ndarray = (v * x + w) @ (v_right[:, None] * y + z).T
        quadratic = (-0.5 * v) * inner
        quadratic *= v_right
        quadratic += linear
        quadratic *= inner
        quadratic += along * beside
        inner *= -2.0
        inner += np.einsum("nd,nd->n", x, x)[:, None]
        inner += np.einsum("nd,nd->n", y, y)
        np.maximum(inner, 0.0, out=inner)  # squared distances are not negative but for rounding
        np.subtract(np.einsum("nd,nd->n", x, w)[:, None], along, out=along)
        beside -= np.einsum("nd,nd->n", y, z)
        return cls(inner, along, beside, w @ z.T, (v, v_right), linear, quadratic)

    def bumps(
        self, lengthscale: float, slopes: bool, changing: bool = False
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The covariance less the trends, and, if asked for, its derivative in ln l."""
        h = lengthscale**2
        stretched = self.squares / h
        exponential = np.exp(-0.5 * stretched)
        if not slopes:
            return exponential, stretched * exponential if changing else None
        v, v_right = self.shown
        left, right = self.left - h * v, self.right + h * v_right
        matrix = left * right
        matrix /= -h
        change: Any = None
        if changing:
            change = v * right
            change -= left * v_right
            change -= matrix
            change *= 2.0 * exponential
        matrix += self.tilts
        matrix *= exponential
        if changing:
            stretched *= matrix
            change += stretched
        return matrix, change
