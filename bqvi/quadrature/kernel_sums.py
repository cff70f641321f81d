"""Sums of squared exponentials, as posterior means of Gaussian processes are, and their Gaussian integrals.

    psi(u) = v sum_n (alpha_n + B_n . d/du_n) exp(-|u - u_n|^2 / (2 l^2)) + c + w . u + u^T M u / 2

is the posterior mean given values (weights alpha), derivatives (weights B) or both. Against N(m, S), with
A = l^2 I + S, P = A^-1, a_n = P (u_n - m), z_n = v l^D |A|^(-1/2) exp(-(u_n - m)^T a_n / 2) and
c_n = B_n . a_n,

    E      = sum z (alpha - c)                         + c + w . m + (m^T M m + tr M S) / 2
    dE/dm  = sum z ((alpha - c) a + P B)               + w + M m
    dE/dS  = sum z ((alpha - c) (a a^T - P) + (P B) a^T + a (P B)^T) / 2  + M / 2

and against a mixture sum_k w_k N(m_k, S_k): E = sum_k w_k E_k, dE/dw_k = E_k, dE/dm_k = w_k dE_k/dm_k and
likewise in S_k. By Bonnet and Price dE/dm = E[grad psi] and 2 dE/dS = E[Hessian of psi].

Everything here is the closed form of `bqvi.quadrature.expectation`, without its generality (any kernel, any
measure, NumPy or torch): one lengthscale, NumPy, O(n D^2). It is what runs at every step of an ascent on a
surrogate, where the general form would take several times as long; tests hold the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.quadrature.positive_definite import cholesky_inverse
from gp.measures import GaussianMixture, MixtureParameters


@dataclass(frozen=True, eq=False)
class Bumps:
    """Integrals of n squared exponentials of height 1 against N(m, S), and what their slopes are made of."""

    z: np.ndarray
    """(n,)."""
    a: np.ndarray
    """P (u_n - m), (n, D): dz_n/dm = z_n a_n."""
    precision: np.ndarray
    """P, (D, D)."""

    @classmethod
    def of(
        cls, points: np.ndarray, lengthscale: float | np.ndarray, mean: np.ndarray, covariance: np.ndarray
    ) -> Bumps:
        """At (n, D) points, for one lengthscale or (D,); LinAlgError unless the covariance is one."""
        gap = points - mean
        spread = covariance.copy()
        np.einsum("ii->i", spread)[:] += lengthscale**2
        half, precision = cholesky_inverse(spread)
        a = gap @ precision
        log_ratio = np.log(lengthscale / np.einsum("ii->i", half)).sum()
        return cls(np.exp(log_ratio - 0.5 * np.einsum("nd,nd->n", gap, a)), a, precision)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """c + w . u + u^T M u / 2."""

    constant: float
    linear: np.ndarray
    """W, (D,)."""
    curvature: np.ndarray
    """M, symmetric, (D, D)."""


@dataclass(frozen=True, eq=False)
class Integrated:
    """E, and its gradients in the Gaussian."""

    value: float
    mean: np.ndarray
    """dE/dm, (D,)."""
    covariance: np.ndarray
    """dE/dS, symmetric, (D, D)."""


@dataclass(frozen=True, eq=False)
class KernelSum:
    """The function psi."""

    points: np.ndarray
    """(n, D)."""
    lengthscale: float
    height: float
    """V."""
    trend: Quadratic
    values: np.ndarray | None = None
    """Alpha, (n,); None where no values were observed."""
    slopes: np.ndarray | None = None
    """B, (n, D); None where no derivatives were observed."""

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Psi at (M, D) points, (M,)."""
        rise, _ = self._rises(u)
        bent = u @ self.trend.curvature
        found: np.ndarray = rise.sum(1) + self.trend.constant + u @ self.trend.linear
        found += 0.5 * np.einsum("md,md->m", u, bent)
        return found

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Grad psi at (M, D) points, (M, D)."""
        rise, bump = self._rises(u)
        found: np.ndarray = (rise @ self.points - rise.sum(1)[:, None] * u) / self.lengthscale**2
        if self.slopes is not None:
            found = found + bump @ self.slopes / self.lengthscale**2
        found += self.trend.linear + u @ self.trend.curvature
        return found

    def _rises(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each of the n points adds at (M, D) points, and its kernel there, (M, n) each."""
        squares = np.square(u).sum(1)[:, None] + np.square(self.points).sum(1) - 2.0 * u @ self.points.T
        bump = self.height * np.exp(-0.5 * np.maximum(squares, 0.0) / self.lengthscale**2)
        weight = np.zeros(len(self.points)) if self.values is None else self.values
        if self.slopes is None:
            return bump * weight, bump
        along = u @ self.slopes.T - np.einsum("nd,nd->n", self.slopes, self.points)
        return bump * (weight + along / self.lengthscale**2), bump

    def integrate(self, mean: np.ndarray, covariance: np.ndarray) -> Integrated:
        """Against N(mean, covariance)."""
        bumps = Bumps.of(self.points, self.lengthscale, mean, covariance)
        z, a = self.height * bumps.z, bumps.a
        bent = self.trend.curvature @ mean
        slope = self.trend.linear + bent
        hessian = self.trend.curvature
        weight = np.zeros_like(z) if self.values is None else z * self.values
        if self.slopes is not None:
            pulled = z[:, None] * (self.slopes @ bumps.precision)
            weight = weight - z * np.einsum("nd,nd->n", self.slopes, a)
            crossed = pulled.T @ a
            slope = slope + pulled.sum(0)
            hessian = hessian + crossed + crossed.T
        hessian = hessian + (a.T * weight) @ a - weight.sum() * bumps.precision
        value = self.trend.constant + self.trend.linear @ mean + 0.5 * mean @ bent
        value += 0.5 * np.vdot(self.trend.curvature, covariance) + weight.sum()
        return Integrated(float(value), slope + weight @ a, 0.5 * hessian)

    def integrate_mixture(self, q: GaussianMixture | MixtureParameters) -> tuple[float, MixtureParameters]:
        """E against a mixture, and its gradients in weights (K,), means (K, D) and covariances (K, D, D).

        Weights are free: their sum is not held at one.
        """
        parts = [self.integrate(m, s) for m, s in zip(q.means, q.covariances, strict=True)]
        values = np.array([part.value for part in parts])
        weights = np.asarray(q.weights)
        means = weights[:, None] * np.array([part.mean for part in parts])
        covariances = weights[:, None, None] * np.array([part.covariance for part in parts])
        return float(weights @ values), MixtureParameters(values, means, covariances)


def value_jacobian(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """Under N(0, I), of bumps of height 1: dz/dm (n, D), 2 dz/dS (n, D (D + 1) / 2), lower triangle by rows.

    The prior covariances of psi(u_n) with E[grad psi] and E[Hessian of psi].
    """
    z, a, p = _standard(points, lengthscale)
    rows, columns = np.tril_indices(points.shape[1])
    return z * a, z * (a[:, rows] * a[:, columns] - p * (rows == columns))


def slope_jacobian(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of `value_jacobian` in the points: (n, D, D) and (n, D, D (D + 1) / 2)."""
    z, a, p = _standard(points, lengthscale)
    rows, columns = np.tril_indices(points.shape[1])
    eye, z = np.eye(points.shape[1]), z[:, :, None]
    products = a[:, rows] * a[:, columns] - p * (rows == columns)
    along = eye[:, rows] * a[:, None, columns] + eye[:, columns] * a[:, None, rows]
    return z * (p * eye - a[:, :, None] * a[:, None, :]), z * (
        p * along - a[:, :, None] * products[:, None, :]
    )


def jacobian_variance(dimension: int, lengthscale: float) -> tuple[float, float]:
    """Prior variances under N(0, I), for a height of 1: of each E[d_i psi], of each E[d_i d_j psi], i != j.

    Those with i = j have three times the second.
    """
    l2 = lengthscale**2
    double = (l2 / (l2 + 2.0)) ** (dimension / 2)
    return double / (l2 + 2.0), double / (l2 + 2.0) ** 2


def _standard(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Z (n, 1), a (n, D) and P of N(0, I), where P is a number."""
    l2 = lengthscale**2
    p = 1.0 / (l2 + 1.0)
    squares = np.einsum("nd,nd->n", points, points)
    z = (l2 * p) ** (points.shape[1] / 2) * np.exp(-0.5 * p * squares)
    return z[:, None], p * points, p
