"""The kernel of one function, and the Gram matrices of its values and gradients.

    k(u, u') = s^2 (h exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2)

With r = u - u', e = exp(-|r|^2 / (2 l^2)) and t = b1 + b2 u . u', the covariances over s^2 of the function
psi and of y = grad psi are

    cov(psi(u), psi(u'))   = h e + b1 u . u' + b2 (u . u')^2 / 2
    cov(psi(u), y_j(u'))   = (h / l^2) e r_j + t u_j
    cov(y_i(u), psi(u'))   = -(h / l^2) e r_i + t u'_i
    cov(y_i(u), y_j(u'))   = (h / l^2) e (delta_ij - r_i r_j / l^2) + t delta_ij + b2 u'_i u_j.

s^2 is the variance that the squared exponential gives to what is observed: of a slope, h = l^2, where
gradients are, and of a value, h = 1, where they are not.

A matrix has the numbers of a point next to each other; it is filled one pair of numbers at a time, over all
pairs of points: (m, n) arrays that fit the cache, in place of one of (m, n, D, D).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gp.conditioning.places import Places

Smooth = Callable[[float], tuple[np.ndarray, np.ndarray]]
"""Of the lengthscale: the squared-exponential part of K / s^2, and its derivative in ln l."""


@dataclass(frozen=True)
class Shown:
    """Which of the 1 + D numbers psi, d_1 psi, .., d_D psi a point shows.

    Parameters
    ----------
    values : psi
    gradients : all D derivatives
    """

    values: bool = True
    gradients: bool = True

    def __post_init__(self) -> None:
        if not (self.values or self.gradients):
            raise ValueError("values and gradients are both False; a point must show one of them")

    @property
    def numbers(self) -> slice:
        """Those that are observed, among the 1 + D."""
        return slice(int(not self.values), None if self.gradients else 1)

    def width(self, dimension: int) -> int:
        """B, how many they are."""
        return int(self.values) + dimension * int(self.gradients)


@dataclass(frozen=True)
class FunctionKernel:
    """k between what points show.

    Parameters
    ----------
    lengthscale : l > 0
    linear, quadratic : b1, b2 >= 0
    shown : which numbers a point shows
    """

    lengthscale: float
    linear: float
    quadratic: float
    shown: Shown = Shown()

    @property
    def height(self) -> float:
        """h."""
        return self.lengthscale**2 if self.shown.gradients else 1.0

    def at(self, points: np.ndarray) -> Places:
        """What is needed of (m, D) points."""
        return Places.of(points, points / self.lengthscale)

    def constant(self, points: np.ndarray) -> np.ndarray | None:
        """What a constant of 1 adds, (m B,): 1 to values, 0 to derivatives; None if no values are shown."""
        if not self.shown.values:
            return None
        basis = np.zeros((len(points), self.shown.width(points.shape[1])))
        basis[:, 0] = 1.0
        return basis.reshape(-1)

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """Over s^2, between m and n points, (m B, n B)."""
        if self.shown.gradients:
            r, e = _bumps(left.points, right.points, self.lengthscale)
            return _filled(left.points, right.points, r, e, self)
        kernel, inner = left.exponential(right)
        inner *= self.lengthscale**2
        kernel += inner * (self.linear + 0.5 * self.quadratic * inner)
        return kernel

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`covariance` between (m, D) and (n, D) points."""
        return self.covariance(self.at(left), self.at(right))


def trend_matrices(points: np.ndarray, shown: Shown) -> tuple[np.ndarray, np.ndarray]:
    """What b1 and b2 multiply in K / s^2 at (m, D) points."""
    if not shown.gradients:
        inner = points @ points.T
        return inner, 0.5 * inner * inner
    r = np.zeros((points.shape[1], len(points), len(points)))
    of = [FunctionKernel(1.0, *trend, shown) for trend in ((1.0, 0.0), (0.0, 1.0))]
    linear, quadratic = (_filled(points, points, r, r[0], kernel) for kernel in of)
    return linear, quadratic


def smooth_part(points: np.ndarray, shown: Shown) -> Smooth:
    """The squared-exponential part of K / s^2 at (m, D) points, as the lengthscale changes."""
    if shown.gradients:
        return lambda lengthscale: _smooth_slopes(points, lengthscale, shown)
    return squared_exponential(Places.of(points, points))


def squared_exponential(places: Places) -> Smooth:
    """exp(-|b - b'|^2 / (2 l^2)) as the lengthscale changes."""
    inner = places.scaled @ places.scaled.T
    distances = np.maximum(2.0 * (places.halved[:, None] + places.halved - inner), 0.0)

    def smooth(lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
        scaled = distances / lengthscale**2
        kernel = np.exp(-0.5 * scaled)
        return kernel, kernel * scaled

    return smooth


def _smooth_slopes(points: np.ndarray, lengthscale: float, shown: Shown) -> tuple[np.ndarray, np.ndarray]:
    """At points that show gradients: d e / d ln l is e |r|^2 / l^2, and h = l^2."""
    (m, d), l2, first = points.shape, lengthscale**2, int(shown.values)
    smooth, rising = np.empty((2, m, first + d, m, first + d))
    r, e = _bumps(points, points, lengthscale)
    squares = np.einsum("dmn,dmn->mn", r, r) / l2
    steep = e * r
    if shown.values:
        smooth[:, 0, :, 0], rising[:, 0, :, 0] = l2 * e, l2 * e * (2.0 + squares)
        for i in range(d):
            for whole, cross in ((smooth, steep[i]), (rising, steep[i] * squares)):
                whole[:, 0, :, 1 + i], whole[:, 1 + i, :, 0] = cross, -cross
    slopes, rises = (whole[:, first:, :, first:] for whole in (smooth, rising))
    for i in range(d):
        for j in range(i + 1):
            crossed = steep[i] * r[j] / l2
            block = e - crossed if i == j else -crossed
            slopes[:, i, :, j] = slopes[:, j, :, i] = block
            rises[:, i, :, j] = rises[:, j, :, i] = block * squares + 2.0 * crossed
    return smooth.reshape(m * (first + d), -1), rising.reshape(m * (first + d), -1)


def _filled(
    left: np.ndarray, right: np.ndarray, r: np.ndarray, e: np.ndarray, kernel: FunctionKernel
) -> np.ndarray:
    """K / s^2 between (m, D) and (n, D) points that show gradients, given r (D, m, n) and e (m, n)."""
    (m, d), n, shown = left.shape, len(right), kernel.shown
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


def _bumps(left: np.ndarray, right: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """u - u', (D, m, n), and e, (m, n)."""
    r = left.T[:, :, None] - right.T[:, None, :]
    return r, np.exp(np.einsum("dmn,dmn->mn", r, r) * (-0.5 / lengthscale**2))
