"""A Gaussian process on the log joint from its values, in units whitened by q; integrals in closed form.

What is modelled is psi(u) = f(theta) + |u|^2 / 2, theta = mu + L u, so that the log density of q itself
is the prior mean, up to a constant, which is profiled out (generalised least squares). The kernel is

    k(u, u') = s^2 (exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2).

Its posterior mean is a `gp.expectation.KernelSum`: E[grad psi] = dE/dm and E[Hessian of psi] =
2 dE/dS are the moments of y = grad psi that `whitened` asks for (variational Bayesian Monte Carlo integrates
the same process, Acerbi 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from acquisition.functionals import Candidates
from bqvi.gradients.jackknife import inverse_of, residuals
from bqvi.gradients.moment_covariance import of_function, posterior
from bqvi.gradients.whitened import Moments, remoteness
from gp.expectation import KernelSum, Quadratic, jacobian_variance, value_jacobian
from gp.triangular import cholesky

JITTER = 1e-6


@dataclass(frozen=True)
class ValueShape:
    """Hyperparameters of k, less its scale s^2."""

    lengthscale: float
    linear: float
    """b1."""
    quadratic: float
    """b2."""

    @property
    def trend(self) -> tuple[float, float]:
        """b1 and b2."""
        return self.linear, self.quadratic


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
    def _constant(self) -> float:
        """Generalised least squares."""
        half = self.solve(np.column_stack([self.targets, np.ones_like(self.targets)]))
        return float((half[:, 0] @ half[:, 1]) / (half[:, 1] @ half[:, 1]))

    @cached_property
    def weights(self) -> np.ndarray:
        """alpha = K^-1 (psi - constant), (m,)."""
        above = self.targets - self._constant
        solved: np.ndarray = scipy.linalg.lapack.dpotrs(self.factor, above, lower=1)[0]
        return solved[:, 0]

    @cached_property
    def scale(self) -> float:
        """s^2, at its most likely value; a sum of squares, as a log joint may be 1e6 everywhere."""
        return float(np.square(self.solve(self.targets - self._constant)).sum()) / len(self.targets)

    @cached_property
    def posterior_mean(self) -> KernelSum:
        """Of psi, a function of u."""
        return self.function(self.weights[:, None], self._constant)

    def function(self, weights: np.ndarray, constant: float = 0.0) -> KernelSum:
        """The function of u that weights (m, 1) of the observations make."""
        alpha, u = weights[:, 0], self.points
        trend = Quadratic(constant, self.shape.linear * (alpha @ u), self.shape.quadratic * (u.T * alpha) @ u)
        return KernelSum(u, self.shape.lengthscale, 1.0, trend, values=alpha)

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Of y = grad psi under q' = N(mean, covariance), in q's units."""
        found = self.posterior_mean.integrate(mean, covariance)
        return Moments(found.mean, 2.0 * found.covariance)

    @cached_property
    def here(self) -> Moments:
        """The moments under q itself."""
        d = self.points.shape[1]
        return self.moments(np.zeros(d), np.eye(d))

    def candidates(self, pool: np.ndarray) -> Candidates:
        """What is known / s^2 of psi at (C, D) points."""
        half = self.solve(value_kernel(self.points, pool, self.shape))
        explained = half.T @ self.solve(value_functionals(self.points, self.shape))
        residual = value_kernel(pool, pool, self.shape) - half.T @ half
        return Candidates.of(value_functionals(pool, self.shape) - explained, residual)

    def standard_deviations(self) -> Moments:
        """Of the moments `here`: the model's variance and the jackknife's (`jackknife`) together."""
        return widened(self.model_deviations(), self._moved())

    def precision(self) -> np.ndarray:
        """K^-1 s^2 less what the constant explains, (m, m): it makes weights of targets."""
        inverse = inverse_of(self.factor)
        ones = inverse.sum(1)
        precision: np.ndarray = inverse - np.outer(ones, ones) / ones.sum()  # the constant is fitted too
        return precision

    def _moved(self) -> np.ndarray:
        """How much each node moves the moments, flat, (m, F)."""
        inverse = self.precision()
        moved: np.ndarray = residuals(inverse, self.weights[:, None]) * (
            inverse @ value_functionals(self.points, self.shape)
        )
        return moved

    def covariance(self) -> np.ndarray:
        """Of the moments `here`, flat (`moment_covariance`), (F, F): the model's with the jackknife's."""
        explained, moved = self.solve(value_functionals(self.points, self.shape)), self._moved()
        prior = of_function(len(self.points.T), self.shape.lengthscale, 1.0, *self.shape.trend)
        return posterior(prior, self.scale, explained, moved)

    def model_deviations(self) -> Moments:
        """The model's posterior standard deviations of the moments `here`."""
        explained = np.square(self.solve(value_functionals(self.points, self.shape))).sum(0)
        return spread_of(self.points.shape[1], self.shape, 1.0, self.scale, explained)


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
    slopes, bends = value_jacobian(points, shape.lengthscale)
    rows, columns = np.tril_indices(points.shape[1])
    products = points[:, rows] * points[:, columns]
    return np.concatenate([slopes + shape.linear * points, bends + shape.quadratic * products], 1)


def widened(within: Moments, moved: np.ndarray) -> Moments:
    """Standard deviations with the jackknife's: ``moved`` (m, D + D (D + 1) / 2) are the changes by node."""
    d = len(within.mean)
    extra = np.square(moved).sum(0) + np.square(moved.sum(0))
    jacobian = np.square(within.jacobian)
    rows, columns = np.tril_indices(d)
    jacobian[rows, columns] += extra[d:]
    jacobian[columns, rows] = jacobian[rows, columns]
    return Moments(np.sqrt(np.square(within.mean) + extra[:d]), np.sqrt(jacobian))


def spread_of(
    dimension: int, shape: ValueShape, height: float, scale: float, explained: np.ndarray
) -> Moments:
    """Posterior standard deviations at q of E[grad psi] and E[Hessian psi].

    Parameters
    ----------
    dimension : D. shape : of the kernel, whose squared exponential is ``height`` high. scale : s^2.
    explained : what the observations take off the prior variances / s^2, (D + D (D + 1) / 2,).
    """
    rows, columns = np.tril_indices(dimension)
    one, two = jacobian_variance(dimension, shape.lengthscale)
    same = rows == columns
    slope = np.full(dimension, height * one + shape.linear)
    bend = np.where(same, 3.0, 1.0) * height * two + np.where(same, 2.0, 1.0) * shape.quadratic  # E[e^4] = 3
    variance = scale * np.maximum(np.concatenate([slope, bend]) - explained, 0.0)
    jacobian = np.zeros((dimension, dimension))
    jacobian[rows, columns] = jacobian[columns, rows] = np.sqrt(variance[dimension:])
    return Moments(np.sqrt(variance[:dimension]), jacobian)
