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

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls.account import Budget, Ledger
from bqvi.calls.assembly import CallBatch
from bqvi.calls.call import Call, CallResult, noise_at, weighted
from bqvi.calls.coordinates import VECTORS, Coordinates
from bqvi.calls.evaluations import Evaluations
from bqvi.calls.executors import collect
from bqvi.calls.faults import EvaluationError
from bqvi.calls.function import LARGEST, UNKNOWN, Function
from bqvi.calls.gradient_check import N_NEAR, points_near, require_slope
from bqvi.calls.returned import reasons_of, refused
from bqvi.calls.run import HERE, Run
from bqvi.records import fingerprint
from gp.arrays import Array
from gp.checks import require_numbers
from gp.threads import CallThreads, users_threads


@dataclass(frozen=True, eq=False)
class Caller:
    """A function, the coordinates in which an engine calls it, and how the calls are made.

    Attributes
    ----------
    function : the user's function.
    coordinates : the bounds and coordinates of its parameters, with which a log density has the log Jacobian
        added; None where points are passed to the function as they are.
    run : the executor, or the number of joblib's processes, that evaluates a batch point by point.
    cost : the number of evaluations that one point counts for: 1, or N for a sum over N data.
    separately : whether a vectorised function is called at one point at a time, since a batch at which it
        raises counts twice.
    """

    function: Function
    coordinates: Coordinates | None = None
    run: Run = HERE
    cost: int = 1
    separately: bool = False

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

    @property
    def identity(self) -> dict[str, str]:
        """Bounds, names and prior, by which a log joint is told from another without a call."""
        parts = () if self.coordinates is None else [getattr(self.coordinates, name) for name in VECTORS]
        bounds = fingerprint(tuple(np.asarray(part, float) for part in parts))
        function = self.function
        return {"bounds": bounds, "names": ", ".join(function.names), "prior": function.range.prior}

    def to_user(self, points: np.ndarray) -> np.ndarray:
        """The parameters (n, P) that the function is called with at points (n, D)."""
        return points if self.coordinates is None else self.coordinates.to_user(points)

    def evaluate(
        self,
        points: np.ndarray,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        first: bool = False,
        watched: bool = False,
    ) -> Evaluations:
        """Evaluate at the points (n, D), or at the first of them that the budget allows.

        Parameters
        ----------
        ledger : the ledger in which each evaluation is entered as it returns.
        budget : the budget that is checked before each call.
        first : whether no evaluation has succeeded before: then a function that raises at every
            point is an error of the function, and a log density whose values look like those of a density
            is reported.
        watched : whether the derivative of a function of torch that leaves it on the way is compared with
            values near the first point, which count. Engines that keep their evaluations compare these
            (:func:`bqvi.calls.gradient_check.require_consistent`).

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
                self._called(batch, budget, watched)
        except EvaluationError as error:
            if error.evaluations is None:
                error.evaluations = batch.rows()
            raise
        made = batch.finished(first)
        return self._with_slope(made, ledger, budget) if batch.left_torch else made

    def _with_slope(self, made: Evaluations, ledger: Ledger | None, budget: Budget) -> Evaluations:
        """The evaluations, once a gradient near one of them has been compared with values; both count."""
        from bqvi.calls.autodiff import values_only

        exact = made.good if made.noise_variance is None else np.zeros(len(made), bool)
        cost = self.cost * N_NEAR
        if not exact.any() or budget.room(cost) < cost:
            return made
        points, step = points_near(made.points[exact][0])
        one = replace(self, run=HERE)
        middle = one.evaluate(points[:1], None, budget)
        around = replace(one, function=values_only(self.function)).evaluate(points[1:], None, budget)
        if ledger is not None:
            ledger.count(cost)
        if middle.good.all() and around.good.all():
            slope = np.asarray(middle.gradients).reshape(-1, len(step)) @ step
            values = around.values.reshape(len(around), -1).sum(1)
            require_slope(values, slope.sum(), f"the {self.function.range.title}")
        return replace(made, n_evaluations=made.n_evaluations + cost)

    def _called(self, batch: CallBatch, budget: Budget, watched: bool) -> None:
        workers = self.run.executor is not None or self.run.n_jobs > 1
        threads = CallThreads() if batch.ledger is None else batch.ledger.threads
        with users_threads() if workers else threads():
            self._in_threads(batch, budget, watched, workers)

    def _in_threads(self, batch: CallBatch, budget: Budget, watched: bool, workers: bool) -> None:
        n = len(batch.theta)
        if self.function.vectorised and not (workers or self.separately):
            budget.spend(self.cost * n)
            if batch.enter_whole(Call(self.function, watched=watched)(batch.theta)):
                return
            n = budget.room(self.cost * n) // self.cost
        budget.spend(self.cost * n)
        collect(Call(self.function, workers, watched), batch.theta[:n], self.run, batch.enter)

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
        """
        theta, values = np.atleast_2d(np.asarray(theta, float)), np.atleast_1d(np.asarray(values, float))
        if values.shape != (len(theta),):
            raise ValueError(
                f"values has shape {values.shape}; it must be ({len(theta)},), one for each theta"
            )
        if (values == np.inf).any():
            raise ValueError(f"values is inf in row {int(np.argmax(values))}; a log density is below inf")
        points = theta if self.coordinates is None else self.coordinates.from_user(theta)
        slopes = None if gradients is None else np.asarray(gradients, float)
        if slopes is not None and slopes.shape != theta.shape:
            raise ValueError(
                f"gradients has shape {slopes.shape}; it must be {theta.shape}, or None where there are none"
            )
        return self._rows(points, theta, values, slopes, self._sds_at(theta, values, noise_sd))

    def received(
        self, points: np.ndarray, values: Array, gradients: Array = None, noise_sd: Array = None
    ) -> Evaluations:
        """The `Evaluations` of values that the user computed at points (n, D) that the engine proposed.

        Parameters
        ----------
        values : the values (n,), or (n, o) for a function of several outputs; -inf or NaN where it failed.
        gradients : the gradients (n, P), or (n, o, P); needed where the function has any.
        noise_sd : the standard deviation of the values' noise, (n,) or a number; by default the function's.
        """
        function, n, values = self.function, len(points), np.atleast_1d(require_numbers("values", values))
        if len(values) != n or values.ndim > 1 + function.range.outputs:
            raise ValueError(f"values has shape {values.shape}; it must be ({n},), one for each theta")
        theta = self.to_user(points)
        bad, what, must = refused(function, values.reshape(n, -1))
        if bad.any():
            raise ValueError(f"values, row {int(np.argmax(bad))}: {what}; {must}")
        if (gradients is None) != (function.gradient is None):
            raise ValueError(
                "gradients is None, and the function has gradients: give them too"
                if gradients is None
                else "gradients was given, and the run was begun without a gradient"
            )
        slopes = None if gradients is None else np.asarray(require_numbers("gradients", gradients))
        if slopes is not None and slopes.shape not in (theta.shape, (*values.shape, theta.shape[1])):
            raise ValueError(
                f"gradients has shape {slopes.shape}; it must be {(*values.shape, theta.shape[1])}"
            )
        made = self._rows(points, theta, values, slopes, self._sds_at(theta, values, noise_sd), "told")
        if function.errors == "raise" and not made.good.all():
            raise ValueError(f"values or gradients, row {int(np.argmin(made.good))}: one is not finite")
        if function.log_weight is None:
            return made
        return replace(made, values=weighted(function, made.values, theta))

    def _sds_at(self, theta: np.ndarray, values: np.ndarray, noise_sd: Array) -> np.ndarray | None:
        """The noise sds (n,) given, or else by the function of theta (n, P), NaN where there is no value."""
        function, n = self.function, len(theta)
        if noise_sd is not None or not callable(function.noise_sd):
            return _sds(noise_sd, n)
        sds, finite = np.full(n, np.nan), np.isfinite(values).reshape(n, -1).all(axis=1)
        rows = np.flatnonzero(finite)
        for some in [rows] if function.vectorised else rows[:, None]:
            sds[some] = noise_at(function, theta[some])
        return sds

    def _rows(
        self,
        points: np.ndarray,
        theta: np.ndarray,
        values: np.ndarray,
        slopes: np.ndarray | None,
        sds: np.ndarray | None,
        how: str = "given",
    ) -> Evaluations:
        """The evaluations of values (n,) or (n, o), with the reasons of those without one.

        ``how`` says in these reasons how a value came.
        """
        values = values.reshape(len(values), -1)
        reasons = np.array(
            [one.replace("returned", f"was {how} as") for one in reasons_of(self.function, values)]
        )
        failed = reasons != ""
        if slopes is not None:
            slopes = slopes.reshape(len(values), values.shape[1], theta.shape[1])
            fine = (np.abs(slopes) < LARGEST).all(axis=(1, 2))
            reasons = np.where((reasons == "") & ~fine, "the gradient is not finite", reasons)
            slopes = np.where(fine[:, None, None], slopes, np.nan)
        with_gradients = slopes is not None
        batch = CallBatch(self.function, self.coordinates, points, theta, with_gradients=with_gradients)
        batch.enter_whole(CallResult(values, sds, slopes, failed, tuple(reasons.tolist())))
        return batch.rows()


def evaluation_arrays(evaluations: object) -> tuple[np.ndarray | None, ...] | None:
    """The arrays of the argument ``evaluations``: theta and values, then gradients and noise sds if any."""
    if evaluations is None:
        return None
    if not isinstance(evaluations, tuple | list) or not 2 <= len(evaluations) <= 4:
        what = type(evaluations).__name__
        if isinstance(evaluations, tuple | list):
            what += f" of {len(evaluations)}"
        raise TypeError(
            f"evaluations is a {what}; it must be (theta (n, P), values (n,)), then gradients (n, P), or "
            "None, and noise sds (n,), if any"
        )
    titles = ("theta", "values", "gradients", "noise_sd")
    found = tuple(
        None if x is None else require_numbers(f"evaluations' {title}", x)
        for title, x in zip(titles, evaluations, strict=False)
    )
    if found[0] is not None:
        _require_points(found[0])
    return found


def _require_points(theta: np.ndarray) -> None:
    """ValueError where there are none, or one is not finite."""
    if not theta.size:
        raise ValueError(f"evaluations has no points: theta has shape {theta.shape}; leave evaluations out")
    rows = np.atleast_2d(theta)
    bad = ~np.isfinite(rows).all(axis=-1)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"evaluations' theta[{at}] is {rows[at].tolist()}; it must be finite")


def _sds(noise_sd: Array, n: int) -> np.ndarray | None:
    if noise_sd is None:
        return None
    sds = np.asarray(noise_sd, float)
    if sds.shape not in ((), (n,)):
        raise ValueError(f"noise_sd has shape {sds.shape}; it must be a number or {(n,)}")
    if not (sds > 0.0).all():
        raise ValueError("noise_sd has entries that are not positive; give None where there is no noise")
    return np.broadcast_to(sds, (n,))
