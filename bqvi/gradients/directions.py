"""Directions along which a gradient is nonlinear, and units in which it is equally nonlinear along all.

In units whitened by q, y(u) is a gradient, so its Jacobian is symmetric. Where y varies along a direction
beyond a linear fit, the *components* of y along that direction vary. The covariance over outputs of
the residuals R of a linear fit (`linear_fit`) therefore measures the nonlinearity along input directions:

    C = R^T W R / sum(w),        M = (C / mean + (D / sum(w)) I)^(1/2), scaled to trace D,

with weights w that decrease from 1 for points beyond q (`whitened.jitter_multiple`). The second term keeps M
near I until there are many more points than directions. Where y is noisy the sum of the noise's variances is
subtracted from the diagonal of C, and the second term, the uncertainty of C, is multiplied by the squared
ratio of the diagonal before to that after. Lengthscales along the eigenvectors of M are proportional to the
eigenvalues to the power -1/2, so a kernel of u^T M u' is anisotropic along the directions of the log joint,
without further hyperparameters. The power 1/2 was chosen by evidence on five log joints, between the power 0,
which is isotropic, and 1, which is C itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.linear_fit import LinearFit
from bqvi.gradients.whitened import jitter_multiple
from gp.triangular import symmetric_eigen

__all__ = ["Directions"]

_LEAST = 1e-12
"""Share of the squares of the targets below which the residuals of a linear fit are rounding."""


@dataclass(frozen=True, eq=False)
class Directions:
    """M = V diag(r^2) V^T."""

    rotation: np.ndarray
    """Orthogonal V, (D, D)."""
    scales: np.ndarray
    """r, (D,)."""

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, noise: np.ndarray | None = None) -> Directions:
        """The directions from (m, D) points and y there, with the variances of its noise, (m,)."""
        d = points.shape[1]
        weights = 1.0 / jitter_multiple(points)
        residuals = LinearFit.of(points, targets, weights).residuals(points, targets)
        spread = (residuals.T * weights) @ residuals
        whole = size = float(np.trace(spread)) / d
        if noise is not None:
            of_noise = float(weights @ noise)
            np.einsum("ii->i", spread)[:] -= of_noise
            size -= of_noise
        if not size > _LEAST * (float(np.vdot(targets, targets)) + 1.0):
            return cls(np.eye(d), np.ones(d))  # isotropic
        total = float(weights.sum())
        values, vectors = symmetric_eigen(spread / size)
        squares = np.sqrt(np.maximum(values, 0.0) + d / total * (whole / size) ** 2)
        return cls(vectors, np.sqrt(squares / squares.mean()))

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """(m, D) points in units in which M is I."""
        return (points @ self.rotation) * self.scales
