"""The kernel of one function, and the Gram matrices of its values and gradients.

    k(u, u') = s^2 (h exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2)

With r = u - u', e = exp(-|r|^2 / (2 l^2)) and t = b1 + b2 u . u', the covariances over s^2 of the function
phi and of y = grad phi are

    cov(phi(u), phi(u'))   = h e + b1 u . u' + b2 (u . u')^2 / 2
    cov(phi(u), y_j(u'))   = (h / l^2) e r_j + t u_j
    cov(y_i(u), phi(u'))   = -(h / l^2) e r_i + t u'_i
    cov(y_i(u), y_j(u'))   = (h / l^2) e (delta_ij - r_i r_j / l^2) + t delta_ij + b2 u'_i u_j.

s^2 is the squared exponential's variance of a derivative (h = l^2) where gradients are observed, and of a
value (h = 1) where they are not.

E[grad phi] and E[Hessian of phi] under N(0, I) are uncorrelated (one is odd, one even); their covariances are

    Cov(E[d_i phi], E[d_j phi])          = s^2 (h c_1 + b1) delta_ij
    Cov(E[d_i d_j phi], E[d_k d_l phi])  = s^2 (h c_2 delta_ij delta_kl
                                               + (h c_2 + b2) (delta_ik delta_jl + delta_il delta_jk))

with c the variance of E[phi] for h = 1, c_1 = c / (l^2 + 2) and c_2 = c / (l^2 + 2)^2. F = 1 + D +
D (D + 1) / 2 counts the expectation, the slopes and the lower triangle of the Hessian.

Observations may also be rows (x, w), (N, 2 D), of which one is phi(x) where w = 0 and w . grad phi(x)
elsewhere, so that all derivatives, some or none can be kept at each point. With r = x - x', e as above, v = 1
where w = 0 and v = 0 elsewhere, f = v x + w, the covariances over s^2 of two rows are, where derivatives are
among them (h = l^2),

    e (w . w' - (r . w - l^2 v) (r . w' + l^2 v') / l^2) + b1 f . f'
        + b2 ((f . f' - v v' x . x' / 2) x . x' + (w . x') (x . w')),

and of values alone (h = 1) e + b1 x . x' + b2 (x . x')^2 / 2. All are elementwise products of five matrix
products, which a fit makes once (`directional_gram`). With z and P of `gp.expectation.kernel_sum` under
N(0, I), the covariances over s^2 of a row with E[phi], and the variance of E[phi], are

    v (h z + b2 |x|^2 / 2) + (b2 - P h z) x . w,        h (l^2 / (l^2 + 2))^(D/2) + b2 D / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from gp.arrays import differences
from gp.conditioning.conditioned import Conditioned, Places
from gp.expectation import KernelSum, Quadratic, standard_means, standard_variance
from gp.fixed_points import Changes

_IN_CACHE = 2**14
"""Entries of a matrix that are worked on at once: arrays of them are below the 128 KiB from which the
allocator asks the system for each anew."""


@dataclass(frozen=True)
class TrendedKernel:
    """A squared exponential of height h beside a linear and a quadratic trend.

    Parameters
    ----------
    lengthscale : l > 0
    linear, quadratic : b1, b2 >= 0
    """

    lengthscale: float
    linear: float
    quadratic: float

    @property
    def height(self) -> float:
        """h."""
        raise NotImplementedError

    def at(self, points: np.ndarray) -> Places:
        """The record of (m, D) points from which covariances are computed."""
        return Places.of(points, points / self.lengthscale)

    def kernel_sum(
        self, points: np.ndarray, values: np.ndarray | None, slopes: np.ndarray | None, constant: float
    ) -> KernelSum:
        """The sum of kernel functions of values (m,) and slopes (m, D) at (m, D) points, and a constant."""
        trend = Quadratic.of_trend(self.linear, self.quadratic, points, values, slopes)
        trend = replace(trend, constant=constant)
        return KernelSum(points, self.lengthscale, self.height, trend, values=values, slopes=slopes)


@dataclass(frozen=True)
class Shown:
    """Which of the 1 + D numbers phi, d_1 phi, .., d_D phi are observed at a point.

    Parameters
    ----------
    values : whether phi is observed
    gradients : whether all D derivatives are
    """

    values: bool = True
    gradients: bool = True

    def __post_init__(self) -> None:
        if not (self.values or self.gradients):
            raise ValueError("values and gradients are both False; a point must show one of them")

    def width(self, dimension: int) -> int:
        """B, the number of observed numbers in ``dimension`` D."""
        return int(self.values) + dimension * int(self.gradients)


@dataclass(frozen=True)
class FunctionKernel(TrendedKernel):
    """k between the numbers observed at points; ``shown`` are those observed at each."""

    shown: Shown = Shown()

    @property
    def height(self) -> float:
        """h."""
        return self.lengthscale**2 if self.shown.gradients else 1.0

    def constant(self, points: np.ndarray) -> np.ndarray | None:
        """Observations of a constant of 1, (m B,): 1 for values, 0 for derivatives; None without values."""
        if not self.shown.values:
            return None
        basis = np.zeros((len(points), self.shown.width(points.shape[1])))
        basis[:, 0] = 1.0
        return basis.reshape(-1)

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """Return the covariances (m B, n B) over s^2 between the numbers observed ``left`` and ``right``."""
        if self.shown.gradients:
            return _filled(left.points, right.points, self)
        kernel, inner = left.exponential(right)
        inner *= self.lengthscale**2
        kernel += inner * (self.linear + 0.5 * self.quadratic * inner)
        return kernel

    def posterior_mean(self, given: Conditioned) -> KernelSum:
        """The posterior mean of phi ``given`` data, up to a constant where only derivatives are observed."""
        alpha = given.weights[:, 0] if self.shown.values else None
        b = given.weights[:, int(self.shown.values) :] if self.shown.gradients else None
        return self.kernel_sum(given.points, alpha, b, given.constant)


def _filled(left: np.ndarray, right: np.ndarray, kernel: FunctionKernel) -> np.ndarray:
    """K / s^2 between (m, D) and (n, D) points that show gradients."""
    (m, d), n, shown = left.shape, len(right), kernel.shown
    r = differences(left, right)
    e = np.exp(np.einsum("dmn,dmn->mn", r, r) * (-0.5 / kernel.lengthscale**2))
    whole = np.empty((m, shown.width(d), n, shown.width(d)))
    inner = left @ right.T
    tilt = kernel.linear + kernel.quadratic * inner
    steep = e * r
    if shown.values:
        whole[:, 0, :, 0] = kernel.height * e + inner * (kernel.linear + 0.5 * kernel.quadratic * inner)
        for i in range(d):
            whole[:, 0, :, 1 + i] = steep[i] + tilt * left[:, i, None]
            whole[:, 1 + i, :, 0] = tilt * right[:, i] - steep[i]
    slopes, own = whole[:, int(shown.values) :, :, int(shown.values) :], e + tilt
    for i in range(d):
        along, across = steep[i] / -(kernel.lengthscale**2), kernel.quadratic * right[:, i]
        for j in range(d):
            block = along * r[j]
            block += across * left[:, j, None]
            if i == j:
                block += own
            slopes[:, i, :, j] = block
    return whole.reshape(m * shown.width(d), n * shown.width(d))


def standard_observed(points: np.ndarray, kernel: FunctionKernel) -> np.ndarray:
    """Covariance / s^2 of observations at (m, D) points with slopes, Hessian under N(0, I), (m B, F - 1)."""
    m, d = points.shape
    rows, columns = np.tril_indices(d)
    h, b1, b2, parts = kernel.height, kernel.linear, kernel.quadratic, list[np.ndarray]()
    z, a, p = standard_means(points, kernel.lengthscale)
    products = a[:, rows] * a[:, columns] - p * (rows == columns)
    if kernel.shown.values:
        z = z[:, None]
        slopes, hessians = h * (z * a) + b1 * points, points[:, rows] * points[:, columns]
        parts.append(np.concatenate([slopes, h * (z * products) + b2 * hessians], 1)[:, None])
    if kernel.shown.gradients:  # the derivatives of these in the points
        eye, z = np.eye(d), z.reshape(m, 1, 1)
        bent, trend = (
            eye[:, rows] * x[:, None, columns] + eye[:, columns] * x[:, None, rows] for x in (a, points)
        )
        slopes = h * (z * (p * eye - a[:, :, None] * a[:, None, :])) + b1 * eye
        hessians = h * (z * (p * bent - a[:, :, None] * products[:, None, :])) + b2 * trend
        parts.append(np.concatenate([slopes, hessians], 2))
    return np.concatenate(parts, 1).reshape(m * kernel.shown.width(d), -1)


def standard_prior(dimension: int, kernel: FunctionKernel) -> np.ndarray:
    """Covariance / s^2 of the slopes and Hessian under N(0, I), (F - 1, F - 1)."""
    rows, columns = np.tril_indices(dimension)
    double, apart = standard_variance(dimension, kernel.lengthscale), kernel.lengthscale**2 + 2.0
    one, two = kernel.height * (double / apart), kernel.height * (double / apart**2)
    same = (rows == columns).astype(float)
    # pairs k <= i are those of the lower triangle, where delta_il delta_jk is one only if all four are the
    # same
    hessians = (two + kernel.quadratic) * np.diag(1.0 + same) + two * np.outer(same, same)
    return scipy.linalg.block_diag((one + kernel.linear) * np.eye(dimension), hessians)


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
