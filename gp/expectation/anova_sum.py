"""Posterior means of Gaussian processes with an analysis of variance kernel, and their Gaussian integrals.

    phi(u) = sum_n (alpha_n + B_n . d/du_n) k(u, u_n) + c + w . u + u^T M u / 2

with k of :class:`gp.kernels.Anova`. Under N(m, diag v) coordinates are independent, so that in the product
over coordinates each e_d is replaced by its expectation

    z_d = l_d / sqrt(l_d^2 + v_d) exp(-(u_nd - m_d)^2 / (2 (l_d^2 + v_d))).

With p the product of 1 + w z_d over d, r_d = w z_d / (1 + w z_d), a_d = (u_nd - m_d) / (l_d^2 + v_d) and
t_d = (a_d^2 - 1 / (l_d^2 + v_d)) / 2, dp/dm_d = p r_d a_d and dp/dv_d = p r_d t_d. K Gaussians are integrated
at once; arrays (D, K, n) are kept coordinate first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from gp.arrays import differences
from gp.expectation.kernel_sum import Quadratic
from gp.kernels.anova import Anova
from gp.kernels.crossed import crossed


@dataclass(frozen=True, eq=False)
class DiagonalIntegrals:
    """Expectations under K diagonal Gaussians, with their gradients.

    Attributes
    ----------
    values : expectations (K,). means : their gradients (K, D) in the means. variances : gradients (K, D) in
        the variances.
    """

    values: np.ndarray
    means: np.ndarray
    variances: np.ndarray


@dataclass(frozen=True, eq=False)
class AnovaSum:
    """The function phi.

    Attributes
    ----------
    points : u_n, (n, D). kernel : k. trend : the polynomial.
    values : alpha, (n,). slopes : B at the first m points, (m, D); None where no derivatives were observed.
    """

    points: np.ndarray
    kernel: Anova
    trend: Quadratic
    values: np.ndarray
    slopes: np.ndarray | None = None

    def times(self, factor: float) -> AnovaSum:
        """The function ``factor`` phi."""
        slopes = None if self.slopes is None else factor * self.slopes
        return replace(self, trend=self.trend.times(factor), values=factor * self.values, slopes=slopes)

    def plus(self, trend: Quadratic) -> AnovaSum:
        """The function phi + ``trend``."""
        return replace(self, trend=self.trend + trend)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        if self.slopes is None:
            return crossed(self.kernel, u, self.points) @ self.values + self.trend(u)
        cross = crossed(self.kernel, u, self.points, len(self.slopes))
        return cross @ np.concatenate([self.values, self.slopes.reshape(-1)]) + self.trend(u)

    def _tilt(self, slopes: np.ndarray) -> np.ndarray:
        """B (D, 1, n), with zeros at points without derivatives."""
        found = np.zeros((slopes.shape[1], 1, len(self.points)))
        found[:, 0, : len(slopes)] = slopes.T
        return found

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradients at points ``u`` (M, D), (M, D)."""
        kernel = self.kernel
        gap = differences(u, self.points)
        precision = (kernel.lengthscale**-2.0)[:, None, None]
        steep = gap * precision
        varying = -0.5 * gap * steep
        np.exp(varying, out=varying)
        varying *= kernel.interaction
        ratio = 1.0 + varying
        p = kernel.height * np.prod(ratio, axis=0)
        ratio = np.divide(varying, ratio, out=ratio)
        g = ratio * steep
        found = self.trend.gradient(u)
        if self.slopes is None:
            found -= (p * self.values * g).sum(2).T
            return found
        tilt = self._tilt(self.slopes)
        along = self.values + np.sum(tilt * g, axis=0)
        curved = tilt * (ratio * precision - g * (steep - g)) - along * g
        curved *= p
        found += curved.sum(2).T
        return found

    def integrate(self, means: np.ndarray, variances: np.ndarray) -> DiagonalIntegrals:
        """Against K Gaussians with ``means`` (K, D) and diagonal covariances, ``variances`` (K, D)."""
        bowed = means @ self.trend.curvature
        diagonal = self.trend.curvature.diagonal()
        values = self.trend.constant + means @ self.trend.linear + 0.5 * variances @ diagonal
        values = values + 0.5 * np.einsum("kd,kd->k", bowed, means)
        first, of_means, of_variances = self._kernel_integrals(means, variances)
        return DiagonalIntegrals(
            values + first, self.trend.linear + bowed + of_means, 0.5 * diagonal + of_variances
        )

    def _kernel_integrals(
        self, means: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Integrals (K,) of phi less the polynomial, and gradients (K, D) in means and variances."""
        kernel = self.kernel
        height = kernel.height
        spread = 1.0 / (variances.T + (kernel.lengthscale**2)[:, None])[:, :, None]  # (D, K, 1)
        gap = -differences(means, self.points)  # (D, K, n)
        a = gap * spread
        shrunk = kernel.interaction * kernel.lengthscale[:, None, None] * np.sqrt(spread)
        varying = shrunk * np.exp(-0.5 * gap * a)
        ratio = 1.0 + varying
        p = height * np.prod(ratio, axis=0)
        r = np.divide(varying, ratio, out=varying)
        along, bowed = r * a, 0.5 * (a * a - spread)
        if self.slopes is None:
            weighted = p * self.values
            values = weighted.sum(1) - height * self.values.sum()
            of_means = np.einsum("dkn,kn->kd", along, weighted)
            return values, of_means, np.einsum("dkn,kn->kd", r * bowed, weighted)
        m = len(self.slopes)
        tilt, own_p, own_a, own_r = self.slopes.T[:, None], p[:, :m], a[:, :, :m], r[:, :, :m]
        near, curved = along[:, :, :m], bowed[:, :, :m]
        weighted = p * self.values
        weighted[:, :m] -= own_p * np.sum(tilt * near, axis=0)
        values = weighted.sum(1) - height * self.values.sum()
        steep, rest = tilt * own_p, (1.0 - own_r) * near
        turned = rest * own_a - own_r * spread  # d along / dm
        moved = rest * curved - near * spread  # d along / dv
        of_means, of_variances = (along * weighted).sum(2), (r * bowed * weighted).sum(2)
        of_means -= (steep * turned).sum(2)
        of_variances -= (steep * moved).sum(2)
        return values, of_means.T, of_variances.T


@dataclass(frozen=True, eq=False)
class AnovaSums:
    """A sum of such functions, each of a kernel of its own.

    Attributes
    ----------
    parts : the functions, one or more.
    """

    parts: tuple[AnovaSum, ...]

    def times(self, factor: float) -> AnovaSums:
        """The function times ``factor``."""
        return AnovaSums(tuple(part.times(factor) for part in self.parts))

    def plus(self, trend: Quadratic) -> AnovaSums:
        """The function plus ``trend``."""
        return AnovaSums((self.parts[0].plus(trend), *self.parts[1:]))

    def __call__(self, u: np.ndarray) -> np.ndarray:
        return reduce(add, [part(u) for part in self.parts])

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradients at points ``u`` (M, D), (M, D)."""
        return reduce(add, [part.gradient(u) for part in self.parts])

    def integrate(self, means: np.ndarray, variances: np.ndarray) -> DiagonalIntegrals:
        """Against K Gaussians with ``means`` (K, D) and diagonal covariances, ``variances`` (K, D)."""
        each = [part.integrate(means, variances) for part in self.parts]
        parts = zip(*((one.values, one.means, one.variances) for one in each), strict=True)
        return DiagonalIntegrals(*(reduce(add, part) for part in parts))
