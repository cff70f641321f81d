"""The user's function as engines call it: from points in the coordinates to `Evaluations`.

    points v (n, D)  --coordinates-->  theta (n, P)  --user-->  value, sd?, gradient?
                                                                  + log Jacobian, pulled back
                                                             -->  Evaluations, in the coordinates

What a function may return or raise, and how it is treated, is in :mod:`bqvi.calls.faults`. However a batch
ends, the evaluations that had returned are in the ledger; with an executor that has a `map` only, which gives
its results in order, those before the first point that has not returned. A vectorised function that raises a
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
from bqvi.calls.given import evaluations_given, evaluations_received
from bqvi.calls.ledger import Ledger
from gp.arrays import Array
from gp.threads import users_threads

__all__ = ["Caller"]


@dataclass(frozen=True, eq=False)
class Caller:
    """A function, the coordinates in which an engine calls it, and how the calls are made.

    Attributes
    ----------
    function : the user's function.
    coordinates : the bounds and coordinates of its parameters, with which a log density has the log Jacobian
        added; None where points are passed to the function as they are.
    executor : evaluates a batch point by point, through its ``submit`` or else its ``map``.
    n_jobs : the number of joblib's processes that evaluate a batch; not together with an executor.
    cost : the number of evaluations that one point counts for: 1, or N for a sum over N data.
    separately : whether a vectorised function is called at one point at a time, since a batch at which it
        raises counts twice.

    Raises
    ------
    TypeError, ValueError
        An argument is not as described.
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
        """Whether evaluations have gradients."""
        return self.function.gradient is not None

    @property
    def noise_unknown(self) -> bool:
        """Whether values are noisy with an unknown standard deviation."""
        return self.function.noise_sd == UNKNOWN

    def to_user(self, points: np.ndarray) -> np.ndarray:
        """The parameters (n, P) that the function is called with at points (n, D)."""
        return points if self.coordinates is None else self.coordinates.to_user(points)

    def evaluate(
        self,
        points: np.ndarray,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        first: bool = False,
    ) -> Evaluations:
        """Evaluate at the points (n, D), or at the first of them that the budget allows.

        Parameters
        ----------
        ledger : the ledger in which each evaluation is entered as it returns.
        budget : the budget that is checked before each call.
        first : whether no evaluation has succeeded before: then a function that raises at every
            point is an error of the function, and a log density whose values look like those of a density
            is reported.

        Raises
        ------
        EvaluationError
            The function's code, the system or the executor failed, or the function returned something that is
            not allowed. It holds the rows of this batch that returned; its cause is what was raised.
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

    @users_threads()
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
        """The `Evaluations` of values that were computed before, in the user's units.

        Parameters
        ----------
        theta : the parameters (n, P), inside the bounds.
        values : the log joint there (n,); -inf or NaN where it failed.
        gradients : its gradients (n, P), or None.
        noise_sd : the standard deviation of the values' noise, (n,) or a number; by default the function's.

        Raises
        ------
        ValueError
            Shapes disagree, a value is +inf, or parameters lie outside of the bounds.
        """
        return evaluations_given(self, theta, values, gradients, noise_sd)

    def received(
        self, points: np.ndarray, values: Array, gradients: Array = None, noise_sd: Array = None
    ) -> Evaluations:
        """The `Evaluations` of values that the user computed at points (n, D) that the engine proposed.

        Parameters
        ----------
        values : the values (n,), or (n, o) for a function of several outputs; -inf or NaN where it failed.
        gradients : the gradients (n, P), or (n, o, P); needed where the function has any.
        noise_sd : the standard deviation of the values' noise, (n,) or a number; None if exact.

        Raises
        ------
        ValueError, TypeError
            Shapes disagree, a value is +inf, or gradients are missing.
        """
        return evaluations_received(self, points, values, gradients, noise_sd)
