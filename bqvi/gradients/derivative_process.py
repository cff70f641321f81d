"""A Gaussian process on the log joint from its gradients: of one function, not D outputs.

As in `value_process`, psi(u) = f(theta) + |u|^2 / 2 in units whitened by q, with the kernel

    k(u, u') = s^2 (l^2 exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2),

but what is observed is y = grad psi. With r = u - u' and e = exp(-|r|^2 / (2 l^2)), the covariance of y_i(u)
and y_j(u') is

    s^2 (e (delta_ij - r_i r_j / l^2) + b1 delta_ij + b2 (u . u' delta_ij + u'_i u_j)).

Its posterior mean is a `gp.expectation.KernelSum` of slopes.
Better per node than the separable process, at O((m D)^3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from acquisition.functionals import Candidates
from bqvi.gradients import function_kernel
from bqvi.gradients.function_kernel import observed_kernel
from bqvi.gradients.jackknife import block_residuals, inverse_of
from bqvi.gradients.moment_covariance import of_function, posterior
from bqvi.gradients.value_process import ValueShape, spread_of, widened
from bqvi.gradients.whitened import Moments, remoteness
from gp.expectation import KernelSum, Quadratic, slope_jacobian
from gp.triangular import cholesky

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
        gram = derivative_kernel(self.points, self.shape)
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

    @cached_property
    def posterior_mean(self) -> KernelSum:
        """Of psi, a function of u, up to a constant that derivatives do not show."""
        return self.function(self.weights)

    def function(self, weights: np.ndarray) -> KernelSum:
        """The function of u that weights (m, D) of the observations make."""
        u, b = self.points, weights
        curvature = self.shape.quadratic * (u.T @ b + b.T @ u)
        trend = Quadratic(0.0, self.shape.linear * b.sum(0), curvature)
        return KernelSum(u, self.shape.lengthscale, self.shape.lengthscale**2, trend, slopes=b)

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Of y under q' = N(mean, covariance), in q's units."""
        found = self.posterior_mean.integrate(mean, covariance)
        return Moments(found.mean, 2.0 * found.covariance)

    @cached_property
    def here(self) -> Moments:
        """The moments under q itself."""
        d = self.points.shape[1]
        return self.moments(np.zeros(d), np.eye(d))

    def candidates(self, pool: np.ndarray) -> Candidates:
        """What is known / s^2 of y at (C, D) points, D numbers each."""
        across = observed_kernel(self.points, pool, self.shape, 1)
        half = scipy.linalg.lapack.dtrtrs(self.factor, across, lower=1)[0]
        known = derivative_functionals(self.points, self.shape)
        explained = half.T @ scipy.linalg.lapack.dtrtrs(self.factor, known, lower=1)[0]
        shared = derivative_functionals(pool, self.shape) - explained
        return Candidates.of(shared, derivative_kernel(pool, self.shape) - half.T @ half, pool.shape[1])

    def standard_deviations(self) -> Moments:
        """Of the moments `here`: the model's variance and the jackknife's (`jackknife`) together."""
        return widened(self.model_deviations(), self._moved())

    def precision(self) -> np.ndarray:
        """K^-1 s^2, (m D, m D): it makes weights of targets."""
        return inverse_of(self.factor)

    def _moved(self) -> np.ndarray:
        """How much each node moves the moments, flat, (m, F)."""
        inverse = self.precision()
        left = block_residuals(inverse, self.weights)
        rules = inverse @ derivative_functionals(self.points, self.shape)
        moved: np.ndarray = np.einsum("ndf,nd->nf", rules.reshape(*left.shape, -1), left)
        return moved

    def covariance(self) -> np.ndarray:
        """Of the moments `here`, flat (`moment_covariance`), (F, F): the model's with the jackknife's."""
        explained, moved = self._explained(), self._moved()
        height = self.shape.lengthscale**2
        prior = of_function(len(self.points.T), self.shape.lengthscale, height, *self.shape.trend)
        return posterior(prior, self.scale, explained, moved)

    def model_deviations(self) -> Moments:
        """The model's posterior standard deviations of the moments `here`."""
        explained = np.square(self._explained()).sum(0)
        l2 = self.shape.lengthscale**2
        return spread_of(self.points.shape[1], self.shape, l2, self.scale, explained)

    def _explained(self) -> np.ndarray:
        """factor^-1 of the covariances with the moments, (m D, F)."""
        across = derivative_functionals(self.points, self.shape)
        explained: np.ndarray = scipy.linalg.lapack.dtrtrs(self.factor, across, lower=1)[0]
        return explained


def derivative_kernel(points: np.ndarray, shape: ValueShape) -> np.ndarray:
    """K / s^2 of (m, D) points, (m D, m D)."""
    return observed_kernel(points, points, shape, 1)


def noise(points: np.ndarray) -> np.ndarray:
    """On the diagonal of K / s^2, (m D,)."""
    return JITTER * np.repeat(remoteness(points), points.shape[1])


def smooth_matrix(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """The squared-exponential part of K / s^2, and its derivative in ln l; (m D, m D) each."""
    return function_kernel.smooth_matrix(points, lengthscale, 1)


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
    rows, columns = np.tril_indices(d)
    slopes, bends = slope_jacobian(points, shape.lengthscale)
    eye, l2 = np.eye(d), shape.lengthscale**2
    along = eye[:, rows] * points[:, None, columns] + eye[:, columns] * points[:, None, rows]
    parts = [l2 * slopes + shape.linear * eye, l2 * bends + shape.quadratic * along]
    return np.concatenate(parts, 2).reshape(m * d, -1)


def _flat(blocks: np.ndarray, size: int) -> np.ndarray:
    """(m, m, D, D) as (m D, m D), point by point."""
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(size, size)
