"""The surrogate's frame: coordinates u, x = shift + scale u, in which the posterior is about N(0, I).

Kernels, priors of hyperparameters and scales of components are stated in the frame's units, so that the prior
of a lengthscale does not depend on the caller's plausible box. The frame is updated with q.

*The probability that the log joint can be evaluated at a point* is estimated from failed evaluations. Where a
log joint is -inf beyond a boundary, a Gaussian process without data beyond the boundary would put mass there.
The probability that a point is feasible is therefore modelled separately, by the distances to the
nearest good and the nearest failed evaluation,

    logit p(feasible) = -a max(1, (d / h)^2) log(d_good / d_failed),     d = min(d_good, d_failed),

which is 0 halfway between the two and becomes steeper as evaluations approach the edge. h is the median
distance between a failed evaluation and the nearest good one, or that between a good one and the nearest
failed one if that is less. Beyond that distance the slope grows with d^2, as at large distances the ratio of
the two distances tends to one, and the probability would tend to 1/2.
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
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls
from scipy.spatial import cKDTree

from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.scaling import Scaling, UserUnits
from bqvi.variational_bmc.settings import FEASIBILITY, FRAMES
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.matrices import correlation_eigenvalues, correlation_root, symmetric_eigen
from gp.measures import AffineMap, GaussianMixture


@dataclass(frozen=True, eq=False)
class Frame:
    """An affine map, followed by a map with scales that depend on a coordinate, if there is one."""

    shift: np.ndarray
    """The shift c, (D,)."""
    scale: np.ndarray
    """The matrix T, (D, D)."""
    scaling: Scaling | UserUnits | None = None
    """The map from the image y of the affine map to x; None if they are equal."""

    @property
    def affine(self) -> AffineMap:
        """The affine map alone, with a general matrix T where axes are rotated."""
        return AffineMap(self.shift, self.scale, triangular=False)

    @property
    def log_volume(self) -> float:
        """The logarithm log |det T|."""
        return float(self.affine.log_determinant)

    @property
    def diagonal(self) -> bool:
        """Whether T is diagonal."""
        return bool(np.all(self.scale == np.diag(np.diag(self.scale))))

    def into(self, x: np.ndarray) -> np.ndarray:
        """The points u (m, D) of points x (m, D)."""
        return self.affine.to_standard(self.straightened(x))

    def out(self, u: np.ndarray) -> np.ndarray:
        """The points x (m, D) of points u (m, D)."""
        y = self.straight(u)
        return y if self.scaling is None else self.scaling.out(y)

    def straight(self, u: np.ndarray) -> np.ndarray:
        """The images y (m, D) of points u (m, D) under the affine map."""
        return self.affine.from_standard(u)

    def straightened(self, x: np.ndarray) -> np.ndarray:
        """The points y (m, D) of points x (m, D)."""
        return x if self.scaling is None else self.scaling.into(x)

    def inside(self, u: np.ndarray) -> np.ndarray:
        """Whether points u (m, D) have an image x, (m,) bool."""
        if not isinstance(self.scaling, UserUnits):
            return np.ones(len(u), bool)
        return self.scaling.inside(self.straight(u))

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest box (D,), (D,) in which all points u with an image x lie; infinite without bounds."""
        dimension = len(self.shift)
        lower, upper = np.full(dimension, -np.inf), np.full(dimension, np.inf)
        if not isinstance(self.scaling, UserUnits):
            return lower, upper
        straight = self.scaling.straight
        middle, half = self.shift.copy(), np.full(dimension, np.inf)
        middle[straight] = 0.5 * (self.scaling.lower + self.scaling.upper)
        half[straight] = 0.5 * (self.scaling.upper - self.scaling.lower)
        turn = self.affine.solve(np.eye(dimension))
        with np.errstate(invalid="ignore"):  # 0 times an infinite length
            reach = np.nan_to_num(np.abs(turn) * half, nan=0.0, posinf=np.inf).sum(1)
        centre = turn @ (middle - self.shift)
        return centre - reach, centre + reach

    def log_stretch(self, u: np.ndarray) -> np.ndarray:
        """The log Jacobian log |det dx / dy| at u (m, D), (m,), which is added to a log density of x."""
        return np.zeros(len(u)) if self.scaling is None else self.scaling.log_jacobian(self.straight(u))

    def log_stretch_at(self, x: np.ndarray) -> np.ndarray:
        """`log_stretch` at points x (m, D), also where these cannot be told from a bound after `into`."""
        if isinstance(self.scaling, UserUnits):
            return np.asarray(self.scaling.log_scales(x).sum(1))
        return self.log_stretch(self.into(x))

    def slopes_into(self, x: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The gradients (m, D) in u, with that of `log_stretch`, from ``gradients`` at points x (m, D)."""
        if self.scaling is not None:
            gradients = self.scaling.pulled(x, gradients)
        return gradients @ self.scale

    def measure(self, q: DiagonalMixture) -> GaussianMixture:
        """The mixture of x for a mixture ``q`` of u; after a map an approximation, with parts a component."""
        covariances = np.einsum("ij,kj,lj->kil", self.scale, q.scales**2, self.scale)
        parts = q.weights / q.weights.sum(), self.straight(q.means), covariances
        weights, means, covariances = parts if self.scaling is None else self.scaling.image(*parts)
        return GaussianMixture(weights, means, 0.5 * (covariances + covariances.mT))

    def moved(self, q: DiagonalMixture, to: Frame) -> DiagonalMixture:
        """The mixture ``q`` in the frame ``to``, without the correlations that arise there.

        A component keeps its variances, or its precisions where axes are rotated, with which it stays inside
        of a thin posterior.
        """
        means = to.into(self.out(q.means))
        if self.diagonal and not to.diagonal:
            turn = self.affine.solve(to.scale)
            return DiagonalMixture(q.weights, means, 1.0 / np.sqrt(q.scales**-2.0 @ turn**2))
        turn = to.affine.solve(self.scale)
        return DiagonalMixture(q.weights, means, np.sqrt(q.scales**2 @ (turn**2).T))


def fitting(mean: np.ndarray, covariance: np.ndarray, last: Frame, within: np.ndarray | None = None) -> Frame:
    """The frame of the moments: rotated for strong correlations, as the ``last`` frame for moderate ones.

    With several modes the correlations ``within`` them are used. The line through two modes is no axis of
    either mode, and a mixture loses its correlated components where axes are rotated.

    Parameters
    ----------
    mean : of the posterior, (D,), in the coordinates of the parameters. covariance : (D, D). last : the frame
        before.
    within : the pooled covariance (D, D) within modes, or None for one mode.
    """
    condition = _condition(covariance if within is None else within)
    along = condition < FRAMES.correlated or (condition < 50.0 and last.diagonal)
    found = axes(mean, covariance) if along else turned(mean, covariance)
    return replace(found, scaling=last.scaling)


def alternative(
    mean: np.ndarray, covariance: np.ndarray, frame: Frame, within: np.ndarray | None = None
) -> Frame | None:
    """The rotated frame for one along the axes, and conversely, where correlations are moderate; else None.

    Log densities are more often sums of functions of few of the *given* coordinates than of rotated ones, but
    a mixture of diagonal Gaussians needs many components for a thin posterior that is oblique to the axes.

    Parameters
    ----------
    mean : of the posterior, (D,), in the coordinates of the parameters. covariance : (D, D). frame : the
        present one.
    within : the pooled covariance (D, D) within modes, or None for one mode.
    """
    if not FRAMES.correlated < _condition(covariance if within is None else within) < 50.0:
        return None
    other = turned(mean, covariance) if frame.diagonal else axes(mean, covariance)
    return replace(other, scaling=frame.scaling)


def _condition(covariance: np.ndarray) -> float:
    """The condition number of the correlations."""
    values = correlation_eigenvalues(covariance)
    return float(values[-1] / max(values[0], 1e-300))


def turns(covariance: np.ndarray) -> bool:
    """Whether the axes should be rotated for a covariance that is known without noise.

    -log det C / 2 is the Kullback-Leibler divergence of a Gaussian from the one without its correlations C.
    In twenty dimensions this divergence may be large although each correlation is small. With a covariance
    estimated from M draws it is too large by about D^2 / (4 M).
    """
    values = correlation_eigenvalues(covariance)
    return bool(-0.5 * np.log(np.maximum(values, 1e-300)).sum() > ENGINES.counts)


def elite(points: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean and covariance of the best evaluated points (n, D), with weights tempered as settings say.

    Without better information, they move towards higher values as in an evolution strategy. Where the points
    are less deep than draws of a Gaussian, D / 2 nats, the covariance is enlarged, up to the plausible box.
    """
    dimension = points.shape[1]
    count = min(len(values), 2 * dimension + 2)
    depth = values.max() - values
    weights = np.ones(len(values))
    for temperature in 2.0 ** np.arange(-20.0, 60.0):
        weights = np.exp(-depth / temperature)
        weights /= weights.sum()
        if 1.0 / (weights @ weights) > 0.5 * count:
            break
    mean = weights @ points
    centred = points - mean
    covariance = (centred.T * weights) @ centred
    covariance += (0.05 * np.trace(covariance) / dimension + 1e-10) * np.eye(dimension)
    widest = float(symmetric_eigen(covariance)[0][-1])
    spread = 0.5 * dimension / max(float(weights @ depth), 1e-6)
    return mean, covariance * np.clip(spread, 1.0, max(1.0, 0.25 / widest))


def axes(mean: np.ndarray, covariance: np.ndarray) -> Frame:
    """The frame along the axes by a Gaussian's mean and standard deviations."""
    return Frame(mean, np.diag(np.sqrt(np.diag(covariance))))


def turned(mean: np.ndarray, covariance: np.ndarray) -> Frame:
    """The frame in which a Gaussian is N(0, I), by the symmetric root of its correlations.

    Among all such frames this one is nearest to the axes.
    """
    return Frame(mean, correlation_root(covariance, 1e-12))


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
        beyond = cKDTree(bad)
        gap = max(float(min(np.median(distances), np.median(beyond.query(good)[0]))), 1e-12)
        return cls(tree, beyond, cKDTree(edges) if len(edges) else None, gap, inside)

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
    between = np.linalg.norm(bad[:, None] - bad, axis=2)
    np.fill_diagonal(between, np.inf)
    inside = np.array([_in_hull(good, x) for x in bad])
    found = np.zeros(len(bad), bool)
    while True:
        alone = distances < FEASIBILITY.alone * between[:, ~found].min(axis=1, initial=np.inf)
        more = inside & alone & ~found
        if not more.any():
            return found
        found |= more


def _in_hull(points: np.ndarray, x: np.ndarray) -> bool:
    """Whether x (D,) is in the convex hull of the points (n, D)."""
    system = np.vstack([(points - x).T, np.ones(len(points))])
    return bool(nnls(system, np.append(np.zeros(len(x)), 1.0))[1] < 1e-6)
