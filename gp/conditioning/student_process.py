"""A Gaussian process whose scale and mean are integrated out, given its evidence: Student's t.

For kernel s k, mean H b with a flat prior on b, and 1/s as the prior of s, the evidence is the marginal one
of `gp.evidence`, with K = C C^T, Z = C^-1 H, residuals R, weights W and nu degrees of freedom there. A
functional with prior variance c over s, covariances z with the data, and values h at the basis functions
follows Student's t with

    mean      h b + z^T W
    variance  nu / (nu - 2) s (c - z^T K^-1 z + t^T (Z^T Z)^-1 t),    t = h - Z^T C^-1 z.

Several outputs share k; each has its own b, and s becomes the matrix S = R^T R / nu. Solves are by
substitution with C, not by products with C^-1 as in `gp.conditioning.conditioned`, which lose digits of the
mean where K is nearly singular, as for a smooth function at many nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gp.evidence import Evidence

_TINY = 1e-300
"""The smallest scale and precision, as other quantities are divided by them."""
_LEAST_DEGREES = 3.0
"""The smallest number of degrees of freedom: a t distribution with two or fewer has no variance."""


@dataclass(frozen=True, eq=False)
class StudentProcess:
    """Predictions with scale and mean integrated out.

    Attributes
    ----------
    evidence : the marginal evidence of the data, with at most one basis function.
    """

    evidence: Evidence

    @property
    def mean(self) -> np.ndarray:
        """The coefficient b of each output, (o,); zero without a basis function."""
        found = self.evidence.coefficients
        return found[0] if len(found) else np.zeros(self.evidence.outputs)

    @property
    def weights(self) -> np.ndarray:
        """W = K^-1 (Y - H b), (n, o)."""
        return self.evidence.weights

    @cached_property
    def covariance(self) -> np.ndarray:
        """S, (o, o), of the outputs."""
        residual = self.evidence.residual
        return residual.T @ residual / self.evidence.degrees

    @cached_property
    def scales(self) -> np.ndarray:
        """The diagonal of S, (o,), kept above zero."""
        residual = self.evidence.residual
        return np.maximum(np.einsum("no,no->o", residual, residual) / self.evidence.degrees, _TINY)

    @property
    def inflation(self) -> float:
        """nu / (nu - 2), of variances."""
        nu = max(float(self.evidence.degrees), _LEAST_DEGREES)
        return nu / (nu - 2)

    def whitened(self, right: np.ndarray) -> np.ndarray:
        """C^-1 times ``right``, an array (n,) or (n, m)."""
        return self.evidence.factor.solve(right)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors y_i - E[y_i | others], (n, o), and their standard deviations (n, o)."""
        precision = np.maximum(self.evidence.precisions, _TINY)[:, None]
        return self.weights / precision, np.sqrt(self.inflation * self.scales / precision)

    def rule(self, cross: np.ndarray, level: float) -> np.ndarray:
        """Weights (n,) of the data in the mean of a functional.

        Parameters
        ----------
        cross : covariances z of the functional with the data, over s, (n,)
        level : h, the functional of the basis function
        """
        whitened, z = self.whitened(cross), self.evidence.whitened_basis
        if z.shape[1]:
            whitened = whitened + z[:, 0] * ((level - whitened @ z[:, 0]) / self._information)
        return self.evidence.factor.solve(whitened, transposed=True)

    def predict(
        self, cross: np.ndarray, level: np.ndarray, prior: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means (m, o) of functionals, and their covariance (m, m) for unit scale.

        Parameters
        ----------
        cross : covariances with the data, over s, (n, m)
        level : the functionals of the basis function, (m,)
        prior : their prior covariance, over s, (m, m)
        """
        whitened, z = self.whitened(cross), self.evidence.whitened_basis
        mean, unit = whitened.T @ self.evidence.residual, prior - whitened.T @ whitened
        if z.shape[1]:
            missed = level - whitened.T @ z[:, 0]
            mean = mean + level[:, None] * self.mean
            unit = unit + np.outer(missed, missed) / self._information
        return mean, unit

    @cached_property
    def _information(self) -> float:
        """Z^T Z of the one basis function."""
        z = self.evidence.whitened_basis[:, 0]
        return max(float(z @ z), _TINY)
