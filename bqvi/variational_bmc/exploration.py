"""Exploration: Sobol points of the plausible box, and climbs of the log joint from some of them.

The acquisition refines the modes that the surrogate has, and does not look for a further one. A run that
would otherwise have converged therefore explores first:

    Sobol points of the plausible box  ->  those that the known modes do not explain  ->  climbs from there

1. Points of the scrambled Sobol sequence that the first design began are evaluated (`ExplorationSettings`).
2. `Modes.unexplained` and, with gradients, `Modes.alignment` say which of them the known modes do not
   explain.
3. From each of those, the least explained first, the log joint itself is climbed (`bqvi.calls.climb`), until
   the climb enters a known mode or gains no more.

A climb that ends elsewhere has found a mode. Its evaluations lead q there, and the run goes on. Each point
explored leads to one mode: a point that is explained to the nearest, a climb in vain to where it ends.
Let n points have led to the known modes, and to f of these no more than one each. The odds that the next
point leads to a mode unseen are then about (f + 1) / (n + 2 - f): for f = 0 Laplace's rule of succession, for
large f the estimate of Good (1953), by which the modes unseen have the share f / n of all points. With the
mass of those known as often as not, an unseen mode leaves the log evidence too low by log(2) / 2 times these
odds (`left_open`), which the evidence's standard deviation contains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.calls.climb import ClimbResult, Ends, Evaluating, climb, rows_of
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import EXPLORATION


@dataclass(frozen=True)
class Explored:
    """What an exploration found.

    Attributes
    ----------
    count : points of the sequence that lead to known modes.
    once : known modes to which at most one of these points leads.
    new_mode : whether a climb ended outside the known modes.
    complete : whether the budget sufficed.
    """

    count: int
    once: int
    new_mode: bool
    complete: bool


def left_open(count: int, once: int = 0) -> float:
    """Return the log evidence, in nats, that a mode unseen would add on average.

    Parameters
    ----------
    count : points that led to known modes. once : modes to which at most one of these led.
    """
    odds = (once + 1.0) / max(count + 2.0 - once, 1.0)
    return 0.5 * float(np.log(2.0)) * odds


def explore(
    run: Evaluating,
    modes: Modes,
    sequence: np.ndarray,
    noise_sd: float = 0.0,
) -> Explored:
    """Explore the plausible box, until a mode is found or the known ones explain all that was seen.

    Parameters
    ----------
    run : what evaluates.
    modes : those known.
    sequence : (M, D), points of the box in the order in which they are evaluated, M at least
        `ExplorationSettings.count`.
    noise_sd : of values, nats.
    """
    sequence = sequence[: EXPLORATION.count(sequence.shape[1], len(modes))]
    ended: dict[int, int] = {}
    most = EXPLORATION.in_vain + len(modes) - 1  # a climb to each mode but the first is only done again
    while True:
        rows = rows_of(run.made.points, sequence)
        seen = rows[rows >= 0]
        unexplained = _unexplained(run, modes, seen, noise_sd)
        starts = [i for i in unexplained if i not in ended]
        if starts and len(ended) < most:
            found, climbed = _climbed(run, modes, starts[0], noise_sd)
            if found or climbed.ended == "room":
                return Explored(0, 0, found, found)
            ended[starts[0]] = climbed.rows[-1] if climbed.ended == "within" else NOWHERE
        elif len(seen) < len(sequence):
            missing = sequence[np.flatnonzero(rows < 0)[:4]]
            if not run.evaluate(missing):
                return Explored(0, 0, False, False)
        else:
            ends = [ended.get(i, NOWHERE) if i in unexplained else i for i in map(int, seen)]
            return _complete(run, modes, [i for i in ends if i != NOWHERE])


NOWHERE = -1
"""The row of no evaluation: where a climb ends that comes to no mode."""


def _complete(run: Evaluating, modes: Modes, rows: list[int]) -> Explored:
    """An exploration without a new mode whose points led to the modes nearest to these rows."""
    if not rows:
        return Explored(0, len(modes), False, True)
    led = np.bincount(modes.squares(run.made.points[rows]).argmin(1), minlength=len(modes))
    return Explored(len(rows), int((led < 2).sum()), False, True)


def _unexplained(run: Evaluating, modes: Modes, rows: np.ndarray, noise_sd: float) -> list[int]:
    """Those of the rows from which a climb may lead to a further mode, the least explained first."""
    if not len(rows):
        return []
    points, values = run.made.points[rows], run.made.values[rows]
    margin = EXPLORATION.margin + 3.0 * noise_sd
    excess = modes.unexplained(points, values, EXPLORATION.share, margin)
    if run.made.gradients is not None:
        cosines = modes.alignment(points, run.made.gradients[rows])
        turned = np.isfinite(excess) & (excess <= 0.0) & (cosines < EXPLORATION.cosine)
        excess = np.where(turned, 1.0 - cosines, excess)
    order = np.argsort(-excess, kind="stable")
    return [int(rows[i]) for i in order if excess[i] > 0.0]


def _climbed(run: Evaluating, modes: Modes, row: int, noise_sd: float) -> tuple[bool, ClimbResult]:
    """Whether a climb from a row ends at a further mode, and where it came."""
    points, values = run.made.points, run.made.values
    dimension = points.shape[1]
    gain, most = max(EXPLORATION.gain, 2.0 * noise_sd), EXPLORATION.most_with_gradients
    ends = Ends.by(run.made.gradients is not None, dimension, gain, most)
    climbed = climb(run, points[row], ends, lambda x: bool(modes.contain(x[None])[0]))
    best = run.made.values[list(climbed.rows)].max(initial=-np.inf)
    high = bool(best > values.max() - 0.5 * dimension - EXPLORATION.relevant)
    return climbed.ended == "gain" and climbed.new > 0 and high, climbed
