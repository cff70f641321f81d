"""Exploration: Sobol points of the plausible box, and climbs of the log joint from some of them.

The acquisition refines the modes that the surrogate has, and does not look for a further one. A run that
would otherwise have converged therefore explores first:

    Sobol points of the plausible box  ->  those that the known modes do not explain  ->  climbs from there

1. Points of the scrambled Sobol sequence that the first design began are evaluated (`ExplorationSettings`).
2. `Modes.unexplained` and, with gradients, `Modes.alignment` say which of them the known modes do not
   explain.
3. From each of those, the least explained first, the log joint itself is climbed (`bqvi.calls.climb`), until
   the climb enters a known mode or gains no more.

A climb that ends elsewhere has found a mode. Its evaluations lead q there, and the run goes on. Of n explored
points without a further mode the next lies in the region of one with probability 1 / (n + 2) (Laplace's rule
of succession). If there is such a mode with probability 1/2 and it has the mass of those known, the log
evidence is too low by log(2) / (2 (n + 2)) on average (`left_open`), which the evidence's standard deviation
contains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.calls.climb import Ends, Evaluating, climb, rows_of
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import EXPLORATION


@dataclass(frozen=True)
class Explored:
    """What an exploration found.

    Attributes
    ----------
    count : points of the sequence that were evaluated.
    new_mode : whether a climb ended outside the known modes.
    complete : whether the budget sufficed.
    """

    count: int
    new_mode: bool
    complete: bool


def left_open(count: int) -> float:
    """Return the log evidence, in nats, that a mode unseen by ``count`` points would add on average."""
    return 0.5 * float(np.log(2.0)) / (count + 2.0)


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
    begun: set[int] = set()
    in_vain = 0
    while True:
        rows = rows_of(run.made.points, sequence)
        seen = rows[rows >= 0]
        starts = [i for i in _unexplained(run, modes, seen, noise_sd) if i not in begun]
        if starts and in_vain < EXPLORATION.in_vain:
            begun.add(starts[0])
            found, room = _climbed(run, modes, starts[0], noise_sd)
            if found or not room:
                return Explored(len(seen), found, room)
            in_vain += 1
        elif len(seen) < len(sequence):
            missing = sequence[np.flatnonzero(rows < 0)[:4]]
            if not run.evaluate(missing):
                return Explored(len(seen), False, False)
        else:
            return Explored(len(seen), False, True)


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


def _climbed(run: Evaluating, modes: Modes, row: int, noise_sd: float) -> tuple[bool, bool]:
    """Whether a climb from a row ends at a further mode, and whether there was room for all of it."""
    points, values = run.made.points, run.made.values
    dimension = points.shape[1]
    gain, most = max(EXPLORATION.gain, 2.0 * noise_sd), EXPLORATION.most_with_gradients
    ends = Ends.by(run.made.gradients is not None, dimension, gain, most)
    climbed = climb(run, points[row], ends, lambda x: bool(modes.contain(x[None])[0]))
    best = run.made.values[list(climbed.rows)].max(initial=-np.inf)
    high = bool(best > values.max() - 0.5 * dimension - EXPLORATION.relevant)
    return climbed.ended == "gain" and climbed.new > 0 and high, climbed.ended != "room"
