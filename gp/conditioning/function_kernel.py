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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from gp.arrays import differences
from gp.conditioning.conditioned import Conditioned, Places
from gp.expectation import KernelSum, Quadratic, standard_means, standard_variance


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
