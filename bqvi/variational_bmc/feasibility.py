"""The probability that the log joint can be evaluated at a point, estimated from failed evaluations.

Where a log joint is -inf beyond a boundary, a Gaussian process without data beyond the boundary would put
mass there. The probability that a point is feasible is therefore modelled separately, by the distances to the
nearest good and the nearest failed evaluation,

    logit p(feasible) = -a max(1, (d / h)^2) log(d_good / d_failed),     d = min(d_good, d_failed),

which is 0 halfway between the two and becomes steeper as evaluations approach the edge. h is the
distance between a failed evaluation and the nearest good one. Beyond that distance the slope grows with d^2,
as at large distances the ratio of the two distances tends to one, and the probability would tend to 1/2.
p(feasible) multiplies the surrogate's density.

*Isolated failures.* Not every failure is due to an edge: a solver may not have converged, or a machine have
stopped. A failed evaluation inside the convex hull of good ones, and much nearer to them than to any other
failed one, counts as isolated and does not lower the probability around it.

*Uncertainty.* Where the edge lies between a good and a failed evaluation a distance l apart is not known: it
is uniform, with the standard deviation l / sqrt(12) and the mean where p = 1/2. By dp / dx = (4 a / l) p (1 -
p) there, with x the distance along the way, a move by this deviation changes the log evidence by

    (2 a / sqrt(3)) E_P[1 - p(feasible)]     over the points whose nearest failure is that one,

as P is proportional to p(feasible). Moves beside different failures are independent, so that their squares
are added; the mass about isolated failures may be missing as a whole. The result is part of the standard
deviation of the log evidence, and the next evaluation is made where the uncertain mass is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from bqvi.variational_bmc.settings import FEASIBILITY


@dataclass(frozen=True, eq=False)
class Feasibility:
    """The probability p(feasible), from good (n, D) and failed (m, D) points of the frame.

    Attributes
    ----------
    good, failed : the good and the failed evaluations. edges : the failed ones that are not isolated.
    gap : the distance h.
    inside : whether points (m, D) of the frame have an image in the coordinates, (m,); None where all have.
    """

    good: cKDTree | None
    failed: cKDTree | None
    edges: cKDTree | None
    gap: float
    inside: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def of(
        cls,
        points: np.ndarray,
        failed: np.ndarray,
        inside: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> Feasibility:
        """The model from points (n, D), of which those marked in ``failed`` (n,) failed."""
        if not failed.any():
            return cls(None, None, None, 1.0, inside)
        good, bad = points[~failed], points[failed]
        tree = cKDTree(good)
        distances = tree.query(bad)[0]
        edges = bad[~_isolated(good, bad, np.asarray(distances))]
        gap = max(float(np.median(distances)), 1e-12)
        return cls(tree, cKDTree(bad), cKDTree(edges) if len(edges) else None, gap, inside)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """The probability p(feasible) at u (m, D), (m,); 1 where nothing has failed."""
        return self._probability(u, self.edges)

    def between_bounds(self, draws: Callable[[int], np.ndarray], count: int) -> tuple[np.ndarray, float]:
        """About ``count`` of the ``draws`` between the bounds, (m, D), and their share; others if none is."""
        u = draws(count)
        if self.inside is None:
            return u, 1.0
        share = max(float(self.inside(u).mean()), 1.0 / FEASIBILITY.most_draws)
        u = u if share == 1.0 else draws(math.ceil(count / share))
        kept = self.inside(u)
        return (u[kept], float(kept.mean())) if kept.any() else (u[:count], 1.0)

    def of_all_failures(self, u: np.ndarray) -> np.ndarray:
        """The probability p(feasible) at u (m, D) if no failure counts as isolated, (m,)."""
        return self._probability(u, self.failed)

    def uncertainty(self, u: np.ndarray, weights: np.ndarray) -> float:
        """The standard deviation of the log evidence by unknown edges, from u (m, D) with weights (m,)."""
        if self.failed is None:
            return 0.0
        possible, alone = self(u), self.of_all_failures(u)
        moved = np.bincount(self.failed.query(u)[1], weights * (1.0 - possible))
        edges = 2.0 * FEASIBILITY.sharpness / math.sqrt(3.0) * float(np.linalg.norm(moved))
        return edges + float(weights @ (possible - alone))

    def _probability(self, u: np.ndarray, failed: cKDTree | None) -> np.ndarray:
        found = self._by_distance(u, failed)
        return found if self.inside is None else np.where(self.inside(u), found, 1e-300)

    def _by_distance(self, u: np.ndarray, failed: cKDTree | None) -> np.ndarray:
        if self.good is None or failed is None:
            return np.ones(len(u))
        near, far = self.good.query(u)[0], failed.query(u)[0]
        log_ratio = np.log(np.maximum(near, 1e-12)) - np.log(np.maximum(far, 1e-12))
        sharpness = FEASIBILITY.sharpness * np.maximum(1.0, np.square(np.minimum(near, far) / self.gap))
        return 1.0 / (1.0 + np.exp(np.clip(sharpness * log_ratio, -60.0, 69.0)))


def _isolated(good: np.ndarray, bad: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Which failed points ``bad`` (m, D), at ``distances`` (m,) from ``good`` (n, D), are isolated, (m,).

    An isolated failure is no evidence of an edge near another failed point, so that the others are tested
    again without it.
    """
    inside = np.array([_in_hull(good, x) for x in bad])
    found = np.zeros(len(bad), bool)
    while True:
        alone = distances < FEASIBILITY.alone * _to_nearest_other(bad, ~found)
        more = inside & alone & ~found
        if not more.any():
            return found
        found |= more


def _to_nearest_other(points: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The distances (m,) of points (m, D) to the nearest other point in ``which`` (m,) bool; inf if none."""
    distances = np.linalg.norm(points[:, None] - points[which], axis=2)
    distances[np.flatnonzero(which), np.arange(distances.shape[1])] = np.inf
    return distances.min(axis=1, initial=np.inf)


def _in_hull(points: np.ndarray, x: np.ndarray) -> bool:
    """Whether x (D,) is in the convex hull of the points (n, D)."""
    system = np.vstack([(points - x).T, np.ones(len(points))])
    return bool(nnls(system, np.append(np.zeros(len(x)), 1.0))[1] < 1e-6)
