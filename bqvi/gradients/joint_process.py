"""A Gaussian process on the log joint from its values and its gradients together.

The function is that of `derivative_process`, psi(u) = f(theta) + |u|^2 / 2 with kernel

    k(u, u') = s^2 (l^2 exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2)

and a constant, profiled out. Every node shows 1 + D numbers, psi and its gradient y. With r = u - u' and
e = exp(-|r|^2 / (2 l^2)),

    cov(psi(u), psi(u'))     = l^2 e + b1 u . u' + b2 (u . u')^2 / 2
    cov(psi(u), y_j(u'))     = e r_j + b1 u_j + b2 (u . u') u_j
    cov(y_i(u), y_j(u'))     as in `derivative_process`

all times s^2. The posterior mean is a `gp.expectation.KernelSum` of values and slopes, which
knows E_q[f] and not only its gradients. Solves cost O((m (D + 1))^3): worth it where evaluations cost more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from acquisition.functionals import Candidates
from bqvi.gradients import derivative_process, function_kernel
from bqvi.gradients.derivative_process import derivative_functionals
from bqvi.gradients.function_kernel import observed_kernel
from bqvi.gradients.jackknife import block_residuals, inverse_of
from bqvi.gradients.moment_covariance import of_function, posterior
from bqvi.gradients.value_process import ValueShape, spread_of, value_functionals, widened
from bqvi.gradients.whitened import Moments, remoteness
from gp.expectation import KernelSum, Quadratic
from gp.triangular import cholesky

JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class JointProcess:
    """The process given m values and gradients."""

    points: np.ndarray
    """U, (m, D)."""
    targets: np.ndarray
    """(psi, y), (m, 1 + D)."""
    shape: ValueShape

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor of K / s^2, (m (1 + D), m (1 + D)), node by node."""
        gram = joint_kernel(self.points, self.shape)
        np.einsum("ii->i", gram)[:] += noise(self.points)
        return cholesky(gram)

    def extended(self, points: np.ndarray, targets: np.ndarray) -> JointProcess:
        """With (n, D) more points."""
        both = np.concatenate([self.points, points]), np.concatenate([self.targets, targets])
        return JointProcess(*both, self.shape)

    @cached_property
    def _constant(self) -> float:
        """Generalised least squares."""
        half = self._solve(np.column_stack([self.targets.reshape(-1), constant_basis(self.points)]))
        return float((half[:, 0] @ half[:, 1]) / (half[:, 1] @ half[:, 1]))

    @cached_property
    def weights(self) -> np.ndarray:
        """K^-1 of what is above the constant, (m, 1 + D)."""
        solved: np.ndarray = scipy.linalg.lapack.dpotrs(self.factor, self._above[:, None], lower=1)[0]
        return solved.reshape(self.targets.shape)

    @cached_property
    def _above(self) -> np.ndarray:
        return self.targets.reshape(-1) - self._constant * constant_basis(self.points)

    @cached_property
    def scale(self) -> float:
        """s^2, at its most likely value; a sum of squares, as a log joint may be 1e6 everywhere."""
        return float(np.square(self._solve(self._above)).sum()) / self.targets.size

    def _solve(self, right: np.ndarray) -> np.ndarray:
        solved: np.ndarray = scipy.linalg.lapack.dtrtrs(self.factor, right, lower=1)[0]
        return solved

    @cached_property
    def posterior_mean(self) -> KernelSum:
        """Of psi, a function of u."""
        return self.function(self.weights, self._constant)

    def function(self, weights: np.ndarray, constant: float = 0.0) -> KernelSum:
        """The function of u that weights (m, 1 + D) of the observations make."""
        u, alpha, b = self.points, weights[:, 0], weights[:, 1:]
        linear = self.shape.linear * (alpha @ u + b.sum(0))
        curvature = self.shape.quadratic * ((u.T * alpha) @ u + u.T @ b + b.T @ u)
        l2 = self.shape.lengthscale**2
        trend = Quadratic(constant, linear, curvature)
        return KernelSum(u, self.shape.lengthscale, l2, trend, values=alpha, slopes=b)

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
        """What is known / s^2 of (psi, y) at (C, D) points, 1 + D numbers each."""
        half = self._solve(observed_kernel(self.points, pool, self.shape))
        explained = half.T @ self._solve(joint_functionals(self.points, self.shape))
        shared = joint_functionals(pool, self.shape) - explained
        return Candidates.of(shared, joint_kernel(pool, self.shape) - half.T @ half, 1 + pool.shape[1])

    def standard_deviations(self) -> Moments:
        """Of the moments `here`: the model's variance and the jackknife's (`jackknife`) together."""
        return widened(self.model_deviations(), self._moved())

    def precision(self) -> np.ndarray:
        """K^-1 s^2 less what the constant explains, (m (1 + D), m (1 + D)): it makes weights of targets."""
        inverse, basis = inverse_of(self.factor), constant_basis(self.points)
        pulled = inverse @ basis
        precision: np.ndarray = inverse - np.outer(pulled, pulled) / (basis @ pulled)  # it is fitted too
        return precision

    def _moved(self) -> np.ndarray:
        """How much each node moves the moments, flat, (m, F)."""
        inverse = self.precision()
        left = block_residuals(inverse, self.weights)
        rules = (inverse @ joint_functionals(self.points, self.shape)).reshape(*left.shape, -1)
        moved: np.ndarray = np.einsum("ndf,nd->nf", rules, left)
        return moved

    def covariance(self) -> np.ndarray:
        """Of the moments `here`, flat (`moment_covariance`), (F, F): the model's with the jackknife's."""
        explained, moved = self._solve(joint_functionals(self.points, self.shape)), self._moved()
        height = self.shape.lengthscale**2
        prior = of_function(len(self.points.T), self.shape.lengthscale, height, *self.shape.trend)
        return posterior(prior, self.scale, explained, moved)

    def model_deviations(self) -> Moments:
        """The model's posterior standard deviations of the moments `here`."""
        explained = np.square(self._solve(joint_functionals(self.points, self.shape))).sum(0)
        l2 = self.shape.lengthscale**2
        return spread_of(self.points.shape[1], self.shape, l2, self.scale, explained)


def noise(points: np.ndarray) -> np.ndarray:
    """On the diagonal of K / s^2, (m (1 + D),)."""
    return JITTER * np.repeat(remoteness(points), 1 + points.shape[1])


def constant_basis(points: np.ndarray) -> np.ndarray:
    """What the constant adds to each number, (m (1 + D),): 1 to values, 0 to derivatives."""
    basis = np.zeros((len(points), 1 + points.shape[1]))
    basis[:, 0] = 1.0
    return basis.reshape(-1)


def joint_kernel(points: np.ndarray, shape: ValueShape) -> np.ndarray:
    """K / s^2 of m nodes, (m (1 + D), m (1 + D))."""
    return observed_kernel(points, points, shape)


def smooth_matrix(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """The squared-exponential part of K / s^2, and its derivative in ln l."""
    return function_kernel.smooth_matrix(points, lengthscale)


def trend_matrices(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What b1 and b2 multiply."""
    m, d = points.shape
    inner = points @ points.T
    linear, quadratic = derivative_process.trend_matrices(points)
    own = np.broadcast_to(points[:, None, :], (m, m, d))
    return (
        _assembled(inner, own, linear.reshape(m, d, m, d)),
        _assembled(0.5 * inner**2, inner[:, :, None] * own, quadratic.reshape(m, d, m, d)),
    )


def _assembled(values: np.ndarray, across: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """From cov(psi, psi') (m, m), cov(psi, y'_j) (m, m, D) and cov(y_i, y'_j) (m, D, m, D)."""
    m, d = len(values), slopes.shape[1]
    whole = np.empty((m, 1 + d, m, 1 + d))
    whole[:, 0, :, 0] = values
    whole[:, 0, :, 1:] = across
    whole[:, 1:, :, 0] = across.transpose(1, 2, 0)  # the covariance is symmetric in the two nodes
    whole[:, 1:, :, 1:] = slopes
    return whole.reshape(m * (1 + d), m * (1 + d))


def joint_functionals(points: np.ndarray, shape: ValueShape) -> np.ndarray:
    """Prior covariance / s^2 of (psi, y) with E[grad psi], E[Hessian psi] at q, (m (1 + D), F)."""
    m, d = points.shape
    l2 = shape.lengthscale**2
    # `value_functionals` has a squared exponential of height 1, this kernel one of l^2
    lowered = ValueShape(shape.lengthscale, shape.linear / l2, shape.quadratic / l2)
    values = l2 * value_functionals(points, lowered)
    slopes = derivative_functionals(points, shape).reshape(m, d, -1)
    return np.concatenate([values[:, None], slopes], 1).reshape(m * (1 + d), -1)
