"""Exploration for further modes, by Sobol points of the plausible box and climbs of the log joint from some.

The acquisition refines the known modes of the surrogate, and does not search for further ones. A run that
would otherwise have converged therefore explores first:

    Sobol points of the plausible box  ->  those that the known modes do not explain  ->  climbs from there

1. Further points of the scrambled Sobol sequence of the first design are evaluated (`ExplorationSettings`).
2. `Modes.unexplained` and, with gradients, `Modes.alignment` determine which points are explained by the
   known modes. This presumes that the log joint rises towards the modes, which is tested (see below).
3. From each unexplained point, the least explained first, the log joint itself is maximised
   (`bqvi.calls.climb`), until the climb enters a known mode or its gain is small.
A climb that ends elsewhere has found a mode. With its evaluations q is given components there, and the run
continues. Where no mode is found, exploration ends once few further modes are expected; until then more
points and climbs are evaluated (`ExplorationSettings.most`).

Between several narrow modes the log joint falls and rises again, and all values may still be lower than the
known modes allow. No point outside of the modes is explained where values there do not rise with the density
of the modes, by their rank correlation (`_order`). Where one mode is known and there are no gradients, values
are few, so that this correlation may be large by chance, or small although the log joint has one mode.
Unless it is large enough, the log joint is then evaluated halfway between the mode and each of the highest
points outside, one after the other. If it is lower there than at the point, it falls towards the mode, and no
point outside is explained. On a log joint that rises along these segments this test finds no fall. If instead
n values outside of the mode and those halfway were independent draws of one distribution, the correlation
would suffice with probability ``by_chance``, and no fall would be found from three points with probability

    1 * 3 * 5 / ((n + 1) (n + 2) (n + 3)),

as the i-th value halfway has to be above the i-th highest of the n values. For n = 10 this is .009.

The other points are counted by the mode to which they lead, as :mod:`bqvi.unseen` has it. A point that is
explained leads to the nearest known mode. A point whose climb enters a known mode leads to that mode. A point
from which a climb hardly rises leads nowhere. Points from which no climb was begun are counted in the
proportions of those from which one was. A mode that is reached by a single climb counts in f as often as
there are points for each climb. g is zero unless exploration ends because a climb has found a mode; that mode
is then one of the f. `expected_rise` is part of the standard deviation of the log evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from bqvi.calls import Evaluations
from bqvi.calls.climb import ClimbResult, Ends, Evaluating, climb, rows_of
from bqvi.unseen import expected_rise
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import CONVERGENCE, EXPLORATION

__all__ = ["UNEXPLORED", "Explored", "explore"]


@dataclass(frozen=True)
class Explored:
    """The result of an exploration.

    Attributes
    ----------
    complete : whether the budget sufficed and no mode was found.
    unseen : the nats that unseen modes are expected to add to the log evidence, after this exploration.
    """

    complete: bool
    unseen: float


UNEXPLORED = Explored(False, expected_rise(0))
"""The result before the first exploration."""


def explore(
    run: Evaluating,
    modes: Modes,
    sequence: np.ndarray,
    noise_sd: float = 0.0,
) -> Explored:
    """Explore the plausible box, until a mode is found or few further modes are expected.

    Parameters
    ----------
    run : the source of evaluations of the log joint.
    modes : the known modes.
    sequence : points (M, D) of the box in the order of their evaluation. The first
        `ExplorationSettings.count` of them are evaluated, and as many again, with further climbs, while
        unseen modes are expected to add `ConvergenceSettings.unseen` nats or more.
    noise_sd : the standard deviation of the values' noise, nats.
    """
    each = count = min(EXPLORATION.count(sequence.shape[1], len(modes)), len(sequence))
    climbs: dict[int, ClimbResult] = {}
    # climbs to modes found earlier are repeated, without calls
    most = EXPLORATION.without_mode + len(modes) - 1
    falls = False
    while True:
        rows = rows_of(run.made.points, sequence[:count])
        made = rows[rows >= 0]
        unordered, tops = _order(run.made, modes, made)
        if len(made) < len(rows):
            tops = tops[:0]  # the highest points are known once all have been evaluated
        halfway = modes.halfway(run.made.points[tops])
        between = rows_of(run.made.points, halfway)
        falls = falls or _falls(run.made, tops, between, noise_sd)
        explained, unexplained = _divided(run, modes, made, noise_sd, unordered or falls)
        starts, found = [row for row in unexplained if row not in climbs], False
        if starts and len(climbs) < most:
            found, climbed = _climbed(run, modes, starts[0], noise_sd)
            if not found and climbed.ended != "room":
                climbs[starts[0]] = climbed
                continue
        elif (rows < 0).any():
            if run.evaluate(sequence[np.flatnonzero(rows < 0)[:4]]):
                continue
        elif not falls and (between < 0).any():
            if run.evaluate(halfway[np.flatnonzero(between < 0)[:1]]):
                continue
        else:
            unseen = _unseen(run, modes, explained, list(climbs.values()), len(starts))
            if unseen < CONVERGENCE.unseen or count >= len(sequence):
                return Explored(True, unseen)
            count, most = count + each, most + EXPLORATION.without_mode
            continue
        others = len(starts) - int(found)
        return Explored(False, _unseen(run, modes, explained, list(climbs.values()), others, int(found)))


def _divided(
    run: Evaluating, modes: Modes, rows: np.ndarray, noise_sd: float, falls: bool
) -> tuple[list[int], list[int]]:
    """The ``rows`` of points that the modes explain, and the others, the least explained first."""
    unexplained = _unexplained(run, modes, rows, noise_sd, falls)
    return [row for row in map(int, rows) if row not in unexplained], unexplained


def _unseen(
    run: Evaluating,
    modes: Modes,
    explained: list[int],
    climbs: list[ClimbResult],
    others: int,
    found: int = 0,
) -> float:
    """The nats that unseen modes are expected to add to the log evidence.

    Parameters
    ----------
    explained : the rows of points that the known modes explain.
    climbs : the climbs that did not end in a further mode.
    others : the number of unexplained points from which no climb was begun.
    found : the number of climbs that ended in a further mode, zero or one.
    """
    ends = [one.rows[-1] for one in climbs if one.ended == "within"]
    without_mode = sum(_without_mode(run.made, one) for one in climbs)
    each = others / max(len(ends) + without_mode + found, 1)
    by_explained, by_climbs = (_counts_by_mode(run, modes, rows) for rows in (explained, ends))
    count = len(explained) + len(ends) * (1.0 + each) + found
    # A mode to which a single climb leads is counted as often as there are points for each climb.
    few = np.where(by_explained > 0, 1.0, 1.0 + each)[by_explained + by_climbs < 2].sum()
    once = min(float(few), count - found)
    return expected_rise(count, once + found, without_mode * (1.0 + each), found * each)


def _counts_by_mode(run: Evaluating, modes: Modes, rows: list[int]) -> np.ndarray:
    """The number of ``rows`` that are nearest to each mode, (R,)."""
    if not rows:
        return np.zeros(len(modes), int)
    return np.bincount(modes.squares(run.made.points[rows]).argmin(1), minlength=len(modes))


def _without_mode(made: Evaluations, climbed: ClimbResult) -> bool:
    """Whether a climb ended outside of the modes and led nowhere.

    From values alone a climb ends after D + 2 points that gain little. With gradients a climb ends after one
    such point, which may be due to a step that was too long; a climb that has risen far is therefore not
    counted.
    """
    start, best = made.values[climbed.rows[0]], made.values[list(climbed.rows)].max()
    far = made.gradients is not None and best - start > EXPLORATION.risen * (made.values.max() - start)
    return climbed.ended != "within" and not far


def _unexplained(run: Evaluating, modes: Modes, rows: np.ndarray, noise_sd: float, falls: bool) -> list[int]:
    """The ``rows`` from which a climb may lead to a further mode, the least explained first."""
    if not len(rows):
        return []
    points, values = run.made.points[rows], run.made.values[rows]
    margin = EXPLORATION.margin + 3.0 * noise_sd
    excess = modes.unexplained(points, values, EXPLORATION.share, margin)
    if run.made.gradients is not None:
        cosines = modes.alignment(points, run.made.gradients[rows])
        turned = np.isfinite(excess) & (excess <= 0.0) & (cosines < EXPLORATION.cosine)
        excess = np.where(turned, 1.0 - cosines, excess)
    outside = np.isfinite(excess)
    order = np.lexsort((-values, -np.maximum(excess, 0.0)))
    return [int(rows[i]) for i in order if excess[i] > 0.0 or (falls and outside[i])]


def _order(made: Evaluations, modes: Modes, rows: np.ndarray) -> tuple[bool, np.ndarray]:
    """Whether values at ``rows`` do not rise with the density of the modes; where this is open, the ``tops``.

    These are the rows of the highest points outside of the modes, from which it is tested whether the log
    joint rises towards the modes. The measure is Spearman's rank correlation, and the probability that it is
    as large by chance is that by the approximation with Student's t.
    """
    points, values = made.points[rows], made.values[rows]
    outside = ~modes.contain(points) & np.isfinite(values)
    rows, values, n = rows[outside], values[outside], int(outside.sum())
    if n < EXPLORATION.ranked:
        return False, rows[:0]
    explained = modes.outline.log_density(points[outside])
    first, second = (np.argsort(np.argsort(each)) - 0.5 * (n - 1) for each in (explained, values))
    correlation = min(float(first @ second) / float(first @ first), 1.0 - 1e-12)
    chance = float(stdtr(n - 2.0, -correlation * math.sqrt((n - 2.0) / (1.0 - correlation**2))))
    ordered = correlation >= EXPLORATION.ordered
    # the highest points outside of several modes may lie beside these, and a gradient shows where f rises
    if len(modes) > 1 or made.gradients is not None:
        return not ordered, rows[:0]
    if ordered and chance < EXPLORATION.by_chance:
        return False, rows[:0]
    return False, rows[np.argsort(-values)[: EXPLORATION.tops]]


def _falls(made: Evaluations, tops: np.ndarray, between: np.ndarray, noise_sd: float) -> bool:
    """Whether a value at one of the rows ``between`` (m,) is lower than at the row of ``tops`` (m,).

    Rows that are -1 have not been evaluated.
    """
    known = between >= 0
    allowed = EXPLORATION.margin + 3.0 * noise_sd
    return bool((made.values[between[known]] < made.values[tops[known]] - allowed).any())


def _climbed(run: Evaluating, modes: Modes, row: int, noise_sd: float) -> tuple[bool, ClimbResult]:
    """Whether a climb from a row ends at a further mode, and the climb."""
    points, values = run.made.points, run.made.values
    dimension = points.shape[1]
    gain, most = max(EXPLORATION.gain, 2.0 * noise_sd), EXPLORATION.most_with_gradients
    ends = Ends.by(run.made.gradients is not None, dimension, gain, most)
    climbed = climb(run, points[row], ends, lambda x: bool(modes.contain(x[None])[0]))
    best = run.made.values[list(climbed.rows)].max(initial=-np.inf)
    high = bool(best > values.max() - 0.5 * dimension - EXPLORATION.relevant)
    return climbed.ended == "gain" and climbed.new > 0 and high, climbed
