"""The results of one batch, collected as they return, and converted into rows when rows are requested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from bqvi.calls.account import Ledger
from bqvi.calls.call import CallResult
from bqvi.calls.coordinates import Coordinates
from bqvi.calls.evaluations import Evaluations, Products
from bqvi.calls.faults import (
    OF_ITS_CODE,
    EvaluationError,
    advice,
    advice_on_points,
    described,
    is_numerical,
    may_be_meant,
    stops,
)
from bqvi.calls.function import Function
from bqvi.calls.returned import not_logarithms
from gp.user_warnings import warn_user

_NO_GRAPH = (
    "has no gradient in theta: it leaves torch on the way (numpy, .item(), .detach()); write it in torch "
    "throughout, or give gradient=None to use its values only"
)

_NOT_CALLED, _KEPT, _DROPPED = range(3)
"""The state of a point: no result yet, an evaluation, or a result without evaluation, which ends the run."""


class CallBatch:
    """The results so far at a batch of points (n, D), which are theta (n, P) in the user's units."""

    def __init__(
        self,
        function: Function,
        coordinates: Coordinates | None,
        points: np.ndarray,
        theta: np.ndarray,
        ledger: Ledger | None = None,
        with_gradients: bool | None = None,
        cost: int = 1,
    ) -> None:
        self.function, self.coordinates = function, coordinates
        self.points, self.theta, self.ledger = points, theta, ledger
        self._with_gradients = function.gradient is not None if with_gradients is None else with_gradients
        n = len(points)
        self._values: np.ndarray | None = None
        self._gradients: np.ndarray | None = None
        self._sds: np.ndarray | None = None
        self._reasons = np.full(n, "", dtype=object)
        self._by_products: list[Any] = [None] * n
        self._failed, self._raised, self._no_graph = np.zeros((3, n), bool)
        self._point_state = np.full(n, _NOT_CALLED)
        """The state of each point. It is written last and in one assignment, so that at an interrupt a
        result is there with its row and its count, or not at all."""
        self._called_in_vain, self._cost = 0, cost
        self.left_torch = False
        """Whether an operation of the function left torch's graph."""
        self._failure: CallResult | None = None
        if ledger is not None:
            ledger.begin(self.returned)

    def enter_whole(self, result: CallResult) -> bool:
        """Enter the result at all points together; False if each point has to be evaluated by itself."""
        n, error = len(self.points), result.error
        if n > 1 and error is not None and not self._stops(error):
            self._called_in_vain = n
            return False
        self._store(slice(0, n), result)
        self._judge(result, self.theta)
        return True

    def enter(self, index: int, result: CallResult) -> None:
        """Enter the result at the point of this index."""
        self._store(slice(index, index + 1), result)
        self._judge(result, self.theta[index][None])

    def _store(self, at: slice, result: CallResult) -> None:
        self.left_torch |= result.left
        if not result.raised:
            n, outputs = len(self.points), result.values.shape[1]
            if (self._outputs or outputs) != outputs:
                self._point_state[at] = _DROPPED
                raise EvaluationError(
                    f"the {self.function.range.title} returned {outputs} numbers at "
                    f"{self.function.place(self.theta[at.start])}, and {self._outputs} elsewhere; it "
                    "must return as many everywhere",
                    self.theta[at.start],
                    self.rows(),
                )
            if self.ledger is not None:
                self.ledger.outputs = outputs
            self._values = _with_part(self._values, n, at, result.values)
            self._gradients = _with_part(self._gradients, n, at, result.gradients)
            self._sds = _with_part(self._sds, n, at, result.sds)
        for i, products in enumerate(result.by_products, at.start):
            self._by_products[i] = products
        self._failed[at], self._raised[at] = result.failed, result.raised
        self._no_graph[at], self._reasons[at] = not result.graph, result.reasons
        self._point_state[at] = np.where(result.kept & self._is_kept(result), _KEPT, _DROPPED)

    def _is_kept(self, result: CallResult) -> bool:
        """Whether a result with an error still is an evaluation, as a value without its gradient is."""
        error = result.error
        return not result.raised or isinstance(error, EvaluationError) or not self._stops(error)

    def _stops(self, error: Exception | None) -> bool:
        return isinstance(error, EvaluationError) or (
            error is not None and stops(error, self.function.errors)
        )

    def _judge(self, result: CallResult, points: np.ndarray) -> None:
        """Enter the result in the ledger, and stop the run where the policy on errors says so."""
        if self.ledger is not None:
            self.ledger.returned()
        error = result.error
        if isinstance(error, EvaluationError):
            error.evaluations = self.rows()
            raise error
        if error is not None and self._stops(error):
            self._stop(error, result, points)
        if error is not None and self._failure is None:
            self._failure = result

    def _stop(self, error: Exception, result: CallResult, points: np.ndarray) -> NoReturn:
        who = self._who(result) if result.raised else "the gradient"
        message = f"{who} {described(error)}, at {self.function.places(points)}"
        message += self._advice(error)
        everywhere = self.function.range.everywhere
        if everywhere:
            message += everywhere if is_numerical(error) else OF_ITS_CODE
        elif self.function.errors == "numerical":
            message += OF_ITS_CODE
            if may_be_meant(error) and self._outputs is not None:
                message += ', or give bqvi.Run(errors="infeasible") to go on without such points'
        point = points[0] if len(points) == 1 else None
        raise EvaluationError(message, point, self.rows()) from error

    def _advice(self, error: Exception) -> str:
        """Advice on an error of the user's function; "" where there is none."""
        found = advice(error, self.function.gradient)
        of_points = self.function.model is None and self._outputs is None
        on_points = advice_on_points(error, self.function.vectorised) if of_points else ""
        if isinstance(error, IndexError) and (self.function.vectorised or not on_points):
            found += f"; theta has {self.theta.shape[1]} entries a point"
        return found or on_points

    def _who(self, result: CallResult) -> str:
        """The name of the function whose exception left no value."""
        return result.who or f"the {self.function.range.title}"

    def finished(self, first: bool) -> Evaluations:
        """All rows, entered in the ledger; see `Caller.evaluate`."""
        made, title = self.rows(), self.function.range.title
        if np.count_nonzero(self._left_torch()):
            raise EvaluationError(f"the {title} {_NO_GRAPH}", evaluations=made)
        if first and self._failure is not None and self._raised[self._kept].all():
            error = self._failure.error
            assert error is not None  # a failure has an error
            reason = f"{described(error)}, and raised at each of the {len(made)} first points"
            raise EvaluationError(
                f"{self._who(self._failure)} {reason}, of which one is {self.function.place(self.theta[0])}"
                f"{self._advice(error)}. Start where it is finite, or correct it",
                evaluations=made,
            ) from error
        if first and self.function.range.density and self._values is not None:
            kept = self._kept
            message = not_logarithms(self._values[kept, 0], self.function.range, self.theta[kept])
            if message:
                warn_user(message)
        if self.ledger is not None:
            self.ledger.end(made)
        return made

    def _left_torch(self) -> np.ndarray:
        """Which rows (n,) have no graph although values differ, so that they must depend on theta.

        A constant, whose gradient is zero, is allowed.
        """
        if self._values is None or not np.count_nonzero(self._no_graph):
            return np.zeros(len(self.points), bool)
        found: np.ndarray = self._no_graph & np.isfinite(self._values).all(axis=1)
        values = self._values[found]
        if not found.any() or not (np.ptp(values, axis=0) > 0.0).any():
            found[:] = False
        return found

    def returned(self) -> Evaluations:
        """As `rows`, without counting the call that stops the run, which has returned no evaluation."""
        found = self.rows()
        dropped = int((self._point_state == _DROPPED).sum())
        return replace(found, n_evaluations=found.n_evaluations - self._cost * dropped)

    @property
    def _outputs(self) -> int | None:
        """The number of values that the function returns at a point, in this batch or an earlier one."""
        if self._values is not None:
            return int(self._values.shape[1])
        return None if self.ledger is None else self.ledger.outputs

    @property
    def _kept(self) -> np.ndarray:
        """Which points have an evaluation, good or infeasible, (n,) bool."""
        return self._point_state == _KEPT

    def rows(self) -> Evaluations:
        """The evaluations so far, in the order of the points, without a result that stops the run."""
        width, states = self.points.shape[1], self._point_state.copy()
        at, called = states == _KEPT, int(np.count_nonzero(states != _NOT_CALLED)) + self._called_in_vain
        n = int(np.count_nonzero(at))
        kept = at if n < len(self.points) else slice(None)
        values = np.full((n, self._outputs or 1), np.nan) if self._values is None else self._values[kept]
        failed = self._failed[kept]
        if np.count_nonzero(failed):
            values = np.where(failed[:, None], self.function.range.missing, values)
        gradients = self._gradients_of_rows(kept) if self._with_gradients else None
        products: Products = tuple(self._by_products[i] for i in np.arange(len(self.points))[kept])
        if self.coordinates is not None and self.function.range.density and n:
            values = values + self.coordinates.log_jacobian(self.points[kept])[:, None]
        if not self.function.range.outputs:
            values = values[:, 0]
            gradients = None if gradients is None else gradients.reshape(n, width)
        return Evaluations(
            self.points[kept],
            values,
            gradients,
            self._noise_of_rows(kept, failed),
            failed,
            tuple(self._reasons[kept]),
            n_evaluations=self._cost * called,
            by_products=products if any(one is not None for one in products) else (),
            gradient_noise_variance=self._gradient_noise(kept),
        )

    def _gradients_of_rows(self, kept: np.ndarray | slice) -> np.ndarray:
        outputs = self._outputs or 1
        found = self._gradients
        if found is None:
            found = np.full((len(self.points), outputs, self.theta.shape[1]), np.nan)
        without = self._left_torch() | self._failed
        if np.count_nonzero(without):
            found = np.where(without[:, None, None], np.nan, found)
        rows: np.ndarray = found[kept]
        if self.coordinates is None or not len(rows):
            return rows
        points = self.points[kept]
        pulled = [self.coordinates.pull_gradients(points, rows[:, o]) for o in range(outputs)]
        slopes: np.ndarray = np.stack(pulled, axis=1)
        if self.function.range.density:
            slopes = slopes + self.coordinates.log_jacobian_gradient(points)[:, None, :]
        return slopes

    def _gradient_noise(self, kept: np.ndarray | slice) -> np.ndarray | None:
        """The noise variance of the rows' gradients, (n, D): each coordinate depends on one parameter."""
        if self.function.gradient_noise_sd is None or not self._with_gradients:
            return None
        sds = np.broadcast_to(self.function.gradient_noise_sd, self.theta[kept].shape)
        if self.coordinates is not None and len(sds):
            sds = self.coordinates.pull_gradients(self.points[kept], sds)
        return np.square(sds)

    def _noise_of_rows(self, kept: np.ndarray | slice, failed: np.ndarray) -> np.ndarray | None:
        sds, known = self._sds, self.function.noise_sd
        if isinstance(known, float):
            sds = np.full(len(self.points), known) if sds is None else np.where(np.isnan(sds), known, sds)
        return None if sds is None else np.where(failed, np.nan, sds[kept] ** 2)


def _with_part(array: np.ndarray | None, n: int, at: slice, part: np.ndarray | None) -> np.ndarray | None:
    """The ``array`` of n rows, NaN at first, with ``part`` written at some of them; None for neither."""
    if part is not None and len(part) == n:
        return part.copy()
    if part is not None:
        array = np.full((n, *part.shape[1:]), np.nan) if array is None else array
        array[at] = part
    return array
