"""Exploration for further modes, by points of the plausible box and climbs of the log joint from some.

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

from dataclasses import dataclass

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.climb import ClimbResult, Ends, Evaluating, climb
from bqvi.calls.table import rows_of
from bqvi.unseen import HIDDEN, Evaluated, expected_rise
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import COMPONENTS, CONVERGENCE, EXPLORATION
from bqvi.variational_bmc.undeclared_noise import distances
from gp.linear_maps import lower_inverse


@dataclass(frozen=True)
class Explored:
    """The result of an exploration.

    Attributes
    ----------
    complete : whether all points were evaluated that should be, and no mode was found.
    unseen : the nats that unseen modes are expected to add to the log evidence, after this exploration.
    limited : whether the largest number of points ended it.
    """

    complete: bool
    unseen: float
    limited: bool = False


UNEXPLORED = Explored(False, expected_rise(1.0))
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
            return Explored(False, unseen)
        if not further or not run.evaluate(sequence[further]):
            return Explored(complete, unseen, len(made) >= limit)


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
    by_explained, by_climbs = (_counts_by_mode(run, modes, rows) for rows in (explained, ends))
    count = len(explained) + len(ends) * (1.0 + each) + found
    # A mode to which a single climb leads is counted as often as there are points for each climb.
    few = np.where(by_explained > 0, 1.0, 1.0 + each)[by_explained + by_climbs < 2].sum()
    once = min(float(few), count - found)
    return expected_rise(share, count, once + found, without_mode * (1.0 + each), found * each)


def _counts_by_mode(run: Evaluating, modes: Modes, rows: list[int]) -> np.ndarray:
    """The number of ``rows`` that are nearest to each mode, (R,)."""
    if not rows:
        return np.zeros(len(modes), int)
    return np.bincount(modes.squares(run.made.points[rows]).argmin(1), minlength=len(modes))


def _unexplained(run: Evaluating, modes: Modes, rows: np.ndarray, noise_sd: float) -> dict[int, float]:
    """The ``rows`` from which a climb may lead to a further mode, the least explained first.

    With each is the excess of its value, nats, which is not positive where only the gradient is unexplained.
    """
    if not len(rows):
        return {}
    points, values = run.made.points[rows], run.made.values[rows]
    margin = EXPLORATION.margin + 3.0 * noise_sd
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
    dimension, gain = points.shape[1], max(EXPLORATION.gain, 2.0 * noise_sd)
    # with gradients a step ends it, not a point, as the first one may be too long
    ends = Ends.of_values(dimension, gain)
    if run.made.gradients is not None:
        ends = Ends(EXPLORATION.most_with_gradients, gain)
    within = None if surprising else lambda x: bool(modes.contain(x[None])[0])
    climbed = climb(run, points[row], ends, within, _first_step(run.made, row))
    best = run.made.values[list(climbed.rows)].max(initial=-np.inf)
    high = bool(best > values.max() - 0.5 * dimension - COMPONENTS.shallow)
    return climbed.ended == "gain" and climbed.new > 0 and high, climbed


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
