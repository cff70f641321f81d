"""The modes of q, and exploration for further ones by points of the plausible box and climbs from some.

Components of q belong to one mode where the surrogate's mean has no dip between them. The moments of each
group define a Gaussian, N(m_r, Sigma_r). With the evidence Z the modes define an approximation of the log
joint,

    g(x) = log Z + log sum_j w_j N(x; m_j, Sigma_j),

whose parts j are the Gaussians of the modes, with x in the straight coordinates of the frame. For a mode far
from Gaussian, such as a ring or a curved ridge, the parts are the components of its group instead, as one
Gaussian would contain regions without mass, or that no evaluation has reached. A group q_r counts as far from
Gaussian if KL(q_r || N(m_r, Sigma_r)) is above ``EngineSettings.counts``.

A log joint with several modes falls as the squared distance from the nearest one. A point whose value exceeds
g by more than a share of its depth below the top therefore lies in the region of a mode that q lacks, or in a
tail that is heavier than a Gaussian's. The direction of a gradient gives similar information: the gradient of
g points, in the units of Sigma_j, to the nearest part.

The acquisition refines the known modes of the surrogate, and does not search for further ones. A run that
would otherwise have converged therefore explores first:

    places where a mode could be unnoticed  ->  points that the known modes do not explain  ->  climbs

1. Further points of the scrambled Sobol sequence of the first design are evaluated: those after which the
   fewest modes are hidden (:mod:`bqvi.unseen`), with the values that the known modes predict, as long as each
   reveals a share of ``HIDDEN.worth``.
2. `Modes.unexplained` and, with gradients, `Modes.alignment` determine which points are explained by the
   known modes. This presumes that the log joint rises towards the modes.
   Inside of a known mode a value far above what all others predict is the flank of another one.
3. From each unexplained point, the least explained first, the log joint itself is maximised
   (`bqvi.calls.climb`), until the climb enters a known mode or its gain is small. Its first step is as long
   as a quadratic mode of the same height suggests, so that it does not leap over the mode.
A climb that ends elsewhere has found a mode. With its evaluations q is given components there, and the run
continues. Where no mode is found, exploration ends once few further modes are expected; until then more
points and climbs are evaluated.

The points are counted by the mode to which they lead (:mod:`bqvi.unseen`). A point that is explained leads to
the nearest known mode, one whose climb enters a known mode to that mode, and one whose climb ends elsewhere,
but too low for a mode, nowhere. Points without a climb are counted in the proportions of those with one. A
mode that is reached by a single climb counts in f as often as there are points for each climb. g is zero
unless exploration ends because a climb has found a mode; that mode is then one of the f.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.climb import ClimbResult, Evaluating, climb
from bqvi.calls.table import rows_of
from bqvi.runs.settings import ENGINES
from bqvi.unseen import HIDDEN, Evaluated, expected_rise
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.settings import COMPONENTS, CONVERGENCE, EXPLORATION
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.matrices import lower_inverse, solve_lower
from gp.measures import GaussianMixture
from gp.measures.mixture import MixtureDensity


@dataclass(frozen=True, eq=False)
class Modes:
    """The known modes.

    Attributes
    ----------
    means : the means m_r, (R, D). factors : the lower Cholesky factors of Sigma_r, (R, D, D).
    shares : the shares (R,) of the posterior's mass.
    outline : the approximation g of the log joint.
    levels : for each part of g the height (J,) of the highest part of its mode.
    frame : the frame, in whose straight coordinates y all of these are: there a mode beside a bound is as
        narrow as others, and a funnel a Gaussian. Methods take points, values and gradients in x.
    """

    means: np.ndarray
    factors: np.ndarray
    shares: np.ndarray
    outline: MixtureDensity
    levels: np.ndarray
    frame: Frame

    @classmethod
    def of(cls, surrogate: Surrogate, q: DiagonalMixture, frame: Frame, log_evidence: float) -> Modes:
        """The modes of the mixture q, in its frame, with the log evidence."""
        measure, groups = replace(frame, scaling=None).measure(q), connected(surrogate, q)
        shares = np.array([measure.weights[rows].sum() for rows in groups])
        modes = [
            GaussianMixture(measure.weights[rows] / share, measure.means[rows], measure.covariances[rows])
            for rows, share in zip(groups, shares, strict=True)
        ]
        wholes = [GaussianMixture(np.ones(1), mode.mean[None], mode.covariance[None]) for mode in modes]
        parts = [
            mode if _divergence(mode, whole) > ENGINES.counts else whole
            for mode, whole in zip(modes, wholes, strict=True)
        ]
        outline = MixtureDensity.of(
            np.concatenate([share * part.weights for share, part in zip(shares, parts, strict=True)]),
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.factors for part in parts]),
        )
        outline = replace(outline, heights=outline.heights + log_evidence)
        ends = np.cumsum([len(part.weights) for part in parts])[:-1]
        levels = [np.full(len(each), each.max()) for each in np.split(outline.heights, ends)]
        means, factors = (np.concatenate([getattr(w, name) for w in wholes]) for name in ("means", "factors"))
        return cls(means, factors, shares, outline, np.concatenate(levels), frame)

    def __len__(self) -> int:
        return len(self.shares)

    def outlined(self, points: np.ndarray) -> np.ndarray:
        """The depths of g at points (n, D) below its top, (n,), nats."""
        return np.maximum(self._top - self.outline.log_density(self.frame.straightened(points)), 0.0)

    def depths(self, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The depths of values (n,) at points (n, D) below the top of g, (n,), nats."""
        return self._top - values - self.frame.log_stretch_at(points)

    @cached_property
    def _top(self) -> float:
        return float(self.outline.log_density(self.outline.means).max())

    def squares(self, points: np.ndarray) -> np.ndarray:
        """The squared distances (x - m_r)^T Sigma_r^-1 (x - m_r) of points (n, D), (n, R)."""
        at = self.frame.straightened(points)
        whitened = [
            solve_lower(factor, (at - mean).T) for mean, factor in zip(self.means, self.factors, strict=True)
        ]
        return np.stack([np.square(each).sum(0) for each in whitened], axis=1)

    def contain(self, points: np.ndarray) -> np.ndarray:
        """Whether each of the points (n, D) lies in the region of the mass of a mode, (n,).

        A part of g that is wide, and lower than others of its mode, has no such region of its own.
        """
        dimension = points.shape[1]
        depths = 2.0 * (self.levels[:, None] - self.outline.log_parts(self.frame.straightened(points))).min(0)
        return depths < dimension + 4.0 * np.sqrt(2.0 * dimension)  # 4 sds of |x|^2 under N(0, I)

    def unexplained(self, points: np.ndarray, values: np.ndarray, share: float, margin: float) -> np.ndarray:
        """Return by how many nats values (n,) at points (n, D) exceed what the modes allow.

        Allowed is g, more ``share`` of the depth of g below the highest mode, more ``margin`` nats; inside a
        part everything is, and -inf is returned.
        """
        excess = (1.0 - share) * self.outlined(points) - self.depths(points, values) - margin
        return np.where(self.contain(points), -np.inf, excess)

    def alignment(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The cosines of gradients (n, D) with that of the nearest part of g, in its units, (n,)."""
        at = self.frame.straightened(points)
        if self.frame.scaling is not None:
            gradients = self.frame.scaling.pulled(points, gradients)
        nearest = self.outline.log_parts(at).argmax(0)
        whitening, means = self.outline.whitening[nearest], self.outline.means[nearest]
        towards = np.einsum("nij,nj->ni", whitening, means - at)
        slopes = np.einsum("ni,nij->nj", gradients, lower_inverse(whitening))
        lengths = np.linalg.norm(towards, axis=1) * np.linalg.norm(slopes, axis=1)
        return np.einsum("nd,nd->n", towards, slopes) / np.maximum(lengths, 1e-300)


def connected(surrogate: Surrogate, q: DiagonalMixture) -> list[np.ndarray]:
    """The groups of the components of q between whose means the surrogate's mean has no dip.

    Neighbours are compared first, and then only components of different groups: the K components of a curved
    mode need a multiple of K segments instead of K^2 / 2, and the groups are the same.
    """
    first, second = np.triu_indices(q.count, 1)
    squares = np.square(q.means[first] - q.means[second]).sum(1)
    table = np.full((q.count, q.count), np.inf)
    table[first, second] = table[second, first] = squares
    distance = np.sort(table, axis=1)[:, min(3, q.count) - 1]
    near = squares <= np.maximum(distance[first], distance[second])
    label = np.arange(q.count)
    for some in (near, ~near):
        pairs = np.flatnonzero(some & (label[first] != label[second]))
        for i, j in _without_dip(surrogate, q, first[pairs], second[pairs]):
            label[label == label[j]] = label[i]
    groups = [np.flatnonzero(label == one) for one in np.unique(label)]
    return sorted(groups, key=lambda rows: int(rows[0]))


def _without_dip(
    surrogate: Surrogate, q: DiagonalMixture, first: np.ndarray, second: np.ndarray
) -> list[tuple[int, int]]:
    """Those of the pairs ``first``, ``second`` (m,) of components with no dip of the mean between them."""
    along = np.linspace(0.0, 1.0, 7)[:, None, None]
    segments = (1.0 - along) * q.means[first] + along * q.means[second]
    heights = surrogate.mean(segments.reshape(-1, q.means.shape[1])).reshape(7, -1)
    joined = heights.min(0) > np.minimum(heights[0], heights[-1]) - ENGINES.counts
    return list(zip(first[joined].tolist(), second[joined].tolist(), strict=True))


def pooled_within(surrogate: Surrogate, q: DiagonalMixture) -> np.ndarray | None:
    """The covariance (D, D) within the modes of q, pooled by their masses; None for a single mode."""
    groups = connected(surrogate, q)
    if len(groups) == 1:
        return None
    found = np.zeros((q.means.shape[1],) * 2)
    for rows in groups:
        share = float(q.weights[rows].sum())
        found += share * DiagonalMixture(q.weights[rows] / share, q.means[rows], q.scales[rows]).covariance
    return found / float(q.weights.sum())


def _divergence(mode: GaussianMixture, whole: GaussianMixture) -> float:
    """The divergence KL(mode || whole), estimated by draws."""
    x = mode.sample(512, 0)
    return float(np.mean(mode.log_density(x) - whole.log_density(x)))


@dataclass(frozen=True)
class Explored:
    """The result of an exploration.

    Attributes
    ----------
    complete : whether all points were evaluated that should be, and no mode was found.
    unseen : the nats that unseen modes are expected to add to the log evidence, after this exploration.
    hidden : the part of these for modes that no evaluation would have shown, a prior's and not an estimate.
    limited : whether the largest number of points ended it.
    """

    complete: bool
    unseen: float
    hidden: float
    limited: bool = False


UNEXPLORED = Explored(False, expected_rise(1.0), expected_rise(1.0))
"""The result before the first exploration."""


def explore(
    run: Evaluating,
    modes: Modes,
    sequence: np.ndarray,
    most: int,
    noise_sd: float = 0.0,
    surprising: tuple[int, ...] = (),
) -> Explored:
    """Explore the plausible box, until a mode is found or few further modes are expected.

    Parameters
    ----------
    run : the source of evaluations of the log joint.
    modes : the known modes.
    sequence : points (M, D) that represent the box. Those are evaluated that reveal a share of
        ``HIDDEN.worth``, and more, with further climbs, while unseen modes are expected to add
        `ConvergenceSettings.unseen` nats or more.
    most : the largest number of them that this exploration evaluates.
    noise_sd : the standard deviation of the values' noise, nats.
    surprising : the rows of evaluations inside of the modes, far above what all others predict, from which
        there are climbs first.
    """
    climbs: dict[int, ClimbResult] = {}
    outside = ~modes.contain(sequence)
    limit = most + int((rows_of(run.made.points, sequence) >= 0).sum())
    while True:
        rows = rows_of(run.made.points, sequence)
        made = rows[rows >= 0]
        unexplained = _unexplained(run, modes, made, noise_sd)
        explained = [row for row in map(int, made) if row not in unexplained]
        starts = [row for row in dict.fromkeys((*surprising, *unexplained)) if row not in climbs]
        share, places, gains = _places(run.made, modes, sequence, outside)
        unseen = _unseen(run, modes, share, explained, list(climbs.values()), len(starts))
        wanted = sum(gain > HIDDEN.worth for gain in gains)
        if (complete := wanted == 0) and unseen >= CONVERGENCE.unseen:
            wanted = len(places)
        further = places[: max(min(wanted, limit - len(made)), 0)]
        # a climb needs a gradient, where there are any; one for its direction alone waits for the points
        good = run.made.good
        due = [row for row in starts if good[row] and (unexplained.get(row, 1.0) > 0.0 or not further)]
        if due and len(climbs) < EXPLORATION.climbs(len(modes), len(made)):
            found, climbed = _climbed(run, modes, due[0], noise_sd, due[0] in surprising)
            if not found and climbed.ended != "room":
                climbs[due[0]] = climbed
                continue
            others = len(starts) - int(found)
            unseen = _unseen(run, modes, share, explained, list(climbs.values()), others, int(found))
            return Explored(False, unseen, expected_rise(share))
        if not further or not run.evaluate(sequence[further]):
            return Explored(complete, unseen, expected_rise(share), len(made) >= limit)


def _places(
    made: Evaluations, modes: Modes, sequence: np.ndarray, outside: np.ndarray
) -> tuple[float, list[int], list[float]]:
    """The share of hidden modes, and up to four next points of the sequence, as indices, with their gains.

    Points ``outside`` (M,) lie in no known mode.
    """
    depths = np.where(made.failed, np.inf, np.maximum(modes.depths(made.points, made.values), 0.0))
    x, places = modes.frame.straightened(made.points), modes.frame.straightened(sequence)
    evaluated = Evaluated(x, depths, modes.outlined(made.points), lower_inverse(modes.factors))
    return evaluated.search(places, modes.outlined(sequence), outside, 4)


def _unseen(
    run: Evaluating,
    modes: Modes,
    share: float,
    explained: list[int],
    climbs: list[ClimbResult],
    others: int,
    found: int = 0,
) -> float:
    """The nats that unseen modes are expected to add to the log evidence.

    Parameters
    ----------
    share : the share of hidden modes.
    explained : the rows of points that the known modes explain.
    climbs : the climbs that did not end in a further mode.
    others : the number of unexplained points from which no climb was begun.
    found : the number of climbs that ended in a further mode, zero or one.
    """
    ends = [one.rows[-1] for one in climbs if one.ended == "within"]
    without_mode = len(climbs) - len(ends)
    each = others / max(len(ends) + without_mode + found, 1)
    nearest = (modes.squares(run.made.points[np.array(rows, int)]).argmin(1) for rows in (explained, ends))
    by_explained, by_climbs = (np.bincount(mode, minlength=len(modes)) for mode in nearest)
    count = len(explained) + len(ends) * (1.0 + each) + found
    # A mode to which a single climb leads is counted as often as there are points for each climb.
    few = np.where(by_explained > 0, 1.0, 1.0 + each)[by_explained + by_climbs < 2].sum()
    once = min(float(few), count - found)
    return expected_rise(share, count, once + found, without_mode * (1.0 + each), found * each)


def _unexplained(run: Evaluating, modes: Modes, rows: np.ndarray, noise_sd: float) -> dict[int, float]:
    """The ``rows`` from which a climb may lead to a further mode, the least explained first.

    With each is the excess of its value, nats, which is not positive where only the gradient is unexplained.
    """
    if not len(rows):
        return {}
    points, values = run.made.points[rows], run.made.values[rows]
    margin = EXPLORATION.margin + ENGINES.sds * noise_sd
    excess = modes.unexplained(points, values, EXPLORATION.share, margin)
    turned = np.zeros(len(rows), bool)
    if run.made.gradients is not None:
        cosines = modes.alignment(points, run.made.gradients[rows])
        turned = np.isfinite(excess) & (cosines < 0.9)  # those within 26 degrees lead to that mode
    chosen = (excess > 0.0) | turned
    order = [i for i in np.argsort(-excess, kind="stable") if chosen[i]]
    return {int(rows[i]): float(excess[i]) for i in order}


def _climbed(
    run: Evaluating, modes: Modes, row: int, noise_sd: float, surprising: bool
) -> tuple[bool, ClimbResult]:
    """Whether a climb from a row ends at a further mode, and the climb.

    From a ``surprising`` value the mode may be one inside of a known one.
    """
    points, values = run.made.points, run.made.values
    dimension, gain = points.shape[1], max(ENGINES.gain, 2.0 * noise_sd)
    most = None if run.made.gradients is None else EXPLORATION.most_with_gradients

    def within(x: np.ndarray) -> bool:
        return not surprising and bool(modes.contain(x[None])[0])

    climbed = climb(run, points[row], gain, most, within, _first_step(run.made, row))
    best = run.made.values[list(climbed.rows)].max(initial=-np.inf)
    high = bool(best > values.max() - 0.5 * dimension - COMPONENTS.shallow)
    return climbed.ended == "gain" and climbed.new > 0 and high, climbed


SAME = 1e-8
"""The largest difference of coordinates of points that count as the same."""


def distances(points: np.ndarray, row: int) -> np.ndarray:
    """The distances (n,) of points (n, D) to one of them; zero of those that count as the same."""
    steps = points - points[row]
    return np.where(np.abs(steps).max(1) > SAME, np.linalg.norm(steps, axis=1), 0.0)


def _first_step(made: Evaluations, row: int) -> float:
    """The length of the first step of a climb from a row.

    If f falls from the mode as the squared distance r^2, and its highest value there is the highest one so
    far, r is twice the depth over the slope. Without gradients it is half of the distance to the nearest
    other evaluation. Evaluations at the same point do not count as others.
    """
    longest, away = EXPLORATION.longest, distances(made.points, row)
    others = away > 0.0
    if made.gradients is not None:
        slope = float(np.linalg.norm(made.gradients[row]))
        depth = float(made.values[others].max(initial=made.values[row]) - made.values[row])
        return min(2.0 * depth / max(slope, 1e-300), longest)
    return 0.5 * min(float(away[others].min(initial=longest)), longest)
