"""How far an observation of y is believed: the noise that a gradient process gives it.

In exact arithmetic gradients have no noise. What they have is more structure than a stationary kernel can
hold: where the density of q is negligible, y may be thousands of times what it is under q (the
exponential of a log scale does that within five standard deviations), and a smooth function through such a
point is wrong where q has its mass. So the noise is the jitter near q, e^(2 (r - near)) times that beyond,

    r = max(|u|^2, |u|_M^2) / D,

with M the `directions` along which y bends: along the others a far point does no harm. Where y is large the
threshold is lower,

    near = max(LEAST, NEAR - ln(|y|^2 / (4 typical)) / 4),

typical being the median of |y|^2 over points weighted as they are near q: what an observation does to an
integral goes with its size, and what it ought to do with its density. Nothing that lies near q is doubted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.directions import Directions
from bqvi.gradients.whitened import FADING, NEAR, remoteness

LEAST = 1.5
"""Threshold for the largest y."""
_LARGE = 4.0
"""Multiple of the typical |y|^2 from which y is large."""
_FALL = 0.25
_MOST = 60.0
"""Largest logarithm: so far out nothing is believed, however large it is."""


@dataclass(frozen=True, eq=False)
class Doubts:
    """Of a set of observations, and of those that join them."""

    directions: Directions | None
    """Of M; None: M = I."""
    typical: float
    """|y|^2."""

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, directions: Directions | None) -> Doubts:
        """From (m, D) points and y there."""
        squares = np.einsum("no,no->n", targets, targets)
        order = np.argsort(squares)
        passed = np.cumsum(1.0 / remoteness(points)[order])
        return cls(directions, float(squares[order[np.searchsorted(passed, 0.5 * passed[-1])]]))

    def noise(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Multiple of the jitter, (m,)."""
        d = points.shape[1]
        distance = np.einsum("nd,nd->n", points, points)
        if self.directions is not None:
            bent = self.directions.scaled(points)
            distance = np.maximum(distance, np.einsum("nd,nd->n", bent, bent))
        size = np.einsum("no,no->n", targets, targets) / (_LARGE * self.typical + 1e-300)
        near = np.maximum(LEAST, NEAR - _FALL * np.log(np.maximum(size, 1.0)))
        multiple: np.ndarray = np.exp(np.minimum(np.maximum((distance / d - near) / FADING, 0.0), _MOST))
        return multiple
