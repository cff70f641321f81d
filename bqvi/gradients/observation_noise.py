"""The noise of observations of y under the separable process, by distance from q and by residual.

Gradients are exact, but have more structure than a stationary kernel can fit: where the density of q is
negligible, y may be thousands of times what it is under q (the exponential of a log scale is that within five
standard deviations), and a smooth function through such a point is wrong where q has its mass. So the noise
is the jitter near q, e^((r - near) / fading) times that beyond,

    r = max(|u|^2, |u|_M^2) / D,

with M the `directions` along which y bends: along the others a distant point does not disturb the fit.
Nearer to q the fit is disturbed by values of y that neither the mass of q nor a linear fit predicts. With e =
y - a - B u the residual of a linear fit (`linear_fit`, with weights that are less where y is large, so that
no large value determines its own fit) and typical the median of |e|^2, both over points weighted as they are
near q, the noise is again larger by

    (|e|^2 / allowed)^4, at most e^(10 (r - least)),       allowed = 5 e^(0.6 r) typical.

The residual is used because the kernel has a linear term: while q moves to a posterior that is nearly
Gaussian, y is large and linear far from q, and no noise is to be added there. Points near q get the jitter
only. The constants are those of `settings.NoiseSettings`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.directions import Directions
from bqvi.gradients.linear_fit import LinearFit, down_weighted, weighted_median
from bqvi.gradients.settings import NOISE
from bqvi.gradients.whitened import JITTER, jitter_multiple

_TINY = 1e-300
"""Added to squares before their logarithm is taken, which zero has not."""


@dataclass(frozen=True, eq=False)
class ObservationNoise:
    """The noise, from a first set of observations, of those and of further ones."""

    directions: Directions | None
    """Those of M; None for M = I."""
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
        multiple: np.ndarray = np.exp(np.minimum(grown, NOISE.most))
        return multiple


def _squares(rows: np.ndarray) -> np.ndarray:
    squares: np.ndarray = np.einsum("nd,nd->n", rows, rows)
    return squares
