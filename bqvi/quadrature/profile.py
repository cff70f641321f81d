"""A Gaussian process with its scale and its constant mean integrated out.

For kernel s k, constant mean b (prior flat) and scale s (prior 1/s), with K = k(x, x) + tau N = C C^T
and whitened data R = C^-1 (Y - H b), the marginal likelihood of one output is the restricted one
(REML; O'Hagan 1991, Rasmussen & Williams 2006 Eq. 2.45)

    log p = -nu/2 log s_hat - log det C - 1/2 log Z^T Z,   Z = C^-1 H,   s_hat = |R|^2 / nu,

nu = n - 1, and what is predicted follows Student's t with nu degrees of freedom: a functional with
prior variance c and covariances z with the data has

    mean      b h + z^T K^-1 (y - H b)
    variance  nu/(nu - 2) s_hat (c - z^T K^-1 z + t^2 / (Z^T Z)),   t = h - z^T K^-1 H.

Several outputs share k, the nodes and so the weights; each has its own b, and s becomes the matrix
S = R^T R / nu, so outputs covary as S times the same number. For k itself they count as o functions of
one common scale, the mean of the diagonal of S: with a scale for each, an output that is fitted
exactly would have infinite evidence, and the others would have to do with its lengthscales. N holds
relative noise variances; tau is a noise that is learnt, or what is known divided by s. Noise is no part
of the integral.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gp.linalg import Factor, cholesky, inverse

_TINY = 1e-300
DEGREES_FLOOR = 3.0
"""Fewer degrees of freedom have no variance; the t distribution is cut there."""


@dataclass(frozen=True, eq=False)
class Profile:
    """What is found in closed form for a covariance matrix of unit scale.

    Attributes
    ----------
    factor : Cholesky factor of K, (n, n).
    basis : h of the data, (n,): 1 for values, 0 for derivatives; all 0 for a mean of zero.
    whitened_basis : Z, (n,). information : Z^T Z.
    mean : b, (o,). residual : R, (n, o).
    """

    factor: Factor
    basis: Any
    whitened_basis: Any
    information: float
    mean: Any
    residual: Any

    @property
    def degrees(self) -> float:
        """nu = n - 1, at least 1."""
        return float(max(len(self.basis) - 1, 1))

    @cached_property
    def covariance(self) -> Any:
        """S, (o, o), of the outputs."""
        return self.residual.T @ self.residual / self.degrees

    @cached_property
    def scales(self) -> Any:
        """The diagonal of S, (o,), kept above zero."""
        return np.maximum(np.einsum("no,no->o", self.residual, self.residual) / self.degrees, _TINY)

    @cached_property
    def common_scale(self) -> float:
        """The mean of the scales."""
        flat = self.residual.reshape(-1)
        square = float(flat @ flat)
        return max(square / float(self.degrees * self.residual.shape[1]), _TINY)

    @property
    def inflation(self) -> float:
        """nu / (nu - 2)."""
        nu = max(self.degrees, DEGREES_FLOOR)
        return nu / (nu - 2)

    @cached_property
    def log_likelihood(self) -> float:
        """The restricted log likelihood summed over outputs, up to constants."""
        determinant = 0.5 * float(self.factor.log_determinant) + 0.5 * np.log(self.information)
        fit = 0.5 * self.degrees * np.log(self.common_scale)
        return float(-self.residual.shape[1] * (fit + determinant))

    @cached_property
    def weights(self) -> Any:
        """K^-1 (Y - H b), (n, o)."""
        return self.factor.solve(self.residual, transposed=True)

    @cached_property
    def projected_inverse(self) -> Any:
        """P = K^-1 - K^-1 H (Z^T Z)^-1 H^T K^-1, (n, n)."""
        solved = self.factor.solve(self.whitened_basis, transposed=True)
        projected = inverse(self.factor)
        projected -= solved[:, None] * (solved / self.information)
        return projected

    def matrix_gradient(self) -> Any:
        """Return d log_likelihood / dK, (n, n), by the envelope theorem."""
        gradient = (-0.5 * self.residual.shape[1]) * self.projected_inverse
        weights = self.weights
        gradient += 0.5 / self.common_scale * weights @ weights.T
        return gradient

    def leave_one_out(self) -> tuple[Any, Any]:
        """Return errors y_i - E[y_i | others], (n, o), and their standard deviations (n, o)."""
        precision = np.maximum(np.diag(self.projected_inverse), _TINY)
        errors = self.weights / precision[:, None]
        return errors, np.sqrt(self.inflation * self.scales / precision[:, None])

    def weights_of(self, cross: Any, basis: float) -> Any:
        """Return the weights (n,) of the data in the mean of a functional.

        ``cross`` are its covariances with the data, (n,); ``basis`` is h of it.
        """
        half = self.factor.solve(cross)
        rest = (basis - half @ self.whitened_basis) / self.information
        return self.factor.solve(half + rest * self.whitened_basis, transposed=True)

    def predict(self, cross: Any, basis: Any, prior: Any) -> tuple[Any, Any]:
        """Return means (m, o) of functionals and their covariance (m, m) for unit scale.

        Parameters
        ----------
        cross : covariances with the data, (n, m).
        basis : h of the functionals, (m,).
        prior : their prior covariance, (m, m).
        """
        half = self.factor.solve(cross)
        rest = basis - half.T @ self.whitened_basis
        mean = basis[:, None] * self.mean + half.T @ self.residual
        return mean, prior - half.T @ half + np.outer(rest, rest) / self.information


def profile(matrix: Any, basis: Any, y: Any) -> Profile:
    """Return the profile of K (n, n) with basis h (n,) and data y (n, o)."""
    factor = cholesky(matrix)
    both = np.empty((len(y), 1 + y.shape[1]), order="F")
    both[:, 0], both[:, 1:] = basis, y
    whitened = factor.solve(both)
    z, data = whitened[:, 0], whitened[:, 1:]
    information = max(float(z @ z), _TINY)
    mean = z @ data / information
    return Profile(factor, basis, z, information, mean, data - z[:, None] * mean)
