"""The user's function for engines: points of their coordinates in, `Evaluations` out.

    points v (n, D)  --coordinates-->  theta (n, P)  --user-->  value, sd?, gradient?
                                                                  + log Jacobian, pulled back
                                                             -->  Evaluations, in the coordinates

What a function may return or raise, and how it is treated:

    a number                     an evaluation; (number, sd) where it is noisy
    -inf, NaN, a numerical       a *failed* row, with its reason. It counts, and designs keep away from it
    exception                    again; so does a log density below -1e100
    +inf, a complex number,      `EvaluationError`, before more is spent (in a batch that runs in parallel:
    another shape                before the next)
    an error of its code or of   `EvaluationError`, likewise (:mod:`bqvi.calls.faults` says which these are)
    the system
    no answer: the executor      a failed row, with its reason
    lost the worker or the time
    Ctrl-C, SystemExit           pass through unchanged

However a batch ends, the evaluations that had returned are in the ledger. A vectorised function that raises a
numerical exception on a batch is called again point by point, so that one bad point does not fail the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.calls.assembly import CallBatch
from bqvi.calls.batches import collect
from bqvi.calls.budget import Budget
from bqvi.calls.call import Call
from bqvi.calls.coordinates import Coordinates
from bqvi.calls.errors import EvaluationError
from bqvi.calls.evaluations import Evaluations
from bqvi.calls.executors import Executor, require_workers
from bqvi.calls.function import UNKNOWN, Function
from bqvi.calls.ledger import Ledger
from gp.arrays import Array
from gp.threads import as_the_user_has_it


@dataclass(frozen=True, eq=False)
class Caller:
    """A function, the coordinates in which an engine takes it, and how the calls are made.

    Attributes
    ----------
    function : the user's.
    coordinates : bounds and coordinates of its parameters; None where points are those of the function. The
        values of a log density then have the log Jacobian added.
    executor : a batch is evaluated through its ``submit``, or else its ``map``, point by point.
    n_jobs : a batch is evaluated by so many processes of joblib; not with an executor.
    cost : evaluations that one point counts for: 1, or N for a sum over N data.
    separately : whether a vectorised function gets one point a call: batches at which it raised count twice.

    Raises
    ------
    TypeError, ValueError
        where an argument is none of these.
    """

    function: Function
    coordinates: Coordinates | None = None
    executor: Executor | None = None
    n_jobs: int = 1
    cost: int = 1
    separately: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "executor", require_workers(self.executor, self.n_jobs))

    @property
    def dimension(self) -> int:
        """The number D of coordinates."""
        if self.coordinates is None:
            raise ValueError("coordinates is None; the dimension is that of the points")
        return self.coordinates.dimension

    @property
    def has_gradient(self) -> bool:
        """Whether evaluations bring gradients."""
        return self.function.gradient is not None

    @property
    def noise_unknown(self) -> bool:
        """Whether values are noisy with an unknown sd."""
        return self.function.noise_sd == UNKNOWN

    def to_user(self, points: np.ndarray) -> np.ndarray:
        """Points (n, D) as the function gets them, (n, P)."""
        return points if self.coordinates is None else self.coordinates.to_user(points)

    def evaluate(
        self,
        points: np.ndarray,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        first: bool = False,
    ) -> Evaluations:
        """Evaluate at the points (n, D); at the first of them, where the budget has no room for all.

        Parameters
        ----------
        ledger : each evaluation is entered as it returns.
        budget : asked before each call.
        first : whether nothing has been evaluated before with success: then a function that raises at every
            point is an error of the function, and a log density whose values look like those of a density
            is reported.

        Raises
        ------
        EvaluationError
            The function's code or the system failed, it returned something that it must not, or the executor
            failed. Holds the rows of this batch that returned, and has for a cause what was raised.
        """
        budget = Budget() if budget is None else budget
        points = np.asarray(points, float)
        points = points[: budget.room(self.cost * len(points)) // self.cost]
        theta = self.to_user(points)
        batch = CallBatch(self.function, self.coordinates, points, theta, ledger, cost=self.cost)
        try:
            if len(points):
                self._called(batch, budget)
        except EvaluationError as error:
            if error.evaluations is None:
                error.evaluations = batch.rows()
            raise
        return batch.finished(first)

    @as_the_user_has_it()
    def _called(self, batch: CallBatch, budget: Budget) -> None:
        n, workers = len(batch.theta), self.executor is not None or self.n_jobs > 1
        if self.function.vectorised and not (workers or self.separately):
            budget.spend(self.cost * n)
            if batch.enter_whole(Call(self.function)(batch.theta)):
                return
            n = budget.room(self.cost * n) // self.cost
        budget.spend(self.cost * n)
        collect(Call(self.function, workers), batch.theta[:n], self.executor, self.n_jobs, batch.enter)

    def given(
        self, theta: Array, values: Array, gradients: Array = None, noise_sd: Array = None
    ) -> Evaluations:
        """Evaluations made before, in the user's units.

        Parameters
        ----------
        theta : (n, P), inside the bounds.
        values : (n,), the log joint there; -inf or NaN where it failed.
        gradients : (n, P) or None.
        noise_sd : (n,), a number or None; the function's own where it has one.

        Raises
        ------
        ValueError
            Shapes disagree, a value is +inf, parameters lie outside of the bounds.
        """
        from bqvi.calls.given import evaluations_given

        return evaluations_given(self.function, self.coordinates, theta, values, gradients, noise_sd)

    def told(
        self, points: np.ndarray, values: Array, gradients: Array = None, noise_sd: Array = None
    ) -> Evaluations:
        """Evaluations that the caller of a run made, at points (n, D) that the engine proposed.

        Parameters
        ----------
        values : (n,), or (n, o) for a function of several outputs; -inf or NaN where it failed.
        gradients : (n, P), or (n, o, P); needed where the function has any.
        noise_sd : (n,), a number or None.

        Raises
        ------
        ValueError, TypeError
            Shapes disagree, a value is +inf, or gradients are missing.
        """
        from bqvi.calls.given import evaluations_told

        return evaluations_told(self.function, self.coordinates, points, values, gradients, noise_sd)
