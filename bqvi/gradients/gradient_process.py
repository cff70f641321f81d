"""A Gaussian process on the gradient of the log joint, in units whitened by q; integrals in closed form.

q = N(mu, L L^T), theta = mu + L u, and what is modelled is

    y(u) = L^T grad f(theta) + u,            f = ln p(X, theta),

which is zero where q is the posterior: the prior mean zero of y is sticking-the-landing's estimate. All D
outputs share the kernel

    k(u, u') = s^2 (exp(-|u - u'|_M^2 / (2 l^2)) + b0 + b1 u . u' + b2 (u^T M u')^2 / 2),

so one m x m solve serves them all; M (`directions`) says along which directions y bends, and b2 is the slow
bending that a bump of the lengthscale of the fast one would forget between the points: the skewness of q's
posterior. With alpha = K^-1 Y, and under q' = N(m, S) in the same units, A = l^2 M^-1 + S,
a_n = A^-1 (u_n - m), z_n = l^D |M A|^(-1/2) exp(-(u_n - m)^T a_n / 2) (`bqvi.quadrature.kernel_sums`),
w_n = M u_n and T_o = sum_n alpha_no w_n w_n^T,

    E[y_o]               = alpha_o^T (z + b0 + b1 U m) + b2 tr(T_o (S + m m^T)) / 2      (D,)
    E[y (u - m)^T]_o S^-1 = alpha_o^T (z a + b1 U) + b2 T_o m                             (D, D)

The second is the expected Jacobian of y (Bonnet's and Stein's identities), whose symmetric part estimates
E[L^T (Hessian of f) L] + I. Together they are the ELBO's natural gradient at q'. At q itself m = 0, S = I,
and the posterior covariance of the functionals is their prior covariance less c^T K^-1 c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from bqvi.gradients.directions import Directions
from bqvi.gradients.doubtful import Doubts
from bqvi.gradients.jackknife import inverse_of, residuals
from bqvi.gradients.whitened import Moments
from bqvi.quadrature.kernel_sums import Bumps
from bqvi.quadrature.positive_definite import cholesky

JITTER = 1e-6
"""On the diagonal of K / s^2; 1e-4 costs an order of magnitude where gradients are exact."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Hyperparameters of k, less its scale s^2, which is profiled out."""

    lengthscale: float
    constant: float
    """b0."""
    linear: float
    """b1."""
    quadratic: float = 0.0
    """b2."""
    directions: Directions | None = None
    """Of M; None: all alike, M = I."""

    def turned(self, dimension: int) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvectors of M, and the roots r of its eigenvalues."""
        used = self.directions or Directions.alike(dimension)
        return used.rotation, used.scales


@dataclass(frozen=True, eq=False)
class GradientProcess:
    """The process given m observations."""

    points: np.ndarray
    """U, (m, D)."""
    targets: np.ndarray
    """Y, (m, D)."""
    shape: Shape
    jitter: float = JITTER
    prior_slope: float = 0.0
    """C: the prior mean of y is c u. 0 is sticking-the-landing; 1 has grad f itself zero a priori."""

    @cached_property
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor of K / s^2, (m, m)."""
        gram = kernel_matrix(self.points, self.points, self.shape)
        np.einsum("ii->i", gram)[:] += self.jitter * self._doubts.noise(self.points, self._above)
        return cholesky(gram)

    @cached_property
    def _doubts(self) -> Doubts:
        return Doubts.of(self.points, self._above, self.shape.directions)

    def extended(self, points: np.ndarray, targets: np.ndarray) -> GradientProcess:
        """With (n, D) more observations: rows are added to the factor, O(m^2 n)."""
        m, n = len(self.points), len(points)
        above = replace(self, points=points, targets=targets)._above
        cross = self.solve(kernel_matrix(self.points, points, self.shape))
        gram = kernel_matrix(points, points, self.shape) - cross.T @ cross
        np.einsum("ii->i", gram)[:] += self.jitter * self._doubts.noise(points, above)
        factor = np.zeros((m + n, m + n), order="F")
        factor[:m, :m] = self.factor
        factor[m:, :m] = cross.T
        factor[m:, m:] = cholesky(gram)
        everywhere, seen = np.concatenate([self.points, points]), np.concatenate([self.targets, targets])
        both = replace(self, points=everywhere, targets=seen)
        new = above - cross.T @ self._half
        innovation = scipy.linalg.lapack.dtrtrs(factor[m:, m:], new, lower=1)[0]
        told = functionals(points, self.shape) - cross.T @ self._explained
        told = scipy.linalg.lapack.dtrtrs(factor[m:, m:], told, lower=1)[0]
        both.__dict__.update(
            factor=factor,
            _doubts=self._doubts,
            _half=np.concatenate([self._half, innovation]),
            _explained=np.concatenate([self._explained, told]),
        )
        return both

    def solve(self, right: np.ndarray) -> np.ndarray:
        """factor^-1 right, for (m, R)."""
        solved: np.ndarray = scipy.linalg.lapack.dtrtrs(self.factor, right, lower=1)[0]
        return solved

    @cached_property
    def weights(self) -> np.ndarray:
        """alpha = K^-1 Y, (m, D)."""
        solved: np.ndarray = scipy.linalg.lapack.dtrtrs(self.factor, self._half, lower=1, trans=1)[0]
        return solved

    @cached_property
    def _half(self) -> np.ndarray:
        """factor^-1 of what is above the prior mean, (m, D): independent, of variance s^2 each."""
        return self.solve(self._above)

    @cached_property
    def _above(self) -> np.ndarray:
        """Y less its prior mean, (m, D)."""
        if self.prior_slope == 0.0:
            return self.targets
        return self.targets - self.prior_slope * self.points

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return float(np.vdot(self._half, self._half)) / self.targets.size

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Of y under q' = N(mean, covariance), in q's units."""
        turn, scales = self.shape.turned(len(mean))
        centre, spread = mean @ turn, turn.T @ covariance @ turn
        bumps = Bumps.of(self._turned, self.shape.lengthscale / scales, centre, spread)
        total, cross, bend = self._trend
        expected = bumps.z @ self.weights + total + cross @ mean
        second = spread + centre[:, None] * centre
        expected += 0.5 * bend.reshape(len(bend), -1) @ second.reshape(-1)
        jacobian = (self.weights.T @ (bumps.z[:, None] * bumps.a) + bend @ centre) @ turn.T + cross
        if self.prior_slope != 0.0:
            expected = expected + self.prior_slope * mean
            jacobian = jacobian + self.prior_slope * np.eye(len(mean))
        return Moments(expected, 0.5 * (jacobian + jacobian.T))

    @cached_property
    def _turned(self) -> np.ndarray:
        """U along the eigenvectors of M, (m, D)."""
        turned: np.ndarray = self.points @ self.shape.turned(self.points.shape[1])[0]
        return turned

    @cached_property
    def _trend(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """b0 sum_n alpha_n, (D,), b1 alpha^T U, (D, D), and b2 T along the eigenvectors of M, (D, D, D)."""
        total = self.shape.constant * self.weights.sum(0)
        squares = np.square(self.shape.turned(self.points.shape[1])[1])
        w = self._turned * squares
        m, d = w.shape
        bend = self.weights.T @ (w[:, :, None] * w[:, None, :]).reshape(m, d * d)
        curved = self.shape.quadratic * bend.reshape(-1, d, d)
        return total, self.shape.linear * (self.weights.T @ self.points), curved

    def candidates(self, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """For (C, D) points: posterior covariances / s^2 with the functionals, with one another, and 1.

        The functionals are those of one output, (C, 1 + D); Var E[y_i] counts D times (`designs`).
        """
        half = self.solve(kernel_matrix(self.points, pool, self.shape))
        explained = half.T @ self._explained
        shared = functionals(pool, self.shape) - explained
        shared[:, 0] *= np.sqrt(pool.shape[1])
        return shared, kernel_matrix(pool, pool, self.shape) - half.T @ half, 1

    @cached_property
    def _explained(self) -> np.ndarray:
        """factor^-1 c, (m, 1 + D): what each observation tells of the functionals, after those before."""
        return self.solve(functionals(self.points, self.shape))

    def functional_covariance(self) -> np.ndarray:
        """Posterior covariance of (E[y_i], E[y_i u]) at q itself, (1 + D, 1 + D), the same for every i."""
        explained = self._explained
        prior = _prior_covariance(self.points.shape[1], self.shape)
        covariance: np.ndarray = self.scale * (prior - explained.T @ explained)
        return covariance

    def standard_deviations(self) -> Moments:
        """Of the `moments` at q itself: the model's variance and the jackknife's (`jackknife`) together."""
        inverse = inverse_of(self.factor)
        left, within = residuals(inverse, self.weights), self.model_deviations()
        rules = inverse @ functionals(self.points, self.shape)
        squares, rules2 = np.square(left), np.square(rules)
        mean = np.square(within.mean) + rules2[:, 0] @ squares
        # node i moves J_jk by (w_ij r_ik + w_ik r_ij) / 2
        crossed = left.T * rules[:, 1:].T
        parallel = squares.T @ rules2[:, 1:]
        moved = 0.25 * (parallel + parallel.T + 2.0 * crossed @ crossed.T)
        return Moments(np.sqrt(mean), np.sqrt(np.square(within.jacobian) + moved))

    def model_deviations(self) -> Moments:
        """The model's posterior standard deviations: the outputs are independent of one another."""
        d = self.points.shape[1]
        prior = np.diagonal(_prior_covariance(d, self.shape))
        told = np.einsum("mf,mf->f", self._explained, self._explained)
        variance = self.scale * np.maximum(prior - told, 0.0)
        slopes = 0.25 * (variance[1:, None] + variance[None, 1:])
        slopes[np.diag_indices(d)] = variance[1:]  # no second, independent estimate to average with
        return Moments(np.full(d, np.sqrt(variance[0])), np.sqrt(slopes))


def kernel_matrix(left: np.ndarray, right: np.ndarray, shape: Shape) -> np.ndarray:
    """K / s^2 between (m, D) and (n, D) points, (m, n)."""
    ours = left if shape.directions is None else shape.directions.scaled(left)
    theirs = ours if right is left else right if shape.directions is None else shape.directions.scaled(right)
    precision = 1.0 / shape.lengthscale**2
    inner = ours @ theirs.T
    kernel: np.ndarray = inner * precision
    kernel -= (0.5 * precision) * np.einsum("nd,nd->n", ours, ours)[:, None]
    kernel -= (0.5 * precision) * np.einsum("nd,nd->n", theirs, theirs)
    np.minimum(kernel, 0.0, out=kernel)  # rounding
    np.exp(kernel, out=kernel)
    kernel += shape.constant
    kernel += (shape.linear * left) @ right.T
    if shape.quadratic != 0.0:
        inner *= inner
        inner *= 0.5 * shape.quadratic
        kernel += inner
    return kernel


def functionals(points: np.ndarray, shape: Shape) -> np.ndarray:
    """Prior covariance / s^2 of y(u_n) with (E[y], E[y u]) at q itself, (m, 1 + D)."""
    turn, scales = shape.turned(points.shape[1])
    turned, l2 = points @ turn, np.square(shape.lengthscale / scales)
    widened = 1.0 / (l2 + 1.0)
    z = np.sqrt(np.prod(l2 * widened)) * np.exp(-0.5 * np.square(turned) @ widened)
    slopes = (z[:, None] * turned * widened) @ turn.T + shape.linear * points
    bend = 0.5 * shape.quadratic * np.square(turned) @ np.square(np.square(scales))
    return np.column_stack([z + shape.constant + bend, slopes])


def _prior_covariance(dimension: int, shape: Shape) -> np.ndarray:
    """Of (E[y], E[y u]) / s, (1 + D, 1 + D)."""
    turn, scales = shape.turned(dimension)
    l2 = np.square(shape.lengthscale / scales)
    double = np.sqrt(np.prod(l2 / (l2 + 2.0)))
    covariance = np.zeros((1 + dimension, 1 + dimension))
    covariance[0, 0] = double + shape.constant + 0.5 * shape.quadratic * np.power(scales, 4).sum()
    covariance[1:, 1:] = (turn * (double / (l2 + 2.0))) @ turn.T + shape.linear * np.eye(dimension)
    return covariance
