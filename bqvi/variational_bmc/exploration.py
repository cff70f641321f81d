"""Exploration: Sobol points of the plausible box, and climbs of the log joint from some of them.

The acquisition refines the modes that the surrogate has, and does not look for a further one. A run that
would otherwise have converged therefore explores first:

    Sobol points of the plausible box  ->  those that the known modes do not explain  ->  climbs from there

1. Points of the scrambled Sobol sequence that the first design began are evaluated up to `Exploration.count`.
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


@dataclass(frozen=True)
class Exploration:
    """Settings, chosen on three Gaussians in boxes of 2, 4 and 6 dimensions and on 20 Gaussians in the plane.

    Attributes
    ----------
    least, each : explored points are ``least + each D`` where one mode is known, and twice as many where
        several are. Over 427 layouts of three Gaussians in D = 4, none of 16 points told of a mode that was
        left out in 5 %, none of 32 in 1.4 %, about as often as the rule of succession has it.
    share, margin : a value is explained where it exceeds the known modes' density by less than this share of
        its depth and these nats. With a share of .3 a narrow mode beside a wide one was missed.
    cosine : a gradient is explained where its cosine with that of the known modes is above this.
    in_vain : climbs that end in known modes, after which the remaining points count as explained.
    gain : nats that a climb has to gain in its last steps to go on.
    most_with_gradients : points of a climb with gradients.
    relevant : nats below the highest value, beyond D / 2, of a mode whose mass could matter.
    """

    least: int = 8
    each: int = 2
    share: float = 0.1
    margin: float = 3.0
    cosine: float = 0.9
    in_vain: int = 3
    gain: float = 0.3
    most_with_gradients: int = 15
    relevant: float = 7.0

    def count(self, dimension: int, modes: int = 1) -> int:
        """Return how many points are explored where so many modes are known."""
        return (self.least + self.each * dimension) * (1 if modes == 1 else 2)


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
    settings: Exploration | None = None,
) -> Explored:
    """Explore the plausible box, until a mode is found or the known ones explain all that was seen.

    Parameters
    ----------
    run : what evaluates.
    modes : those known.
    sequence : (M, D), points of the box in the order in which they are evaluated, M >= `Exploration.count`.
    noise_sd : of values, nats.
    settings : by default those of `Exploration`.
    """
    settings = Exploration() if settings is None else settings
    sequence = sequence[: settings.count(sequence.shape[1], len(modes))]
    begun: set[int] = set()
    in_vain = 0
    while True:
        rows = rows_of(run.made.points, sequence)
        seen = rows[rows >= 0]
        starts = [i for i in _unexplained(run, modes, seen, noise_sd, settings) if i not in begun]
        if starts and in_vain < settings.in_vain:
            begun.add(starts[0])
            found, room = _climbed(run, modes, starts[0], noise_sd, settings)
            if found or not room:
                return Explored(len(seen), found, room)
            in_vain += 1
        elif len(seen) < len(sequence):
            missing = sequence[np.flatnonzero(rows < 0)[:4]]
            if not run.evaluate(missing):
                return Explored(len(seen), False, False)
        else:
            return Explored(len(seen), False, True)


def _unexplained(
    run: Evaluating, modes: Modes, rows: np.ndarray, noise_sd: float, settings: Exploration
) -> list[int]:
    """Those of the rows from which a climb may lead to a further mode, the least explained first."""
    if not len(rows):
        return []
    points, values = run.made.points[rows], run.made.values[rows]
    margin = settings.margin + 3.0 * noise_sd
    excess = modes.unexplained(points, values, settings.share, margin)
    if run.made.gradients is not None:
        cosines = modes.alignment(points, run.made.gradients[rows])
        turned = np.isfinite(excess) & (excess <= 0.0) & (cosines < settings.cosine)
        excess = np.where(turned, 1.0 - cosines, excess)
    order = np.argsort(-excess, kind="stable")
    return [int(rows[i]) for i in order if excess[i] > 0.0]


def _climbed(
    run: Evaluating, modes: Modes, row: int, noise_sd: float, settings: Exploration
) -> tuple[bool, bool]:
    """Whether a climb from a row ends at a further mode, and whether there was room for all of it."""
    points, values = run.made.points, run.made.values
    dimension = points.shape[1]
    gain, most = max(settings.gain, 2.0 * noise_sd), settings.most_with_gradients
    ends = Ends.by(run.made.gradients is not None, dimension, gain, most)
    climbed = climb(run, points[row], ends, lambda x: bool(modes.contain(x[None])[0]))
    best = run.made.values[list(climbed.rows)].max(initial=-np.inf)
    high = bool(best > values.max() - 0.5 * dimension - settings.relevant)
    return climbed.ended == "gain" and climbed.new > 0 and high, climbed.ended != "room"
