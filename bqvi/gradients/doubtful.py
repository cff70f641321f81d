"""How far an observation of y is believed: the noise that a gradient process gives it.

In exact arithmetic gradients have no noise. What they have is more structure than a stationary kernel can
hold: where the density of q is negligible, y may be thousands of times what it is under q (the
exponential of a log scale does that within five standard deviations), and a smooth function through such a
point is wrong where q has its mass. So the noise is the jitter near q, e^(2 (r - NEAR)) times that beyond,

    r = max(|u|^2, |u|_M^2) / D,

with M the `directions` along which y bends: along the others a far point does no harm. What does harm nearer
to q is what neither q's mass nor a straight line has prepared for. With e = y - a - B u the residual of a
linear fit (`straight_fit`, with modest weights: nothing large explains itself) and typical the median of
|e|^2, both over points weighted as they are near q, the noise is again larger by

    (|e|^2 / allowed)^4, at most e^(10 (r - LEAST)),       allowed = 5 e^(0.6 r) typical,

a power that takes the noise from the jitter to the process' own variance by thirty times what is allowed.
The residual, for what is linear in u is in the kernel's linear term and bends nothing: on the way to a
posterior nearly Gaussian y is large far out, and right. Nothing that lies near q is doubted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.directions import Directions
from bqvi.gradients.straight_fit import StraightFit, modest, weighted_median
from bqvi.gradients.whitened import FADING, NEAR, remoteness

LEAST = 1.5
"""Below this r the size of y is no reason for doubt."""
_ALLOWED = 5.0
"""Residuals' |e|^2 in multiples of the typical one, at r = 0; even a smooth y bends more farther out."""
_GROWTH = 0.6
_POWER = 4.0
_STEEPEST = 10.0
_MOST = 60.0
"""Largest logarithm: so far out nothing is believed, however large it is."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Doubts:
    """Of a set of observations, and of those that join them."""

    directions: Directions | None
    """Of M; None: M = I."""
    fit: StraightFit
    """Whose residuals are e."""
    typical: float
    """|e|^2."""

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, directions: Directions | None) -> Doubts:
        """From (m, D) points and y there."""
        weights = 1.0 / remoteness(points)
        fit = StraightFit.of(points, targets, modest(targets, weights))
        return cls(directions, fit, weighted_median(_squares(fit.residuals(points, targets)), weights))

    def noise(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Multiple of the jitter, (m,)."""
        distance = _squares(points)
        if self.directions is not None:
            distance = np.maximum(distance, _squares(self.directions.scaled(points)))
        distance /= points.shape[1]
        size = np.log(_squares(self.fit.residuals(points, targets)) + _TINY)
        size -= _GROWTH * distance + np.log(_ALLOWED * self.typical + _TINY)
        grown = np.minimum(_POWER * size, _STEEPEST * (distance - LEAST))
        grown = np.maximum(grown, 0.0) + np.maximum((distance - NEAR) / FADING, 0.0)
        multiple: np.ndarray = np.exp(np.minimum(grown, _MOST))
        return multiple


def _squares(rows: np.ndarray) -> np.ndarray:
    squares: np.ndarray = np.einsum("nd,nd->n", rows, rows)
    return squares
