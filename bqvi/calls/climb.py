"""Maximisation of the user's log joint ("climb"), and Laplace's Gaussian at the mode that a climb reaches.

    x  ->  its row among the evaluations, made if it is new  ->  -value, -gradient  ->  the optimiser  ->  x
                                                             ->  gain, `within`     ->  the end

The optimiser is L-BFGS where there are gradients, and COBYQA (Ragonneau and Zhang 2024) for values alone.

    the start  ->  a climb from it  ->  the curvature at the mode  ->  Newton steps
    `LaplaceSearch`

The curvature is a difference of gradients for each axis; from values alone, that of a quadratic function
regressed on all of them. Where the log joint is not concave, widths are 1, or ten times those of the other
directions from values; where it fails at the start, Sobol points of boxes around it follow.

Both are deterministic. One that was cut short, or that had to request values (`Asking`), is run again from
its start and looks up all points that have been evaluated, so that only the evaluations have to be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.optimize

from bqvi.calls.settings import LAPLACE, LaplaceSearchSettings
from bqvi.calls.table import AsksError, Evaluations, rows_of
from gp.laplace import LaplaceGaussian
from gp.linalg import least_squares
from gp.low_discrepancy import scrambled_sobol
from gp.matrices import positive_solve

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
class ClimbResult:
    """The result of a climb.

    Attributes
    ----------
    rows : the rows of the points that it visited, in order; the first is the start.
    new : the number of these points that were evaluated for this climb.
    ended : 'gain' where the climb gained little, or visited the largest number of points; 'within'; or 'room'
        where the budget allowed no other evaluation.
    """

    rows: tuple[int, ...]
    new: int
    ended: str


def climb(
    run: Evaluating,
    start: np.ndarray,
    gain: float,
    most: int | None = None,
    within: Callable[[np.ndarray], bool] = lambda x: False,
    first: float | None = None,
) -> ClimbResult:
    """Climb from ``start`` (D,), a point that has been evaluated.

    Parameters
    ----------
    run : the source of evaluations.
    gain : the rise, nats, without which a step of one or more points along gradients ends it; from values
        alone D + 2 points, after the first 2 D + 2.
    most : the largest number of points that it visits; none by default, as a climb that is cut short has
        shown nothing.
    within : a function of a point (D,) with a finite value that returns whether the climb may end there.
    first : the largest length of the first step, or the first radius without gradients; for None or 0 they
        are 1, and an eighth of the width of the plausible box.

    Raises
    ------
    AsksError
        ``run`` is an `Asking`, and the next point has no value yet.
    """
    before, dimension, slopes = len(run.made), len(start), run.made.gradients is not None
    unit, ended = first or (1.0 if slopes else 0.25), "gain"
    rows, best, last = list[int](), list[float](), np.inf

    def objective(z: np.ndarray) -> tuple[float, np.ndarray] | float:
        x = start + unit * z
        row = int(_rows(run, x[None])[0])
        made = run.made
        failed, value = bool(made.failed[row]), float(made.values[row])
        if not failed and within(x):
            raise _EndedError("within")
        rows.append(row)
        best.append(max([value, *best[-1:]]))
        still = len(rows) > 2 * dimension + 2 and best[-1] - best[-3 - dimension] < gain
        if len(rows) == most or (still and not (failed or slopes)):
            raise _EndedError("gain")
        if made.gradients is None:
            return _WORST if failed else -value
        return (-value, -unit * made.gradients[row]) if made.good[row] else (_WORST, np.zeros_like(x))

    def stepped(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        nonlocal last
        if last - intermediate_result.fun < gain:
            raise _EndedError("gain")
        last = intermediate_result.fun

    try:
        scipy.optimize.minimize(  # type: ignore[call-overload]  # stubs lack the option
            objective,
            np.zeros_like(start),
            jac=slopes,
            method="L-BFGS-B" if slopes else "COBYQA",
            callback=stepped if slopes else None,
            options={} if slopes else {"initial_tr_radius": 1.0},
        )
    except _EndedError as end:
        ended = str(end)
    return ClimbResult(tuple(rows), len(run.made) - before, ended)


def _rows(run: Evaluating, points: np.ndarray) -> np.ndarray:
    """The rows of the points (m, D) among the evaluations; missing evaluations are made."""
    found = rows_of(run.made.points, points)
    if (found < 0).any():
        if not run.evaluate(points[found < 0]):
            raise _EndedError("room")
        found = rows_of(run.made.points, points)
    return found


class _EndedError(Exception):
    """Ends an optimiser from within its objective, or the search."""


_FLAT = 1e-8
"""The curvature below which the log joint counts as flat."""


class LaplaceSearch:
    """A search in coordinates (D,) in which a Gaussian at the start has unit covariance.

    Parameters
    ----------
    made : the evaluations so far.
    evaluate : a function of points (m, D) that evaluates them and returns all evaluations so far; None where
        the budget or the time does not allow it.
    start : the first point (D,). settings : of the search.
    """

    def __init__(
        self,
        made: Evaluations,
        evaluate: Callable[[np.ndarray], Evaluations | None],
        start: np.ndarray,
        settings: LaplaceSearchSettings = LAPLACE,
    ) -> None:
        self.made, self._evaluate, self._start, self._settings = made, evaluate, start, settings
        self._gaussian = LaplaceGaussian(np.ones(len(start)), np.eye(len(start)))
        self._modes: list[int] = []
        self._curved = False
        self._design = np.zeros(0, int)

    def laplace(self, room: float) -> tuple[np.ndarray, np.ndarray]:
        """The mode (D,) and the covariance (D, D) of Laplace's approximation.

        Where ``room``, the number of evaluations that the search may make, does not suffice for a difference
        of gradients along each axis, the curvature is estimated from the gradients that are known. Where the
        log joint is finite nowhere, or the budget ends first, it is the identity.
        """
        before = len(self.made)
        with suppress(_EndedError):
            self._explore()
            self._modes = [self._climbed(int(self._design[np.argmax(self.made.values[self._design])]))]
            if self.made.gradients is None:
                self._from_values()
            else:
                self._from_climb()
                if room - (len(self.made) - before) >= len(self._start):
                    self._bend(np.array([self._along(i) for i in range(len(self._start))]))
                    self._newton()
        return self._approximation()

    def refined(self, other: LaplaceSearch) -> tuple[np.ndarray, np.ndarray]:
        """The mode (D,), by Newton steps from the start with the covariance (D, D) of another search."""
        self._gaussian, self._curved = other._gaussian, other._curved
        with suppress(_EndedError):
            self._modes = [int(_rows(self, self._start[None])[0])]
            self._newton()
        return self._approximation()

    @property
    def mode(self) -> int | None:
        """The row of the mode, or of the highest value without one; None without evaluations."""
        good = np.where(self.made.good, self.made.values, -np.inf)
        return self._modes[0] if self._modes else int(np.argmax(good)) if len(good) else None

    def _approximation(self) -> tuple[np.ndarray, np.ndarray]:
        mode = self._start if self.mode is None else self.made.points[self.mode]
        return mode, self._gaussian.covariance

    def evaluate(self, points: np.ndarray) -> bool:
        """Evaluate at further points (m, D); False where the budget does not allow it."""
        made = self._evaluate(points)
        self.made = self.made if made is None else made
        return made is not None

    def _from_values(self) -> None:
        """Laplace's Gaussian from a quadratic function regressed on all values.

        A value d nats below the highest has an error of .3 (1 + d)^3/2, as that of a third derivative. A
        priori the curvature is h I with a standard deviation of h / 2, and the slope at the mode that at 3
        standard deviations, where h, with any slope, fits the values best.
        """
        made, mode = self.made, self._modes[0]
        steps, falls = made.points[made.good] - made.points[mode], made.values[mode] - made.values[made.good]
        weights = (1.0 + falls - falls.min()) ** -1.5 / 0.3
        rows, falls, halves = (
            steps * weights[:, None],
            falls * weights,
            0.5 * np.square(steps).sum(1) * weights,
        )
        h = float(least_squares(np.column_stack([halves, rows]), falls[:, None])[0][0, 0])
        if not h > 0.0:
            return
        slopes = 10.0 * h * rows @ rows.T
        squares = np.square(0.25 * h * steps @ steps.T) * np.outer(weights, weights)
        right = (falls - h * halves)[:, None]
        found = weights * positive_solve(slopes + squares + np.eye(len(falls)), right)[:, 0]
        curvature = np.eye(len(self._start)) * h + 0.125 * h**2 * (steps.T * found) @ steps
        self._gaussian, self._curved = LaplaceGaussian.of(curvature, 0.01 * h, 0.01 * h)

    def _from_climb(self) -> None:
        """Laplace's Gaussian from a multiple of I and the gradients' changes to the mode, the nearest last.

        Each change is an update of BFGS (Nocedal and Wright 2006, eq. 6.19). The multiple is the curvature
        along the nearest, not theirs (eq. 6.20).
        """
        made, mode, slopes = self.made, self._modes[0], self.made.gradients
        assert slopes is not None  # `laplace` has gradients
        steps, falls = made.points[made.good] - made.points[mode], slopes[mode] - slopes[made.good]
        along = np.einsum("nd,nd->n", steps, falls)
        order = np.argsort(-np.square(steps).sum(1))
        order = order[along[order] > 0.0]
        if not len(order):
            return
        nearest = order[-1]
        curvature = np.eye(len(self._start)) * float(along[nearest] / np.square(steps[nearest]).sum())
        for i in order:
            product = curvature @ steps[i]
            curvature -= np.outer(product, product) / float(steps[i] @ product)
            curvature += np.outer(falls[i], falls[i]) / along[i]
        self._bend(curvature)

    def _bend(self, curvature: np.ndarray) -> None:
        self._gaussian, self._curved = LaplaceGaussian.of(curvature, _FLAT, 1.0)

    def _explore(self) -> None:
        """Evaluate the start and, where it fails, Sobol points of boxes around it."""
        dimension, boxes = len(self._start), self._settings.boxes
        count = dimension + 3
        cube = 2.0 * scrambled_sobol(dimension, (1 + len(boxes)) * count, 0) - 1.0
        self._design = _rows(self, self._start[None])
        for part, size in enumerate(boxes, start=1):
            if not self.made.failed[self._design].all():
                return
            more = self._start + size * cube[part * count : (part + 1) * count]
            self._design = np.concatenate([self._design, _rows(self, more)])
        if self.made.failed[self._design].all():
            raise _EndedError

    def _climbed(self, row: int) -> int:
        """The row of the best point of a climb from ``row``."""
        slopes = self.made.gradients is not None
        most, gain = (3 * len(self._start) + 15, self._settings.gain) if slopes else (None, 0.5)
        rows = climb(self, self.made.points[row], gain, most).rows
        return rows[int(np.argmax(self.made.values[list(rows)]))]

    def _newton(self) -> None:
        """Make Newton steps with Laplace's curvature while each gains more than the criterion of a climb."""
        for _ in range(5):
            slopes, mode = self.made.gradients, self._modes[0]
            if slopes is None or not self._curved:
                return
            step = self._gaussian.covariance @ slopes[mode]
            if not 0.5 * float(step @ slopes[mode]) > self._settings.gain:
                return
            row = int(_rows(self, (self.made.points[mode] + step)[None])[0])
            if not self.made.values[row] > self.made.values[mode]:
                return
            self._modes[0] = row

    def _along(self, i: int) -> np.ndarray:
        """Row i of the negative Hessian, from the gradients at the mode and at a step of about `sds`."""
        mode, aim = self._modes[0], self._settings.sds
        towards = -1.0 if self.made.points[mode][i] > 0.0 else 1.0
        step, found = 0.5, np.zeros(len(self._start))
        if self._curved:
            # the square root of H_ii
            step = aim / float(np.sqrt(np.square(self._gaussian.axes[i]) @ self._gaussian.curvatures))
        for _ in range(4):
            there = self.made.points[mode] + towards * step * np.eye(len(self._start))[i]
            row = int(_rows(self, there[None])[0])
            slopes = self.made.gradients
            if slopes is None or not self.made.good[row]:
                step *= 0.2
                continue
            found = (slopes[mode] - slopes[row]) / (towards * step)
            along = float(found[i])
            # a curvature is used if the log joint falls by this over the step, nats
            if 0.05 * aim**2 < 0.5 * along * step**2 < 4.0 * aim**2:
                break
            step = 4.0 * step if along < _FLAT else min(max(aim * along**-0.5, 0.01 * step), 1e3)
        return found
