"""The linear function a + B u that y follows near q, and the residuals.

It is fitted by weighted least squares with a ridge: a priori a slope is about as large as y. Weights w,
which decrease for points beyond q, may be reduced also where y is large,

    w / (1 + |y|^2 / (4 typical)),        typical the w-weighted median of |y|^2.

Otherwise a single y that is a thousand times the others would determine the fit, and have no residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.settings import NOISE
from gp.triangular import positive_solve

__all__ = ["LinearFit", "down_weighted", "weighted_median"]

_TINY = 1e-300
"""Added to denominators, so that a quotient of zeros is a number."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fit to y at some points."""

    coefficients: np.ndarray
    """Rows a and B^T, (1 + D, D)."""

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> LinearFit:
        """The fit to y at (m, D) points with weights (m,)."""
        design = np.empty((len(points), 1 + points.shape[1]))
        design[:, 0], design[:, 1:] = 1.0, points
        weighted = design.T * weights
        gram = weighted @ design
        np.einsum("ii->i", gram)[:] += NOISE.ridge
        return cls(positive_solve(gram, weighted @ targets))

    def residuals(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """y - a - B u, (m, D)."""
        residuals: np.ndarray = points @ self.coefficients[1:]
        residuals += self.coefficients[0]
        np.subtract(targets, residuals, out=residuals)
        return residuals


def down_weighted(targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights, (m,), reduced where y is large."""
    squares = np.einsum("no,no->n", targets, targets)
    return weights / (1.0 + squares / (NOISE.large * weighted_median(squares, weights) + _TINY))


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The smallest value up to which the weights have half of their sum."""
    order = values.argsort()
    passed = weights[order].cumsum()
    return float(values[order[passed.searchsorted(0.5 * passed[-1])]])
