"""An evaluation of the user's function, from points in the coordinates of an engine to rows of its table.

    points v (n, D)  --coordinates-->  theta (n, P)  --`Call`-->  value, sd?, gradient?, or an exception
                                             --`CallBatch`-->  entered in the ledger, or the run stops
                                             --`rows_of`-->  + log Jacobian, pulled back: `Evaluations`

What a function may return or raise, and how it is treated, is in :mod:`bqvi.calls.faults`. However a batch
ends, the evaluations that had returned are in the ledger; with an executor that has a `map` only, which gives
its results in order, those before the first point that has not returned. A vectorised function that raises a
numerical exception on a batch is called again point by point, so that one bad point does not fail the others.
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, replace
from itertools import compress
from typing import NoReturn

import numpy as np

from bqvi.calls.coordinates import VECTORS, Coordinates
from bqvi.calls.executors import CallsUnderWay, collect
from bqvi.calls.faults import (
    N_NEAR,
    NEVER_MEANT,
    OF_ITS_CODE,
    EvaluationError,
    advice,
    advice_on_points,
    described,
    is_numerical,
    message_of,
    points_near,
    require_slope,
    stops,
)
from bqvi.calls.function import AUTODIFF, LARGEST, UNKNOWN, Function, GradientWithValue
from bqvi.calls.returned import (
    CallResult,
    doubts,
    gradients_of,
    no_tensor,
    no_values,
    noise_at,
    parted,
    reasons_of,
    refused,
    require_logarithm,
    together,
    values_of,
    weighted,
)
from bqvi.calls.run import HERE, Run
from bqvi.calls.table import Budget, Evaluations, Ledger
from bqvi.records import fingerprint
from gp.threads import users_threads
from gp.user_warnings import warn_user_of_each

_NO_GRAPH = (
    "has no gradient in theta: it leaves torch on the way (numpy, .item(), .detach()); write it in torch "
    "throughout, or give gradient=None to use its values only"
)


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
        """Bounds, names, prior and code, by which a log joint is told from another without a call."""
        parts = () if self.coordinates is None else [getattr(self.coordinates, name) for name in VECTORS]
        bounds = fingerprint(tuple(np.asarray(part, float) for part in parts))
        function = self.function
        told = {"names": ", ".join(function.names), "prior": function.range.prior}
        return {"bounds": bounds, "function": function.digest} | told

    def to_user(self, points: np.ndarray) -> np.ndarray:
        """The parameters (n, P) that the function is called with at points (n, D)."""
        return points if self.coordinates is None else self.coordinates.to_user(points)

    def place(self, point: np.ndarray) -> str:
        """The text by which messages name a point (D,)."""
        return self.function.place(self.to_user(point[None])[0])

    def doubts(self, made: Evaluations) -> tuple[str, ...]:
        """Warnings about evaluations of a logarithm: they are those of a density, or in single precision."""
        jacobian = 0.0 if self.coordinates is None else self.coordinates.log_jacobian(made.points)
        return doubts(self.function, made.values - jacobian, self.to_user(made.points))

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
            point is an error of the function, and a log density whose values look like those of a density,
            or are in single precision, is reported.
        watched : whether the derivative of a function of torch that leaves it on the way is compared with
            values near the first point, which count. Engines that keep their evaluations compare these
            (:func:`bqvi.calls.faults.require_consistent`).

        Raises
        ------
        EvaluationError
            The function's code, the system or the executor failed, or the function returned something that is
            not allowed. It holds the rows of this batch that returned; its cause is what was raised.
        """
        budget = Budget() if budget is None else budget
        points = np.asarray(points, float)
        points = points[: budget.room(self.cost * len(points)) // self.cost]
        ledger = Ledger(points.shape[-1]) if ledger is None else ledger
        batch = CallBatch(self, points, self.to_user(points), ledger)
        workers = self.run.executor is not None or self.run.n_jobs > 1
        try:
            if len(points):
                if ledger.outputs is None and self.function.range.beside is not None:
                    require_logarithm(self.function, self.coordinates, batch.theta)
                with users_threads() if workers else ledger.threads():
                    self._call(batch, budget, workers, watched)
        except EvaluationError as error:
            if error.evaluations is None:
                error.evaluations = batch.rows()
            raise
        made = batch.finished(first)
        return self._with_slope(made, ledger, budget) if batch.left_torch else made

    def _call(self, batch: CallBatch, budget: Budget, workers: bool, watched: bool) -> None:
        """Call the function at the points of the batch: at all together, or else at one after the other."""
        call, n = Call(self.function, workers, watched), len(batch.theta)
        if self.function.vectorised and not (workers or self.separately):
            budget.spend(self.cost * n)
            if batch.enter_whole(call(batch.theta)):
                return
            n = budget.room(self.cost * n) // self.cost
        budget.spend(self.cost * n)
        if workers:
            collect(call, batch.theta[:n], self.run, batch.enter)
            return
        for i, theta in enumerate(batch.theta[:n]):
            batch.enter(i, call(theta))

    def begin(self, calls: CallsUnderWay, points: np.ndarray) -> None:
        """Begin the calls at points (n, D), of each point by itself; `enter` takes their results."""
        call = Call(self.function, elsewhere=True)
        for point, theta in zip(points, self.to_user(points), strict=True):
            calls.begin(call, (point, theta), theta)

    def enter(self, ledger: Ledger, place: tuple[np.ndarray, np.ndarray], result: CallResult) -> None:
        """Enter in the ledger the result of a call at a ``place``, a point (D,) and its theta (P,).

        EvaluationError as in `evaluate`.
        """
        point, theta = place
        batch = CallBatch(self, point[None], theta[None], ledger)
        batch.enter(0, result)
        batch.finished(first=False)

    def _with_slope(self, made: Evaluations, ledger: Ledger, budget: Budget) -> Evaluations:
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
        ledger.count(cost)
        if middle.good.all() and around.good.all():
            slope = np.asarray(middle.gradients).reshape(-1, len(step)) @ step
            values = around.values.reshape(len(around), -1).sum(1)
            require_slope(values, slope.sum(), f"the {self.function.range.title}")
        return replace(made, n_evaluations=made.n_evaluations + cost)


@dataclass(frozen=True)
class Call:
    """A call of a function at points (m, P), or at one point (P,); picklable where the function is.

    Exceptions are returned in the result; only BaseExceptions that are no Exception, such as Ctrl-C, are
    raised. ``elsewhere`` is True where results are sent between processes, and exceptions have to be pickled;
    ``watched``, where a function of torch is watched for operations that leave its graph.
    """

    function: Function
    elsewhere: bool = False
    watched: bool = False

    def __call__(self, points: np.ndarray) -> CallResult:
        """The result of the function at ``points``."""
        points = np.atleast_2d(points)
        try:
            result = self._result(points)
        except Exception as error:
            result = no_values(points, error, kept=not isinstance(error, EvaluationError))
        if self.elsewhere and result.error is not None:
            result = replace(result, error=_picklable(result.error))
        return result

    def _result(self, points: np.ndarray) -> CallResult:
        function = self.function
        slopes, graph, tensor, left = None, True, True, False
        if function.gradient == AUTODIFF:
            from bqvi.calls.autodiff import differentiated

            returned, slopes, graph, tensor, left = differentiated(
                function.value, points, function.like, function.vectorised, self.watched
            )
        elif isinstance(function.gradient, GradientWithValue):
            returned, slopes = function.gradient.both(function.given(points))
        else:
            returned = function.value(function.given(points))
        returned, products = parted(function, returned, points)
        values, sds = values_of(function, returned, points)
        if not tensor and np.isfinite(values).any():
            raise no_tensor(function, points)
        if isinstance(function.gradient, GradientWithValue):
            slopes = gradients_of(function, slopes, points, values.shape[1])
        ok = np.ones(len(points), bool)
        found = CallResult(
            values, ~ok, ("",) * len(ok), ok, sds, slopes, graph=graph, left=left, by_products=products
        )
        return found if _plain(function, values, slopes) else _examined(function, points, found)


def _examined(function: Function, points: np.ndarray, found: CallResult) -> CallResult:
    """The result with noise, gradient and factor where these are functions, and with what is wrong."""
    values, sds = found.values, found.sds
    assert values is not None
    part = "noise_sd"
    try:
        if callable(function.noise_sd) and sds is None:
            sds = noise_at(function, points)
        reasons = reasons_of(function, values)
        failed = np.array([bool(reason) for reason in reasons])
        slopes, reasons, error = _slopes(function, points, values, found.gradients, failed, reasons)
        kept = found.kept
        if error is None:
            kept, error = _refusal(function, points, values, reasons)
        part = "log_density"
        if function.log_weight is not None:
            values = weighted(function, values, points)
    except EvaluationError:
        raise
    except Exception as raised:
        return no_values(points, raised, who=part)
    found = replace(found, values=values, sds=sds, gradients=slopes)
    return replace(found, failed=failed, reasons=reasons, kept=kept, error=error)


def _plain(function: Function, values: np.ndarray, slopes: np.ndarray | None) -> bool:
    """Whether all values are finite real numbers: a fast test, which nearly all calls pass."""
    if function.range.non_negative or function.log_weight is not None or callable(function.noise_sd):
        return False
    if callable(function.gradient) and slopes is None:
        return False
    largest = LARGEST if function.range.density else np.inf  # the comparison is false for NaN
    return all(x is None or bool((np.abs(x) < largest).all()) for x in (values, slopes))


def _slopes(
    function: Function,
    points: np.ndarray,
    values: np.ndarray,
    slopes: np.ndarray | None,
    failed: np.ndarray,
    reasons: tuple[str, ...],
) -> tuple[np.ndarray | None, tuple[str, ...], Exception | None]:
    """The gradients, NaN where they fail, with the reasons, and what raised; none where no value is usable.

    ``slopes`` are those that came with the values (m, o), or None.
    """
    if function.gradient is None:
        return None, reasons, None
    if slopes is None:
        assert callable(function.gradient)  # otherwise slopes came with the values
        missing = np.full((*values.shape, points.shape[1]), np.nan)
        if np.all(failed):
            return missing, reasons, None
        try:
            returned = function.gradient(function.given(points))
        except Exception as error:
            reason = f"the gradient {described(error)}"
            return missing, tuple(known or reason for known in reasons), error
        slopes = gradients_of(function, returned, points, values.shape[1])
    fine = (np.abs(slopes) < (LARGEST if function.range.density else np.inf)).all(axis=(1, 2))
    pairs = zip(reasons, fine, strict=True)
    reasons = tuple(known or ("" if good else "the gradient is not finite") for known, good in pairs)
    return np.where(fine[:, None, None], slopes, np.nan), reasons, None


def _refusal(
    function: Function, points: np.ndarray, values: np.ndarray, reasons: tuple[str, ...]
) -> tuple[np.ndarray, EvaluationError | None]:
    """Which rows (m,) are evaluations, and the error about the first that is not allowed, or None."""
    bad, what, must = refused(function, values)
    kept = ~bad
    # The error is about the gradient; the values count as evaluations.
    if not bad.any() and function.errors == "raise":
        bad = np.array([bool(reason) for reason in reasons])
        what, must = "the gradient is not finite", "it has to be" + function.range.everywhere
    if not bad.any():
        return kept, None
    first = int(np.argmax(bad))
    large = function.range.density and bool((values[first] >= LARGEST).any())
    message = f"{what} at {function.place(points[first])}: {must}"
    return kept, EvaluationError(message, points[first], no_value=bool(reasons[first]) and not large)


def _picklable(error: Exception) -> Exception:
    """The error with its traceback as a note; a built-in exception in its place if it cannot be pickled."""
    note = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        kind = next(base for base in type(error).__mro__ if base.__module__ == "builtins")
        error = kind(f"{type(error).__name__}: {message_of(error)}")
    error.add_note(note)
    return error


class CallBatch:
    """The results so far at a batch of points (n, D), which are theta (n, P) in the user's units."""

    def __init__(self, caller: Caller, points: np.ndarray, theta: np.ndarray, ledger: Ledger) -> None:
        self.theta, self.left_torch = theta, False
        """The points, and whether an operation of the function left torch's graph."""
        self._caller, self._function = caller, caller.function
        self._points, self._ledger = points, ledger
        self._results: dict[int, CallResult] = {}
        """The results by the index of their first point. Each is entered in one assignment, so that at an
        interrupt it is there with its row and its count, or not at all."""
        self._called_in_vain = self._without_value = 0
        self._failure: CallResult | None = None
        ledger.begin(self._returned)

    def enter_whole(self, result: CallResult) -> bool:
        """Enter the result at all points together; False if each point has to be evaluated by itself."""
        if len(self._points) > 1 and result.error is not None and not self._stops(result.error):
            self._called_in_vain = len(self._points)
            return False
        self.enter(0, result)
        return True

    def enter(self, index: int, result: CallResult) -> None:
        """Enter the result at the points from this index on, and stop the run where the policy says so."""
        error, points = result.error, self.theta[index : index + len(result.failed)]
        self.left_torch |= result.left
        if result.values is not None:
            outputs = result.values.shape[1]
            if (self._ledger.outputs or outputs) != outputs:
                wrong = EvaluationError(
                    f"the {self._function.range.title} returned {outputs} numbers at "
                    f"{self._function.place(points[0])}, and {self._ledger.outputs} elsewhere; it must "
                    "return as many everywhere",
                    points[0],
                )
                self._results[index] = no_values(points, wrong, kept=False)
                wrong.evaluations = self.rows()
                raise wrong
            self._ledger.outputs = outputs
        fatal = error is not None and self._stops(error)
        # a value without its gradient is an evaluation; a call that stops the run by an exception is none
        dropped = fatal and result.values is None
        self._without_value += len(points) * (result.values is None)
        self._results[index] = replace(result, kept=np.zeros_like(result.kept)) if dropped else result
        self._ledger.returned()
        if isinstance(error, EvaluationError):
            error.evaluations = self.rows()
            raise error
        if error is not None and fatal:
            self._stop(error, result, points)
        if error is not None and self._failure is None:
            self._failure = result

    def _stops(self, error: Exception) -> bool:
        return isinstance(error, EvaluationError) or stops(error, self._function.errors)

    def _stop(self, error: Exception, result: CallResult, points: np.ndarray) -> NoReturn:
        value = result.who or f"the {self._function.range.title}"
        who = value if result.values is None else "the gradient"
        message = f"{who} {described(error)}, at {self._function.places(points)}{self._advice(error)}"
        everywhere = self._function.range.everywhere
        if everywhere:
            message += everywhere if is_numerical(error) else OF_ITS_CODE
        elif self._function.errors == "numerical":
            message += OF_ITS_CODE
            if not isinstance(error, NEVER_MEANT) and self._ledger.outputs is not None:
                message += ', or give bqvi.Run(errors="infeasible") to go on without such points'
        point = points[0] if len(points) == 1 else None
        raise EvaluationError(message, point, self.rows()) from error

    def _advice(self, error: Exception) -> str:
        """Advice on an error of the user's function; "" where there is none."""
        found = advice(error, self._function.gradient)
        of_points = self._function.model is None and self._ledger.outputs is None
        on_points = advice_on_points(error, self._function.vectorised) if of_points else ""
        if isinstance(error, IndexError) and (self._function.vectorised or not on_points):
            found += f"; theta has {self.theta.shape[1]} entries a point"
        return found or on_points

    def finished(self, first: bool) -> Evaluations:
        """All rows, entered in the ledger; see `Caller.evaluate`."""
        (_, result), made, function = self._whole(), self.rows(), self._function
        if _left_torch(result).any():
            raise EvaluationError(f"the {function.range.title} {_NO_GRAPH}", evaluations=made)
        if first and self._failure is not None and self._without_value == len(made):
            error = self._failure.error
            assert error is not None  # a failure has an error
            who = self._failure.who or f"the {function.range.title}"
            reason = f"{described(error)}, and raised at each of the {len(made)} first points"
            raise EvaluationError(
                f"{who} {reason}, of which one is {function.place(self.theta[0])}"
                f"{self._advice(error)}. Start where it is finite, or correct it",
                evaluations=made,
            ) from error
        if first and function.range.density and len(made) and not self._without_value:
            warn_user_of_each(self._caller.doubts(made))
        self._ledger.end(made)
        return made

    def _returned(self) -> Evaluations:
        """As `rows`, without counting the call that stops the run, which has returned no evaluation."""
        found, (_, result) = self.rows(), self._whole()
        dropped = int(np.count_nonzero(~result.kept))
        return replace(found, n_evaluations=found.n_evaluations - self._caller.cost * dropped)

    def _whole(self) -> tuple[np.ndarray, CallResult]:
        """The indices of the points (n,) that have been called, and the results there as one."""
        parts = sorted(self._results.items())
        spans = (np.arange(index, index + len(part.failed)) for index, part in parts)
        whole = together([part for _, part in parts], self._ledger.outputs or 1, self.theta.shape[1])
        at = np.concatenate([np.zeros(0, int), *spans])
        if self._ledger.outputs is not None and len(at) and at[-1] + 1 == len(at):
            self._results = {0: whole}  # for the next time
        return at, whole

    def rows(self) -> Evaluations:
        """The evaluations so far, in the order of the points, without a result that stops the run."""
        at, result = self._whole()
        left = _left_torch(result)
        if left.any():
            assert result.gradients is not None  # by torch
            result = replace(result, gradients=np.where(left[:, None, None], np.nan, result.gradients))
        with_gradients = self._function.gradient is not None
        found = rows_of(self._caller, self._points[at], self.theta[at], result, with_gradients)
        return replace(found, n_evaluations=self._caller.cost * (self._called_in_vain + len(at)))


def _left_torch(result: CallResult) -> np.ndarray:
    """Which rows (n,) have no graph although values differ, so that they must depend on theta.

    A constant, whose gradient is zero, is allowed.
    """
    none = np.zeros(len(result.failed), bool)
    if np.all(result.graph):
        return none
    assert result.values is not None  # by `together`
    found: np.ndarray = ~np.broadcast_to(result.graph, none.shape) & np.isfinite(result.values).all(axis=1)
    differ = found.any() and (np.ptp(result.values[found], axis=0) > 0.0).any()
    return found if differ else none


def rows_of(
    caller: Caller, points: np.ndarray, theta: np.ndarray, result: CallResult, with_gradients: bool
) -> Evaluations:
    """The evaluations of a result at points (n, D), which are theta (n, P), in the coordinates.

    Rows of the result that are not kept are none. ``with_gradients`` is whether there are gradients, NaN in
    rows without one.
    """
    function, kept = caller.function, slice(None) if result.kept.all() else result.kept
    points, theta, failed = points[kept], theta[kept], result.failed[kept]
    n, sds, slopes = len(points), result.sds, result.gradients
    products = tuple(compress(result.by_products, result.kept))
    assert result.values is not None  # by `together`
    values = np.where(failed[:, None], function.range.missing, result.values[kept])
    if not with_gradients:
        slopes = None
    elif slopes is None:
        slopes = np.full((*values.shape, theta.shape[1]), np.nan)
    else:
        slopes = np.where(failed[:, None, None], np.nan, slopes[kept])
    if caller.coordinates is not None and n:
        values, slopes = _pulled(caller.coordinates, points, values, slopes, function.range.density)
    if not function.range.outputs:
        values = values[:, 0]
        slopes = None if slopes is None else slopes.reshape(n, points.shape[1])
    if isinstance(function.noise_sd, float):
        sds = np.full(len(result.failed), np.nan) if sds is None else sds
        sds = np.where(np.isnan(sds), function.noise_sd, sds)
    return Evaluations(
        points,
        values,
        slopes,
        None if sds is None else np.where(failed, np.nan, sds[kept] ** 2),
        failed,
        tuple(compress(result.reasons, result.kept)),
        by_products=products if any(one is not None for one in products) else (),
        gradient_noise_variance=_gradient_noise(caller, points, theta) if with_gradients else None,
    )


def _pulled(
    coordinates: Coordinates, points: np.ndarray, values: np.ndarray, slopes: np.ndarray | None, density: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Values (n, o) and gradients (n, o, D) in the coordinates, with the log Jacobian for a log density."""
    if slopes is not None:
        pulled = [coordinates.pull_gradients(points, slopes[:, o]) for o in range(values.shape[1])]
        slopes = np.stack(pulled, axis=1)
    if not density:
        return values, slopes
    if slopes is not None:
        slopes = slopes + coordinates.log_jacobian_gradient(points)[:, None, :]
    return values + coordinates.log_jacobian(points)[:, None], slopes


def _gradient_noise(caller: Caller, points: np.ndarray, theta: np.ndarray) -> np.ndarray | None:
    """The noise variance of the rows' gradients, (n, D): each coordinate depends on one parameter."""
    if caller.function.gradient_noise_sd is None:
        return None
    sds = np.broadcast_to(caller.function.gradient_noise_sd, theta.shape)
    if caller.coordinates is not None and len(sds):
        sds = caller.coordinates.pull_gradients(points, sds)
    return np.square(sds)
