"""The budget of a step of a run, the ledger of its evaluations, and those of an earlier attempt at the step.

A step that was cut short is repeated from the same state and with the same random numbers, so that it
proposes the same points. The evaluations that had returned are its `Unfinished` evaluations, which are used
instead of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls.budget import Budget
from bqvi.calls.evaluations import Evaluations, matched
from bqvi.calls.ledger import Ledger

__all__ = ["Account", "StepEvaluations", "Unfinished"]


class Unfinished:
    """Evaluations of a step that was cut short, used when the step is made again.

    Parameters
    ----------
    rows : the evaluations that had returned. cost : the number of evaluations that one point counts for.
    """

    def __init__(self, rows: Evaluations, cost: int = 1) -> None:
        self._rows, self._cost = rows, cost
        self._unused = np.arange(len(rows))
        self._counted = 0

    def completed(self, points: np.ndarray, evaluate: Callable[[np.ndarray], Evaluations]) -> Evaluations:
        """Evaluations at the points (n, D): stored ones where there are any, the others made by ``evaluate``.

        Where all of them are stored, the step was not ended by a call: then those that failed are
        evaluated again, since the function may have been mended.
        """
        found, unused = matched(self._rows.points[self._unused], points)
        missing = found < 0
        if missing.all():
            return evaluate(points)
        found = np.where(missing, -1, self._unused[found])
        self._unused = self._unused[unused]
        paid = self._cost * int((~missing).sum())
        self._counted += paid
        if not missing.any():
            missing = ~self._rows.good[found]
        made = evaluate(points[missing]) if missing.any() else Evaluations.none(points.shape[1])
        place = {point.tobytes(): len(self._rows) + i for i, point in enumerate(made.points)}
        order = [
            place.get(point.tobytes(), i) if again else i
            for point, i, again in zip(points, found, missing, strict=True)
        ]
        rows = self._rows.joined(made)[[i for i in order if i >= 0]]
        return replace(rows, n_evaluations=paid + made.n_evaluations)

    def left(self) -> Evaluations:
        """The evaluations that the repeated step did not use, with the number spent and not yet counted."""
        return replace(self._rows[self._unused], n_evaluations=self._rows.n_evaluations - self._counted)


class StepEvaluations:
    """The points, values and gradients of a step, kept for checks where the estimator itself keeps none."""

    def __init__(self) -> None:
        self.rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def enter(self, made: Evaluations) -> None:
        """Enter evaluations ``made``, with NaN for gradients that they lack."""
        missing = np.full(made.points.shape, np.nan)
        self.rows.append((made.points, made.values, missing if made.gradients is None else made.gradients))

    def table(self) -> np.ndarray:
        """The points, values and gradients as the columns of one array (n, 2 D + 1)."""
        return np.concatenate([np.column_stack(row) for row in self.rows])


@dataclass(frozen=True, eq=False)
class Account:
    """The budget and the evaluations of one step.

    Attributes
    ----------
    ledger : the ledger in which evaluations are entered as they return; None where they are not kept.
    budget : the budget that is checked before each call; None for no limit.
    unfinished : the evaluations of an earlier attempt at the step that was cut short; None if there are none.
    given : evaluations given by the caller, which the step uses instead of calls; None where it makes calls.
    entered : a `StepEvaluations`, for an estimator that keeps no evaluations; None where no check needs them.
    """

    ledger: Ledger | None = None
    budget: Budget | None = None
    unfinished: Unfinished | None = None
    given: Evaluations | None = None
    entered: StepEvaluations | None = None

    @contextmanager
    def spending(self, count: int) -> Iterator[None]:
        """A context in which evaluations are made that have no rows: of the terms of a model with data.

        They are entered in the budget before they are made, and in the ledger once they have returned, as
        `Caller.evaluate` does with evaluations that have rows.

        Raises
        ------
        BudgetError
            The budget has fewer than ``count`` left.
        """
        if self.budget is not None:
            self.budget.spend(count)
        yield
        if self.ledger is not None:
            self.ledger.count(count)
