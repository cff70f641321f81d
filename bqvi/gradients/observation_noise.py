"""The noise that is assigned to observations of y in the separable process, by distance and by residual.

Gradients are exact, but a stationary kernel cannot fit all of their structure: where the density of q is
negligible, y may be thousands of times as large as under q (as the exponential of a log scale is within five
standard deviations), and a smooth function through such a point is wrong where q has its mass. The noise is
therefore the jitter near q, and e^((r - near) / fading) times the jitter beyond,

    r = max(|u|^2, |u|_M^2) / D,

with M the `directions` along which y is nonlinear; along others a distant point does not distort the fit.
Nearer to q the fit is distorted by values of y that differ much from those near q and from a linear fit. With

    e = y - a - B u

the residual of a linear fit (`linear_fit`, with weights that are reduced where y is large, so that a large
value does not determine the fit) and typical the median of |e|^2, both with weights by nearness to q, the
noise is further multiplied by

    (|e|^2 / allowed)^4, at most e^(10 (r - least)),       allowed = 5 e^(0.6 r) typical.

The residual is used because the kernel has a linear term: while q moves to a posterior that is nearly
Gaussian, y is large and linear far from q, and noise would be wrong there. Points near q have the jitter
only. The constants are those of `settings.NoiseSettings`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.directions import Directions
from bqvi.gradients.linear_fit import LinearFit, down_weighted, weighted_median
from bqvi.gradients.settings import NOISE
from bqvi.gradients.whitened import JITTER, jitter_multiple

__all__ = ["ObservationNoise"]

_TINY = 1e-300
"""Added to squares before their logarithm is taken, as they may be zero."""


@dataclass(frozen=True, eq=False)
class ObservationNoise:
    """The noise of a first set of observations and of further ones, determined by the first."""

    directions: Directions | None
    """The directions of M; None for M = I."""
    fit: LinearFit
    """The fit whose residuals are e."""
    typical: float
    """The weighted median of |e|^2."""
    jitter: float = JITTER

    @classmethod
    def of(
        cls, points: np.ndarray, targets: np.ndarray, directions: Directions | None, jitter: float = JITTER
    ) -> ObservationNoise:
        """Make the noise of y at (m, D) points."""
        weights = 1.0 / jitter_multiple(points)
        fit = LinearFit.of(points, targets, down_weighted(targets, weights))
        typical = weighted_median(_squares(fit.residuals(points, targets)), weights)
        return cls(directions, fit, typical, jitter)

    def __call__(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Variance over s^2, (m,), at (m, D) points with y there."""
        return self.jitter * self.multiple(points, targets)

    def multiple(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the noise in multiples of the jitter."""
        distance = _squares(points)
        if self.directions is not None:
            distance = np.maximum(distance, _squares(self.directions.scaled(points)))
        distance /= points.shape[1]
        size = np.log(_squares(self.fit.residuals(points, targets)) + _TINY)
        size -= NOISE.growth * distance + np.log(NOISE.allowed * self.typical + _TINY)
        grown = np.minimum(NOISE.power * size, NOISE.steepest * (distance - NOISE.least))
        grown = np.maximum(grown, 0.0) + np.maximum((distance - NOISE.near) / NOISE.fading, 0.0)
        return np.exp(np.minimum(grown, NOISE.most))


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", rows, rows)
