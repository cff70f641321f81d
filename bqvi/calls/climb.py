"""Maximisation of the user's log joint ("climb"), by an optimiser that reuses evaluations and makes new ones.

    x  ->  its row among the evaluations, made if it is new  ->  -value, -gradient  ->  the optimiser  ->  x
                                                             ->  `Ends`, `within`   ->  the end

The optimiser is L-BFGS where there are gradients, and COBYQA (Ragonneau and Zhang 2024) for values alone. A
climb is deterministic. One that was cut short, or that had to request values (`Asking`), is run again from
its start and looks up all points that have been evaluated, so that only the evaluations have to be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.optimize

from bqvi.calls.settings import CLIMB
from bqvi.calls.table import AsksError, Evaluations, rows_of

_WORST = 1e10
"""The objective of the optimiser at a point where the log joint failed, in nats."""


class Evaluating(Protocol):
    """The source of evaluations of a log joint."""

    @property
    def made(self) -> Evaluations:
        """All n evaluations so far."""

    def evaluate(self, points: np.ndarray) -> bool:
        """Evaluate at further points (m, D); False where the budget does not allow all of them."""


@dataclass(frozen=True)
class Asking:
    """A fixed set of evaluations: further points are requested by an `AsksError`."""

    made: Evaluations

    def evaluate(self, points: np.ndarray) -> bool:
        """Request values at the points (m, D), by raising `AsksError`."""
        raise AsksError(points)


@dataclass(frozen=True)
class Ends:
    """The criterion by which a climb ends.

    Attributes
    ----------
    most : the largest number of points that it visits.
    gain : the rise of its best value, in nats, without which it ends.
    patience : the number of latest points over which the rise is taken; 0 for the optimiser's latest step,
        of one or more points.
    least : the number of points before this criterion is applied.
    """

    most: int
    gain: float
    patience: int = 0
    least: int = 0

    @classmethod
    def of_values(cls, dimension: int, gain: float) -> Ends:
        """From values alone D + 2 points that gain little end a climb, which visits at most 8 D + 10."""
        of_values = (CLIMB.most_of_values, CLIMB.patience_of_values, CLIMB.least_of_values)
        visits, patience, least = (each * dimension + beside for each, beside in of_values)
        return cls(visits, gain, patience, least)

    def after(self, best: list[float], failed: bool) -> bool:
        """Whether the climb ends after points with these best values; ``failed`` is of the last point."""
        n = len(best)
        still = 0 < self.patience < n and n > self.least and best[-1] - best[-1 - self.patience] < self.gain
        return n >= self.most or (still and not failed)


@dataclass(frozen=True)
class ClimbResult:
    """The result of a climb.

    Attributes
    ----------
    rows : the rows of the points that it visited, in order; the first is the start.
    new : the number of these points that were evaluated for this climb.
    ended : 'gain' (it gained little, or visited the largest number of points), 'within', or 'room' (the
        budget allowed no other evaluation).
    """

    rows: tuple[int, ...]
    new: int
    ended: str


def climb(
    run: Evaluating,
    start: np.ndarray,
    ends: Ends,
    within: Callable[[np.ndarray], bool] | None = None,
    first: float | None = None,
) -> ClimbResult:
    """Climb from ``start`` (D,), a point that has been evaluated.

    Parameters
    ----------
    run : the source of evaluations. ends : the criterion by which the climb ends.
    within : a function of a point (D,) with a finite value that returns whether the climb may end there.
    first : the length of the first step, or first radius without gradients; None for 1 at most, or
        `ClimbSettings.first_radius`.

    Raises
    ------
    AsksError
        ``run`` is an `Asking`, and the next point has no value yet.
    """
    unit = first or (1.0 if run.made.gradients is not None else CLIMB.first_radius)
    under_way = _Climb(run, ends, within, start, unit)
    options = {} if under_way.gradients else {"initial_tr_radius": 1.0}
    ended = "gain"
    try:
        scipy.optimize.minimize(  # type: ignore[call-overload]  # stubs lack the option
            under_way.objective,
            np.zeros_like(start),
            jac=under_way.gradients,
            method="L-BFGS-B" if under_way.gradients else "COBYQA",
            callback=under_way.stepped if under_way.gradients and not ends.patience else None,
            options=options,
        )
    except _EndedError as end:
        ended = str(end)
    return ClimbResult(tuple(under_way.rows), under_way.new, ended)


class _EndedError(Exception):
    """Ends an optimiser from within its objective."""


class _Climb:
    def __init__(
        self,
        run: Evaluating,
        ends: Ends,
        within: Callable[[np.ndarray], bool] | None,
        start: np.ndarray,
        unit: float,
    ) -> None:
        self._run, self._ends, self._within = run, ends, within
        self._start, self._unit = start, unit
        self.gradients = run.made.gradients is not None
        self.rows: list[int] = []
        self.new = 0
        self._best: list[float] = []
        self._last = np.inf

    def objective(self, z: np.ndarray) -> tuple[float, np.ndarray] | float:
        """-value, and -gradient where there are gradients, at steps z (D,) from the start in the unit."""
        x = self._start + self._unit * z
        row = self._row(x)
        made = self._run.made
        failed = bool(made.failed[row])
        if self._within is not None and not failed and self._within(x):
            raise _EndedError("within")
        self.rows.append(row)
        self._best.append(max([float(made.values[row]), *self._best[-1:]]))
        if self._ends.after(self._best, failed):
            raise _EndedError("gain")
        if made.gradients is None:
            return _WORST if failed else -float(made.values[row])
        return (
            (-float(made.values[row]), -self._unit * made.gradients[row])
            if made.good[row]
            else (_WORST, np.zeros_like(x))
        )

    def _row(self, x: np.ndarray) -> int:
        """The row of x (D,), which is evaluated if it is new."""
        row = int(rows_of(self._run.made.points, x[None])[0])
        if row < 0:
            if not self._run.evaluate(x[None].copy()):
                raise _EndedError("room")
            self.new += 1
            row = len(self._run.made) - 1
        return row

    def stepped(self, intermediate_result: scipy.optimize.OptimizeResult) -> None:
        """End the climb once a step gains little."""
        if self._last - intermediate_result.fun < self._ends.gain:
            raise _EndedError("gain")
        self._last = intermediate_result.fun
