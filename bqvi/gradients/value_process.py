"""A Gaussian process on the log joint from its values, in units whitened by q; integrals in closed form.

What is modelled is psi(u) = f(theta) + |u|^2 / 2, theta = mu + L u, so that the log density of q itself
is the prior mean, up to a constant, which is profiled out (generalised least squares). The kernel is

    k(u, u') = s^2 (exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2).

With alpha the weights of the m values, under q' = N(m, S) in the same units, A = l^2 I + S, P = A^-1,
a_n = P (u_n - m), z_n = l^D |A|^(-1/2) exp(-(u_n - m)^T a_n / 2), M = b2 sum_n alpha_n u_n u_n^T,

    E[grad psi]    = sum_n alpha_n (z_n a_n + b1 u_n) + M m                 (dE/dm)
    E[Hessian psi] = sum_n alpha_n z_n (a_n a_n^T - P) + M                  (2 dE/dS, Bonnet and Price)

which are the moments of y = grad psi that `whitened` asks for (variational Bayesian Monte Carlo integrates
the same process, Acerbi 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from bqvi.gradients.positive_definite import cholesky, cholesky_inverse
from bqvi.gradients.whitened import Moments, remoteness

JITTER = 1e-6


@dataclass(frozen=True)
class ValueShape:
    """Hyperparameters of k, less its scale s^2."""

    lengthscale: float
    linear: float
    """b1."""
    quadratic: float
    """b2."""


@dataclass(frozen=True, eq=False)
class ValueProcess:
    """The process given m values."""

    points: np.ndarray
    """U, (m, D)."""
    targets: np.ndarray
    """Psi, (m, 1)."""
    shape: ValueShape

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor of K / s^2, (m, m)."""
        gram = value_kernel(self.points, self.points, self.shape)
        np.einsum("ii->i", gram)[:] += JITTER * remoteness(self.points)
        return cholesky(gram)

    def extended(self, points: np.ndarray, targets: np.ndarray) -> ValueProcess:
        """With (n, D) more points."""
        both = np.concatenate([self.points, points]), np.concatenate([self.targets, targets])
        return ValueProcess(*both, self.shape)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """factor^-1 right, for (m, R)."""
        solved: np.ndarray = scipy.linalg.lapack.dtrtrs(self.factor, right, lower=1)[0]
        return solved

    @cached_property
    def weights(self) -> np.ndarray:
        """alpha = K^-1 (psi - constant), (m,)."""
        ones = np.ones_like(self.targets)
        half = self.solve(np.column_stack([self.targets, ones]))
        constant = (half[:, 0] @ half[:, 1]) / (half[:, 1] @ half[:, 1])
        solved: np.ndarray = scipy.linalg.lapack.dpotrs(self.factor, self.targets - constant * ones, lower=1)[
            0
        ]
        return solved[:, 0]

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return float(self.weights @ self.targets[:, 0]) / len(self.targets)

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Of y = grad psi under q' = N(mean, covariance), in q's units."""
        gap = self.points - mean
        half, inverse = cholesky_inverse(covariance + self.shape.lengthscale**2 * np.eye(len(mean)))
        a = gap @ inverse
        log_ratio = len(mean) * np.log(self.shape.lengthscale) - np.log(np.diagonal(half)).sum()
        z = np.exp(log_ratio - 0.5 * np.einsum("nd,nd->n", gap, a)) * self.weights
        linear, curvature = self._trend
        jacobian = (a.T * z) @ a - z.sum() * inverse + curvature
        return Moments(z @ a + linear + curvature @ mean, jacobian)

    @cached_property
    def _trend(self) -> tuple[np.ndarray, np.ndarray]:
        linear = self.shape.linear * (self.weights @ self.points)
        return linear, self.shape.quadratic * (self.points.T * self.weights) @ self.points

    def standard_deviations(self) -> Moments:
        """Of the `moments` at q itself."""
        d, l2 = self.points.shape[1], self.shape.lengthscale**2
        rows, columns = np.tril_indices(d)
        explained = np.square(self.solve(value_functionals(self.points, self.shape))).sum(0)
        double = (l2 / (l2 + 2.0)) ** (d / 2)
        times = np.where(rows == columns, 3.0, 1.0)  # E[e^4] = 3
        slope = np.full(d, double / (l2 + 2.0) + self.shape.linear)
        bend = times * double / (l2 + 2.0) ** 2 + np.where(rows == columns, 2.0, 1.0) * self.shape.quadratic
        variance = self.scale * np.maximum(np.concatenate([slope, bend]) - explained, 0.0)
        jacobian = np.zeros((d, d))
        jacobian[rows, columns] = jacobian[columns, rows] = np.sqrt(variance[d:])
        return Moments(np.sqrt(variance[:d]), jacobian)


def value_kernel(left: np.ndarray, right: np.ndarray, shape: ValueShape) -> np.ndarray:
    """K / s^2 between (m, D) and (n, D) points, (m, n)."""
    inner = left @ right.T
    squares = np.einsum("nd,nd->n", left, left)[:, None] + np.einsum("nd,nd->n", right, right)
    distances = np.maximum(squares - 2.0 * inner, 0.0)
    kernel: np.ndarray = np.exp(distances * (-0.5 / shape.lengthscale**2))
    kernel += inner * (shape.linear + 0.5 * shape.quadratic * inner)
    return kernel


def value_functionals(points: np.ndarray, shape: ValueShape) -> np.ndarray:
    """Prior covariance / s^2 of psi(u_n) with E[grad psi], E[Hessian psi] at q itself.

    (m, D + D (D + 1) / 2): the Hessian's entries are those of the lower triangle, row by row.
    """
    d, l2 = points.shape[1], shape.lengthscale**2
    rows, columns = np.tril_indices(d)
    z = (l2 / (l2 + 1.0)) ** (d / 2) * np.exp(-0.5 / (l2 + 1.0) * np.square(points).sum(1))[:, None]
    a = points / (l2 + 1.0)
    products = points[:, rows] * points[:, columns]
    bends = z * (a[:, rows] * a[:, columns] - (rows == columns) / (l2 + 1.0)) + shape.quadratic * products
    return np.concatenate([z * a + shape.linear * points, bends], 1)
