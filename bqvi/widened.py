"""Points of an answer widened, at which the log joint could refute a claim of convergence.

An answer, such as a posterior of a surrogate, is known by weighted draws. Where these end, either the
posterior ends or the surrogate does, and the draws cannot tell which. Evaluations beyond them can:

    rays    beyond the draws along their longest principal directions to either side, 1.5 and 3 times as far
            as they reach; on a ray that a bound ends, a point halfway to the bound and one close to it
    t       from Student's t distribution with three degrees of freedom, with 2.5 times the scale of the draws

A ray continues the line of the outermost draws, so that it stays on a curved ridge for a while. Bounds of
parameters bend the coordinates, so that rays are laid in the user's units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bqvi.calls.coordinates import Coordinates
from gp.triangular import symmetric_eigen


@dataclass(frozen=True)
class WideningSettings:
    """The points of an answer widened."""

    directions: int = 1
    """The largest number of principal directions along which there are rays."""
    reached: float = 0.995
    """The share of the mass up to which the draws reach along a ray."""
    outer: float = 0.8
    """The share of the mass beyond which the draws determine how a ray continues."""
    factors: tuple[float, float] = (1.5, 3.0)
    """The distances of points on a ray, in units of that distance."""
    close: float = 0.97
    """The share of the way to a bound at which the point close to it lies."""
    scattered: int = 2
    """The number of points from Student's t distribution."""
    freedom: float = 3.0
    """Its degrees of freedom."""
    temper: float = 0.6
    """The power of an answer's density of which further draws are made."""
    wider: float = 2.5
    """Its scale, in units of that of the draws."""
    least: float = 1e-12
    """The least eigenvalue of the correlations of draws."""


WIDENING = WideningSettings()


def widened(
    points: np.ndarray, weights: np.ndarray, coordinates: Coordinates | None, seed: int
) -> np.ndarray:
    """Return points (m, D) of the answer widened, in the coordinates.

    Parameters
    ----------
    points : draws (M, D) of the answer, in the coordinates. weights : their weights (M,), which sum to 1.
    coordinates : the coordinates, with the bounds of the parameters; None where there are no bounds.
    seed : the seed of the points from Student's t distribution.
    """
    answer = Spread.of(points, weights)
    if coordinates is None or all(chart == "line" for chart, _, _ in coordinates.charts()):
        return np.concatenate([answer.rays(), answer.scattered(WIDENING.scattered, seed)])
    free, theta = coordinates.free, coordinates.unwrapped(points)
    lower, upper = np.array([ends for _, *ends in coordinates.charts()]).T
    within = Spread.of(theta[:, free], weights).rays(lower, upper)
    wide = np.tile(theta[0], (len(within), 1))
    wide[:, free] = within
    return np.concatenate([coordinates.from_user(wide), answer.scattered(WIDENING.scattered, seed)])


@dataclass(frozen=True, eq=False)
class Spread:
    """Weighted draws, in units of their sds (D,) from their median (D,), (M, D), with principal directions.

    A direction is a row (D,) of ``directions``, of one standard deviation of the draws, the longest first.
    """

    median: np.ndarray
    sds: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, weights: np.ndarray) -> Spread:
        """The spread of draws (M, D) with weights (M,)."""
        median = np.array([_quantile(column, weights, 0.5) for column in points.T])
        centred = points - weights @ points
        sds = np.sqrt(weights @ centred**2)
        correlation = (centred.T * weights) @ centred / np.outer(sds, sds)
        values, vectors = symmetric_eigen(correlation)
        lengths = np.sqrt(np.maximum(values, WIDENING.least))
        return cls(median, sds, (points - median) / sds, weights, (vectors * lengths).T[::-1])

    def rays(self, lower: np.ndarray | float = -np.inf, upper: np.ndarray | float = np.inf) -> np.ndarray:
        """Points (m, D) on the rays along the longest directions to either side, inside of bounds (D,)."""
        low, high = (lower - self.median) / self.sds, (upper - self.median) / self.sds
        leading = self.directions[: WIDENING.directions]
        found = [self._ray(sign * ray, low, high) for ray in leading for sign in (1.0, -1.0)]
        return self.median + self.sds * np.concatenate(found)

    def _ray(self, ray: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Two points (2, D) where the draws that lie farthest along ``ray`` (D,) are continued."""
        along = self.points @ ray / (ray @ ray)
        outer = along >= _quantile(along, self.weights, WIDENING.outer)
        share = self.weights[outer] / self.weights[outer].sum()
        start, at = share @ self.points[outer], share @ along[outer]
        slope = (share * (along[outer] - at)) @ (self.points[outer] - start)
        slope = slope / max(share @ (along[outer] - at) ** 2, 1e-300) if len(share) > len(ray) else ray
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(slope > 0, upper - start, lower - start) / slope
        end = WIDENING.close * float(np.min(ends[slope != 0.0], initial=np.inf))
        reach = _quantile(along, self.weights, WIDENING.reached)
        first, last = (factor * reach - at for factor in WIDENING.factors)
        if last > end:
            first, last = 0.5 * (min(reach - at, end) + end), end
        return start + np.array([[first], [last]]) * slope

    def scattered(self, count: int, seed: int) -> np.ndarray:
        """Points (count, D) from Student's t distribution."""
        rng = np.random.default_rng(seed)
        normal = rng.standard_normal((count, len(self.median)))
        scale = WIDENING.wider * np.sqrt(WIDENING.freedom / rng.chisquare(WIDENING.freedom, (count, 1)))
        return self.median + self.sds * (scale * normal @ self.directions)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """The log density (m,) of Student's t distribution at points x (m, D)."""
        freedom, dimension = WIDENING.freedom, x.shape[1]
        lengths = np.sum(self.directions**2, axis=1)  # squared; the directions are orthogonal
        along = (x - self.median) / (WIDENING.wider * self.sds) @ (self.directions.T / lengths)
        squares = np.sum(along**2, axis=1)
        height = gammaln(0.5 * (freedom + dimension)) - gammaln(0.5 * freedom)
        height -= 0.5 * dimension * np.log(freedom * np.pi) + 0.5 * np.sum(np.log(lengths))
        height -= np.sum(np.log(WIDENING.wider * self.sds))
        return np.asarray(height - 0.5 * (freedom + dimension) * np.log1p(squares / freedom))


def _quantile(x: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The quantile of values x (M,) with weights (M,)."""
    order = np.argsort(x)
    return float(x[order][min(int(np.searchsorted(np.cumsum(weights[order]), share)), len(x) - 1)])
