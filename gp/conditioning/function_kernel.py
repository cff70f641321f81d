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

In a matrix the numbers of a point are adjacent. It is filled one pair of numbers at a time, over all pairs of
points: (m, n) arrays that fit the cache, instead of one of (m, n, D, D). `gp.kernels` has the same
covariances, and so has `directional`: for D = 2 to 10 they take 5 to 7 and 3 to 5 times as long (``python -m
benchmarks processes``), which is the reason for this implementation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import differences
from gp.conditioning.conditioned import Places


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

    @property
    def numbers(self) -> slice:
        """The positions of the observed numbers among the 1 + D."""
        return slice(int(not self.values), None if self.gradients else 1)

    def width(self, dimension: int) -> int:
        """B, the number of observed numbers in ``dimension`` D."""
        return int(self.values) + dimension * int(self.gradients)


@dataclass(frozen=True)
class FunctionKernel:
    """k between the numbers observed at points.

    Parameters
    ----------
    lengthscale : l > 0
    linear, quadratic : b1, b2 >= 0
    shown : which numbers are observed at a point
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
        return Places.of(points, points / self.lengthscale)

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
            r, e = _bumps(left.points, right.points, self.lengthscale)
            return _filled(left.points, right.points, r, e, self)
        kernel, inner = left.exponential(right)
        inner *= self.lengthscale**2
        kernel += inner * (self.linear + 0.5 * self.quadratic * inner)
        return kernel

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`covariance` between points ``left`` (m, D) and ``right`` (n, D)."""
        return self.covariance(self.at(left), self.at(right))


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
    r = differences(left, right)
    return r, np.exp(np.einsum("dmn,dmn->mn", r, r) * (-0.5 / lengthscale**2))
