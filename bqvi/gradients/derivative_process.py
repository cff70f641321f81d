"""A Gaussian process on the log joint from its gradients: of one function, not D outputs.

As in `value_process`, psi(u) = f(theta) + |u|^2 / 2 in units whitened by q, with the kernel

    k(u, u') = s^2 (l^2 exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2),

but what is observed is y = grad psi. With r = u - u' and e = exp(-|r|^2 / (2 l^2)), the covariance of y_i(u)
and y_j(u') is

    s^2 (e (delta_ij - r_i r_j / l^2) + b1 delta_ij + b2 (u . u' delta_ij + u'_i u_j)).

With weights B (m, D), under q' = N(m, S), A = l^2 I + S, P = A^-1, a_n = P (u_n - m), c_n = B_n . a_n and
z_n = l^2 l^D |A|^(-1/2) exp(-(u_n - m)^T a_n / 2), M = b2 sum_n (u_n B_n^T + B_n u_n^T),

    E[y]   = sum_n (z_n (P B_n - c_n a_n) + b1 B_n) + M m
    E[J y] = sum_n z_n (P B_n a_n^T + a_n (P B_n)^T - c_n (a_n a_n^T - P)) + M.

Better per node than the separable process, at O((m D)^3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from bqvi.gradients.positive_definite import cholesky, cholesky_inverse
from bqvi.gradients.value_process import ValueShape
from bqvi.gradients.whitened import Moments, remoteness

JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class DerivativeProcess:
    """The process given m gradients."""

    points: np.ndarray
    """U, (m, D)."""
    targets: np.ndarray
    """Y, (m, D)."""
    shape: ValueShape

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor of K / s^2, (m D, m D), point by point."""
        linear, quadratic = trend_matrices(self.points)
        gram = smooth_matrix(self.points, self.shape.lengthscale)[0]
        gram += self.shape.linear * linear + self.shape.quadratic * quadratic
        np.einsum("ii->i", gram)[:] += noise(self.points)
        return cholesky(gram)

    def extended(self, points: np.ndarray, targets: np.ndarray) -> DerivativeProcess:
        """With (n, D) more points."""
        both = np.concatenate([self.points, points]), np.concatenate([self.targets, targets])
        return DerivativeProcess(*both, self.shape)

    @cached_property
    def weights(self) -> np.ndarray:
        """B, (m, D)."""
        flat = self.targets.reshape(-1, 1)
        solved: np.ndarray = scipy.linalg.lapack.dpotrs(self.factor, flat, lower=1)[0]
        return solved.reshape(self.targets.shape)

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return float(np.vdot(self.targets, self.weights)) / self.targets.size

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Of y under q' = N(mean, covariance), in q's units."""
        l2 = self.shape.lengthscale**2
        gap = self.points - mean
        half, inverse = cholesky_inverse(covariance + l2 * np.eye(len(mean)))
        a = gap @ inverse
        log_ratio = 0.5 * len(mean) * np.log(l2) - np.log(np.diagonal(half)).sum()
        z = l2 * np.exp(log_ratio - 0.5 * np.einsum("nd,nd->n", gap, a))
        pulled = self.weights @ inverse
        zc = z * np.einsum("nd,nd->n", self.weights, a)
        curvature = self.points.T @ self.weights
        curvature = self.shape.quadratic * (curvature + curvature.T)
        expected = z @ pulled - zc @ a + self.shape.linear * self.weights.sum(0) + curvature @ mean
        crossed = (pulled.T * z) @ a
        jacobian = crossed + crossed.T - (a.T * zc) @ a + zc.sum() * inverse + curvature
        return Moments(expected, jacobian)

    def standard_deviations(self) -> Moments:
        """Of the `moments` at q itself."""
        d, l2 = self.points.shape[1], self.shape.lengthscale**2
        rows, columns = np.tril_indices(d)
        across = derivative_functionals(self.points, self.shape)
        explained = np.square(scipy.linalg.lapack.dtrtrs(self.factor, across, lower=1)[0]).sum(0)
        double = l2 * (l2 / (l2 + 2.0)) ** (d / 2)
        same = rows == columns
        slope = np.full(d, double / (l2 + 2.0) + self.shape.linear)
        bend = np.where(same, 3.0, 1.0) * double / (l2 + 2.0) ** 2
        bend += np.where(same, 2.0, 1.0) * self.shape.quadratic
        variance = self.scale * np.maximum(np.concatenate([slope, bend]) - explained, 0.0)
        jacobian = np.zeros((d, d))
        jacobian[rows, columns] = jacobian[columns, rows] = np.sqrt(variance[d:])
        return Moments(np.sqrt(variance[:d]), jacobian)


def noise(points: np.ndarray) -> np.ndarray:
    """On the diagonal of K / s^2, (m D,)."""
    return JITTER * np.repeat(remoteness(points), points.shape[1])


def smooth_matrix(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """The squared-exponential part of K / s^2, and its derivative in ln l; (m D, m D) each."""
    m, d = points.shape
    r = (points[:, None] - points[None, :]) / lengthscale
    squares = np.square(r).sum(-1)[:, :, None, None]
    outer = r[..., :, None] * r[..., None, :]
    e = np.exp(-0.5 * squares)
    block = e * (np.eye(d) - outer)
    slope = block * squares + 2.0 * e * outer
    return _flat(block, m * d), _flat(slope, m * d)


def trend_matrices(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What b1 and b2 multiply, (m D, m D) each."""
    m, d = points.shape
    linear = np.broadcast_to(np.eye(d), (m, m, d, d))
    inner = (points @ points.T)[:, :, None, None]
    crossed = points[None, :, :, None] * points[:, None, None, :]  # u'_i u_j
    return _flat(linear, m * d), _flat(inner * np.eye(d) + crossed, m * d)


def derivative_functionals(points: np.ndarray, shape: ValueShape) -> np.ndarray:
    """Prior covariance / s^2 of y with E[grad psi], E[Hessian psi] at q, (m D, D + D (D + 1) / 2)."""
    m, d = points.shape
    l2 = shape.lengthscale**2
    rows, columns = np.tril_indices(d)
    p, eye = 1.0 / (l2 + 1.0), np.eye(d)
    z = l2 * (l2 * p) ** (d / 2) * np.exp(-0.5 * p * np.square(points).sum(1))[:, None, None]
    a = p * points
    slopes = z * (p * eye - a[:, :, None] * a[:, None, :]) + shape.linear * eye
    products = a[:, rows] * a[:, columns] - p * (rows == columns)
    along = eye[:, rows] * a[:, None, columns] + eye[:, columns] * a[:, None, rows]
    bends = z * (p * along - a[:, :, None] * products[:, None, :]) + shape.quadratic / p * along
    return np.concatenate([slopes, bends], 2).reshape(m * d, -1)


def _flat(blocks: np.ndarray, size: int) -> np.ndarray:
    """(m, m, D, D) as (m D, m D), point by point."""
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(size, size)
