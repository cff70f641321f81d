"""A Gaussian process on the gradient of the log joint, in units whitened by q; integrals in closed form.

q = N(mu, L L^T), theta = mu + L u, and what is modelled is

    y(u) = L^T grad f(theta) + u,            f = ln p(X, theta),

which is zero where q is the posterior: the prior mean zero of y is sticking-the-landing's estimate. All D
outputs share the kernel k(u, u') = s^2 (SE_l(u, u') + b0 + b1 u . u'), so one m x m solve serves them all.
With alpha = K^-1 Y, and under q' = N(m, S) in the same units, A = l^2 I + S, a_n = A^-1 (u_n - m),
z_n = l^D |A|^(-1/2) exp(-(u_n - m)^T a_n / 2),

    E[y]               = alpha^T (z + b0 + b1 U m)                      (D,)
    E[y (u - m)^T] S^-1 = alpha^T (z a + b1 U)                           (D, D)

The second is the expected Jacobian of y (Bonnet's and Stein's identities), whose symmetric part estimates
E[L^T (Hessian of f) L] + I. Together they are the ELBO's natural gradient at q'. At q itself, m = 0 and S = I,
and the posterior variance of each functional is its prior variance less c^T K^-1 c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

JITTER = 1e-6
"""Relative to the kernel's scale; 1e-4 costs an order of magnitude where gradients are exact."""


@dataclass(frozen=True)
class Shape:
    """Hyperparameters of k, less its scale s^2, which is profiled out."""

    lengthscale: float
    constant: float
    """b0."""
    linear: float
    """b1."""


@dataclass(frozen=True)
class GaussianIn:
    """N(m, S) in whitened units."""

    mean: np.ndarray
    """(D,)"""
    covariance: np.ndarray
    """(D, D)"""


@dataclass(frozen=True)
class Moments:
    """The two functionals that make the natural gradient at a q'."""

    mean: np.ndarray
    """E[y], (D,)."""
    jacobian: np.ndarray
    """Expected Jacobian of y, symmetrised, (D, D)."""


@dataclass(frozen=True, eq=False)
class GradientProcess:
    """The process given m observations."""

    points: np.ndarray
    """U, (m, D)."""
    targets: np.ndarray
    """Y, (m, D)."""
    shape: Shape

    @cached_property
    def _factor(self) -> tuple[np.ndarray, bool]:
        gram = gram_matrix(self.points, self.shape)
        np.einsum("ii->i", gram)[:] += JITTER * (1.0 + self.shape.constant)
        factor: tuple[np.ndarray, bool] = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
        return factor

    @cached_property
    def weights(self) -> np.ndarray:
        """alpha = K^-1 Y, (m, D)."""
        solved: np.ndarray = scipy.linalg.cho_solve(self._factor, self.targets, check_finite=False)
        return solved

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return float(np.vdot(self.targets, self.weights)) / self.targets.size

    def moments(self, at: GaussianIn) -> Moments:
        """Of q' = N(m, S)."""
        gap = self.points - at.mean
        spread = at.covariance + self.shape.lengthscale**2 * np.eye(len(at.mean))
        factor = np.linalg.cholesky(spread)
        half = scipy.linalg.solve_triangular(factor, gap.T, lower=True, check_finite=False)
        solved = scipy.linalg.solve_triangular(
            factor, half, lower=True, trans="T", check_finite=False
        ).T
        log_ratio = len(at.mean) * np.log(self.shape.lengthscale) - np.log(np.diagonal(factor)).sum()
        z = np.exp(log_ratio - 0.5 * np.einsum("dn,dn->n", half, half))
        linear = self.shape.linear * self.points
        mean = self.weights.T @ (z + self.shape.constant + linear @ at.mean)
        jacobian = self.weights.T @ (z[:, None] * solved + linear)
        return Moments(mean, 0.5 * (jacobian + jacobian.T))

    def variances(self) -> tuple[float, np.ndarray]:
        """At q itself: Var E[y_i], the same for all i, and Var E[y_i u_j], (D,), the same for all i."""
        d, l2 = self.points.shape[1], self.shape.lengthscale**2
        z = (l2 / (l2 + 1.0)) ** (d / 2) * np.exp(-0.5 * np.square(self.points).sum(1) / (l2 + 1.0))
        values = z + self.shape.constant
        slopes = (z[:, None] / (l2 + 1.0) + self.shape.linear) * self.points
        both = np.column_stack([values, slopes])
        half = scipy.linalg.solve_triangular(self._factor[0], both, lower=True, check_finite=False)
        explained = np.square(half).sum(0)
        double = (l2 / (l2 + 2.0)) ** (d / 2)
        mean = self.scale * max(double + self.shape.constant - explained[0], 0.0)
        prior = double / (l2 + 2.0) + self.shape.linear
        return mean, self.scale * np.maximum(prior - explained[1:], 0.0)


def gram_matrix(points: np.ndarray, shape: Shape) -> np.ndarray:
    """K / s^2, (m, m)."""
    inner = points @ points.T
    squares = np.diagonal(inner)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2.0 * inner, 0.0)
    gram: np.ndarray = np.exp(-0.5 / shape.lengthscale**2 * distances)
    gram += shape.constant
    gram += shape.linear * inner
    return gram
