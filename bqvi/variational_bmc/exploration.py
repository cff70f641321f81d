"""Exploration: Sobol points of the plausible box, and climbs of the log joint from some of them.

The acquisition refines the modes that the surrogate has, and does not look for a further one. A run that
would otherwise have converged therefore explores first:

    Sobol points of the plausible box  ->  those that the known modes do not explain  ->  climbs from there

1. Points of the scrambled Sobol sequence that the first design began are evaluated up to `Exploration.count`.
2. `Modes.unexplained` and, with gradients, `Modes.alignment` say which of them the known modes do not
   explain.
3. From each of those, the least explained first, an optimiser climbs the log joint itself, L-BFGS with
   gradients and COBYQA (Ragonneau and Zhang 2024) without, until it enters a known mode or gains no more.

A climb that ends elsewhere has found a mode. Its evaluations lead q there, and the run goes on. Of n explored
points without a further mode the next lies in the region of one with probability 1 / (n + 2) (Laplace's rule
of succession). If there is such a mode with probability 1/2 and it has the mass of those known, the log
evidence is too low by log(2) / (2 (n + 2)) on average (`left_open`), which the evidence's standard deviation
contains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.optimize

from bqvi.variational_bmc.modes import Modes

_WORST = 1e10
"""Objective of an optimiser at a point where the log joint failed, nats."""


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
    relevant : nats below the highest value, beyond D / 2, of a mode whose mass could matter.
    """

    least: int = 8
    each: int = 2
    share: float = 0.1
    margin: float = 3.0
    cosine: float = 0.9
    in_vain: int = 3
    gain: float = 0.3
    relevant: float = 7.0

    def count(self, dimension: int, modes: int = 1) -> int:
        """Return how many points are explored where so many modes are known."""
        return (self.least + self.each * dimension) * (1 if modes == 1 else 2)


class Explorer(Protocol):
    """A run that can be asked for evaluations, in unbounded coordinates."""

    @property
    def points(self) -> np.ndarray:
        """All that were evaluated, (n, D)."""
        ...

    @property
    def values(self) -> np.ndarray:
        """The log joint there, -inf where it failed, (n,)."""
        ...

    @property
    def gradients(self) -> np.ndarray | None:
        """Gradients of the log joint there, (n, D), if there are any."""
        ...

    def evaluate(self, points: np.ndarray) -> bool:
        """Evaluate at further points (m, D); False where the budget has no room for all of them."""
        ...


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
    run: Explorer,
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
        seen = _rows(run.points, sequence)
        starts = [i for i in _unexplained(run, modes, seen, noise_sd, settings) if i not in begun]
        if starts and in_vain < settings.in_vain:
            begun.add(starts[0])
            climb = _Climb(run, modes, settings, noise_sd)
            climb.from_(run.points[starts[0]])
            if climb.found_mode or climb.out_of_budget:
                return Explored(len(seen), climb.found_mode, not climb.out_of_budget)
            in_vain += 1
        elif len(seen) < len(sequence):
            missing = sequence[np.flatnonzero(_rows_of(run.points, sequence) < 0)[:4]]
            if not run.evaluate(missing):
                return Explored(len(seen), False, False)
        else:
            return Explored(len(seen), False, True)


def _rows_of(points: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """For each point of the sequence its row among ``points``, -1 where it was not evaluated, (M,)."""
    rows = {point.tobytes(): i for i, point in enumerate(points)}
    return np.array([rows.get(point.tobytes(), -1) for point in sequence], dtype=int)


def _rows(points: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    rows = _rows_of(points, sequence)
    return rows[rows >= 0]


def _unexplained(
    run: Explorer, modes: Modes, rows: np.ndarray, noise_sd: float, settings: Exploration
) -> list[int]:
    """Those of the rows from which a climb may lead to a further mode, the least explained first."""
    if not len(rows):
        return []
    points, values = run.points[rows], run.values[rows]
    margin = settings.margin + 3.0 * noise_sd
    excess = modes.unexplained(points, values, settings.share, margin)
    if run.gradients is not None:
        cosines = modes.alignment(points, run.gradients[rows])
        turned = np.isfinite(excess) & (excess <= 0.0) & (cosines < settings.cosine)
        excess = np.where(turned, 1.0 - cosines, excess)
    order = np.argsort(-excess, kind="stable")
    return [int(rows[i]) for i in order if excess[i] > 0.0]


class _EndError(Exception):
    """Ends an optimiser from within its objective."""


class _Climb:
    """An optimiser's way up, which ends itself; points that have been evaluated are not evaluated again."""

    def __init__(self, run: Explorer, modes: Modes, settings: Exploration, noise_sd: float) -> None:
        dimension = modes.means.shape[1]
        self._run, self._modes = run, modes
        with_gradient = run.gradients is not None
        self._most = 15 if with_gradient else 8 * dimension + 10
        self._patience = 1 if with_gradient else dimension + 2
        self._least = 2 if with_gradient else 2 * dimension + 2
        self._gain = max(settings.gain, 2.0 * noise_sd)
        self._lowest = float(run.values.max()) - 0.5 * dimension - settings.relevant
        self._best: list[float] = []
        self._new = 0
        self.found_mode = False
        self.out_of_budget = False

    def from_(self, start: np.ndarray) -> None:
        """Climb from ``start`` (D,)."""
        try:
            if self._run.gradients is not None:
                scipy.optimize.minimize(self._with_gradient, start, jac=True, method="L-BFGS-B")
            else:
                scipy.optimize.minimize(  # type: ignore[call-overload]  # stubs lack the option
                    lambda x: -self._value(x)[0],
                    start,
                    method="COBYQA",
                    options={"initial_tr_radius": 0.25},  # an eighth of the plausible box
                )
        except _EndError:
            return
        self._ends()

    def _with_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        value, row = self._value(x)
        assert self._run.gradients is not None  # climbed by them
        gradient = self._run.gradients[row]
        if value == -_WORST or not np.isfinite(gradient).all():
            return _WORST, np.zeros_like(x)
        return -value, -gradient

    def _value(self, x: np.ndarray) -> tuple[float, int]:
        row = int(_rows_of(self._run.points, x[None])[0])
        if row < 0:
            if not self._run.evaluate(x[None].copy()):
                self.out_of_budget = True
                raise _EndError
            self._new += 1
            row = len(self._run.points) - 1
        value = float(self._run.values[row])
        if np.isfinite(value) and self._modes.contain(x[None])[0]:
            raise _EndError
        self._best.append(max([value, *self._best[-1:]]))
        n = len(self._best)
        still = n > self._least and self._best[-1] - self._best[-1 - self._patience] < self._gain
        if n >= self._most or still:
            self._ends()
            raise _EndError
        return (value if np.isfinite(value) else -_WORST), row

    def _ends(self) -> None:
        """Outside of the known modes: another mode, if it is high enough and was not known before."""
        self.found_mode = self._new > 0 and bool(self._best) and self._best[-1] > self._lowest
