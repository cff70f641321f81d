"""Directions along which a gradient is nonlinear, and units in which it is equally so along all of them.

In units whitened by q, y(u) is a gradient: its Jacobian is symmetric. So where y varies along a direction
beyond what a linear fit explains, it is its *components* along that direction that vary, and the spread of
the residuals R of a linear fit (`linear_fit`) over the outputs shows how inputs matter:

    C = R^T W R / sum(w),        M = (C / mean + (D / sum(w)) I)^(1/2), scaled to trace D,

with w falling from 1 as points lie beyond q (`whitened.jitter_multiple`). The second term keeps M near I
until there are many more points than directions. Where y is noisy the sum of the noise's variances is taken
off C's diagonal, and the second term, what C is uncertain by, is larger by the square of the share that is
left. Lengthscales along M's eigenvectors go with its
eigenvalues' -1/2, so a kernel of u^T M u' is anisotropic, turned as the log joint is, and has no more
hyperparameters than before. The power 1/2 was chosen by evidence on five log joints, between the power 0,
which is isotropic, and 1, which is C itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.linear_fit import LinearFit
from bqvi.gradients.whitened import jitter_multiple
from gp.triangular import symmetric_eigen

_LEAST = 1e-12
"""Part of the squares of the targets below which what a linear fit leaves is rounding."""


@dataclass(frozen=True, eq=False)
class Directions:
    """M = V diag(r^2) V^T."""

    rotation: np.ndarray
    """Orthogonal V, (D, D)."""
    scales: np.ndarray
    """r, (D,)."""

    @classmethod
    def isotropic(cls, dimension: int) -> Directions:
        """M = I."""
        return cls(np.eye(dimension), np.ones(dimension))

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, noise: np.ndarray | None = None) -> Directions:
        """From (m, D) points and y there, with the variances of its noise, (m,)."""
        d = points.shape[1]
        weights = 1.0 / jitter_multiple(points)
        left = LinearFit.of(points, targets, weights).residuals(points, targets)
        spread = (left.T * weights) @ left
        whole = size = float(np.trace(spread)) / d
        if noise is not None:
            of_noise = float(weights @ noise)
            np.einsum("ii->i", spread)[:] -= of_noise
            size -= of_noise
        if not size > _LEAST * (float(np.vdot(targets, targets)) + 1.0):
            return cls.isotropic(d)
        total = float(weights.sum())
        values, vectors = symmetric_eigen(spread / size)
        squares = np.sqrt(np.maximum(values, 0.0) + d / total * (whole / size) ** 2)
        return cls(vectors, np.sqrt(squares / squares.mean()))

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """(m, D) points in units in which M is I."""
        turned: np.ndarray = (points @ self.rotation) * self.scales
        return turned
