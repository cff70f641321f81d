"""The noise that is assigned to observations of y in the separable process, by distance and by residual.

Gradients are exact, but a stationary kernel cannot fit all of their structure: where q has no mass y may be
thousands of times as large as under q, and a smooth function through such a point is wrong where q has its
mass. The noise is therefore the jitter near q, and e^((r - near) / fading) times the jitter beyond,

    r = max(|u|^2, |u|_M^2) / D,

with M the directions along which y is nonlinear; along others a distant point does not distort the fit.
Nearer to q the fit is distorted by values of y that differ much from those near q and from a linear fit. With

    e = y - a - B u

the residual of a linear fit and typical the median of |e|^2, both with weights by nearness to q, the noise is
further multiplied by

    (|e|^2 / allowed)^4, at most e^(10 (r - least)),       allowed = 5 e^(0.6 r) typical.

Points near q have the jitter only.

*The linear fit* is by weighted least squares with a ridge: a priori a slope is about as large as y. Weights
w, which decrease for points beyond q, are reduced for this noise also where y is large,

    w / (1 + |y|^2 / (4 typical)),        typical the w-weighted median of |y|^2.

*Directions along which y is nonlinear.* In units whitened by q, y(u) is a gradient, so its Jacobian is
symmetric, and the covariance over outputs of the residuals R of a linear fit measures the nonlinearity along
input directions,

    C = R^T W R / sum(w),        M = (C / mean + (D / sum(w)) I)^(1/2), scaled to trace D,

with weights w that decrease from 1 for points beyond q (`whitened.jitter_multiple`). The second term keeps M
near I until there are many more points than directions. Where y is noisy the sum of the noise's variances is
subtracted from the diagonal of C, and the second term, the uncertainty of C, is multiplied by the squared
ratio of the diagonal before to that after. A kernel of u^T M u' is anisotropic along the directions of the
log joint, without further hyperparameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.settings import NOISE
from bqvi.gradients.whitened import JITTER, jitter_multiple
from gp.triangular import positive_solve, symmetric_eigen

_TINY = 1e-300
"""Added to denominators, and to squares before their logarithm is taken, as they may be zero."""
_LEAST = 1e-12
"""Share of the squares of the targets below which the residuals of a linear fit are rounding."""


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
        return np.exp(np.minimum(grown, 60.0))


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", rows, rows)
