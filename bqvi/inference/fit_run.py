"""A fit as a run: the engine of :mod:`loop`, whose last step is the closing record.

A fit may return points to evaluate and take their values in any order (`bqvi.runs.Steps`):

    told --beginning--> next points | q       one after the other (`beginning`), before the first step
    told --estimator--> gradient --> q        once the new values suffice for a step, or no point is pending
    q, memory --process | pending, told--> next points

Points without values, and values that no step has used yet, condition the variances of the process and not
its mean. It is then determined by the seed and by the order in which values return between proposals.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from bqvi.arrays import like
from bqvi.calls import (
    Account,
    AsksError,
    Budget,
    Caller,
    Evaluations,
    Function,
    Ledger,
    StepEvaluations,
    Told,
    Unfinished,
)
from bqvi.calls.faults import gradient_warnings, require_consistent
from bqvi.calls.function import AUTODIFF
from bqvi.calls.table import matched, nothing_above, rows_of
from bqvi.families import GaussianMixture
from bqvi.gradients import BayesianQuadrature, RememberingEstimator
from bqvi.gradients.evaluations import caller_of, differentiable, is_as_stated
from bqvi.gradients.gradient import Anchor
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.inference.beginning import begun, why_singular
from bqvi.inference.choices import identity
from bqvi.inference.convergence import Settled, evaluations_for, is_test_due, judged, tested, tried
from bqvi.inference.loop import Records, closed, has_settled, reopened, step, with_evaluations
from bqvi.inference.result import Fit
from bqvi.inference.settings import BEGINNING, GAIN
from bqvi.inference.state import LoopProblem, LoopState, TraceRow, is_of_one_function, with_unused
from bqvi.inference.steps import Constant, Geometry
from bqvi.models.contracts import is_conjugate
from bqvi.models.data import n_rows
from bqvi.models.log_joint import LogJoint, is_moving
from bqvi.records import classes_in, named
from bqvi.runs import Checkpoint, RunStatus, Trace
from gp.user_warnings import warn_user_of_each

DOOR = "fit"
_IN_TORCH = Function(len, AUTODIFF)
"""What is checked of the log joint of a model with data: a log density with derivatives by torch."""


@dataclass(frozen=True)
class Saved:
    """A `LoopState` as a file has it: q by its coordinates."""

    coordinates: tuple[Any, ...]
    parts: Mapping[str, Any]


_PARTS = tuple(_part.name for _part in fields(LoopState) if _part.name != "q")


def saved(geometry: Geometry, state: LoopState) -> Saved:
    """The state as a file has it."""
    return Saved(tuple(geometry.coordinates(state.q)), {name: getattr(state, name) for name in _PARTS})


def with_raised_warnings(fit: Fit) -> Fit:
    """Raise the warnings of the run, and return its fit."""
    warn_user_of_each(fit.warnings_of_the_run)
    return fit


class FitRun:
    """The engine of a fit (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    problem, records : the problem, and its records. family : of q, by name.
    first : the state before the first step.
    ledger : the ledger of evaluations; a new one by default.
    """

    def __init__(
        self,
        problem: LoopProblem,
        records: Records,
        family: str,
        first: LoopState,
        ledger: Ledger | None = None,
    ) -> None:
        self.problem, self.records, self.family, self.first = problem, records, family, first
        self.ledger = Ledger(getattr(first.q, "dimension", 1)) if ledger is None else ledger
        self._numbers: Any = None
        """The state of the random numbers before the step under way."""
        self._asked_at: float | None = None
        """The time of `time.perf_counter` at which points were last asked for."""
        self._until = math.inf
        """The time of it at which the step under way ends, if it can."""

    @cached_property
    # kept here, as a protocol's check at each step takes as long as a small gradient
    def small(self) -> bool:
        return isinstance(self.problem.estimator, RememberingEstimator)

    @cached_property
    def settings(self) -> dict[str, str | bool]:
        """The choices in words, by which a run that is resumed is compared."""
        return identity(self.problem, self.family)

    def within(self, budget: int | None) -> FitRun:
        """Return the run with another budget."""
        records = replace(self.records, stop=replace(self.records.stop, budget=budget))
        return FitRun(self.problem, records, self.family, self.first, self.ledger)

    def init(self) -> LoopState:
        return self.first

    def resumed(self, before: Checkpoint) -> LoopState:
        """A state of an earlier run, or of its file."""
        geometry, state = self.problem.geometry, before.state
        needed = geometry.coordinates(self.first.q)
        if isinstance(state, Saved):
            _require_shapes(state.coordinates, needed)
            q = geometry.at(self.first.q, tuple(map(like, state.coordinates, needed)))
            state = LoopState(q=q, **state.parts)
        _require_shapes(geometry.coordinates(state.q), needed)
        found: LoopState = state.fork()
        Budget(self.records.stop.budget, found.n_evaluations).require_enough()
        return found

    def step(self, state: LoopState) -> LoopState:
        began, seconds = time.perf_counter(), self.records.stop.seconds
        self._until = math.inf if seconds is None else began + seconds - state.whole_seconds
        found = self._made(state)
        return replace(found, whole_seconds=state.whole_seconds + time.perf_counter() - began)

    def _made(self, state: LoopState) -> LoopState:
        self._numbers, unfinished = state.rng.bit_generator.state, None
        if state.unfinished is not None:
            unfinished = Unfinished(state.unfinished, max(n_rows(self.problem.data), 1))
        if self._reason(state) is not None:
            account = Account(self.ledger, self._budget(state), unfinished)
            if self._ends_tested and state.tested != state.iteration and state.iteration:
                state = self._with_test(state, account)
            return closed(self.problem, self._judged(state, True), self.records.monitor, account)
        if self._gain_is_tested and self.records.stop.tolerance is not None and is_test_due(state):
            return self._with_test(state, Account(self.ledger, self._budget(state, self._reserve)))
        problem = affordable(self.problem, state, self._remaining(state))
        assert problem is not None  # called by `_reason`, which has a problem
        entered, first = StepEvaluations() if state.memory is None else None, not state.n_evaluations
        budget = self._budget(state, self._reserve)
        account = Account(self.ledger, budget, unfinished, entered=entered, first=first)
        if state.is_beginning:
            return self._begun(problem, state, account)
        state = self._judged(state)
        found = self._tried(problem, state, account)
        if found is not state:
            return found
        return self._stepped(problem, state, self._records_of(state), account)

    def _tried(self, problem: LoopProblem, state: LoopState, account: Account) -> LoopState:
        """The state after the evaluations that could refute its claim; the same state if none are due."""
        tolerance = self.records.stop.tolerance
        if tolerance is None or not self.problem.is_judged:
            return state
        room, mean = self._remaining(state), WhitenedFrame.of(self.first.q).mean
        found = tried(problem, state, tolerance, account, room, mean)
        return state if found is state else self._doubted(found)

    def _records_of(self, state: LoopState) -> Records:
        """When records are made in the next step, and when they end the run."""
        records, recorder = self.records, self.records.recorder
        if recorder.is_due(state.iteration) and not self._can_record(state):
            records = replace(records, recorder=replace(recorder, every=frozenset(), first=False))
        if self._gain_is_tested:  # two records that agree end no such run
            records = replace(records, stop=replace(records.stop, tolerance=None))
        return records

    def _begun(self, problem: LoopProblem, state: LoopState, account: Account) -> LoopState:
        """The first step where q is near the posterior; else the state with another q, before this step."""
        room = self._remaining(state)
        sloped = differentiable(problem.model)
        of_budget = BEGINNING.of_budget if sloped else BEGINNING.of_budget_of_values
        share = math.inf if room is None else int(of_budget * room)
        before = state.rng.bit_generator.state
        kept = state.memory is not None or not n_rows(problem.data)
        try:
            # evaluations of parts of the data are made again when the search is
            found, nodes = begun(
                problem, state, account if kept else replace(account, unfinished=None), share
            )
        except BaseException:
            # the nodes are drawn again when the search is repeated
            state.rng.bit_generator.state = before
            raise
        found = reopened(replace(found, begins=False))
        if nodes is None:
            return with_unused(found, account) if kept else found
        return self._stepped(problem, found, self._records_of(state), replace(account, given=nodes))

    def _judged(self, state: LoopState, final: bool = False) -> LoopState:
        """The state with the reasons why it has not converged, where a judgement is due."""
        tolerance = self.records.stop.tolerance
        if tolerance is None or not self.problem.is_judged or state.has_converged(tolerance):
            return state
        return self._doubted(judged(state, tolerance, final))

    def _doubted(self, state: LoopState) -> LoopState:
        """The state, of which no claim stands where its log joint may be a floor, or gradients are wrong."""
        kept, coordinates = self.problem.is_judged, getattr(self.problem.model, "coordinates", None)
        made: Any = state.memory if kept else state.finite_latest
        if made is None:
            return state
        shift = 0.0 if coordinates is None else coordinates.log_jacobian(made.points)
        found = nothing_above(made.values - shift, len(made.failed) if kept else 0)
        if not (kept and made.noise_variances.any()):
            found = (*found, *gradient_warnings(made.points, made.values, made.gradients))
        if set(found) <= set(state.reasons):
            return state
        claim = None if state.claim is None else replace(state.claim, stands=False)
        return replace(state, claim=claim, reasons=tuple(dict.fromkeys((*state.reasons, *found))))

    @cached_property
    def _gain_is_tested(self) -> bool:
        return self.problem.gain_is_tested(self.first.q)

    @cached_property
    def _ends_tested(self) -> bool:
        """Whether the last q is tested: evaluations of data are many, and for others a claim is needed."""
        claims = self.records.stop.tolerance is not None or n_rows(self.problem.data) > 0
        return claims and self._gain_is_tested

    def _with_test(self, state: LoopState, account: Account) -> LoopState:
        """The state with the reasons why its q is not at its optimum."""
        most, cost = self.records.stop.budget, self._paid(state) + self.records.monitor.cost
        room = math.inf if most is None or not account.budget else account.budget.room(most - cost)
        return self._doubted(
            tested(self.problem, state, self.records.stop.tolerance, account, room, self._until)
        )

    @staticmethod
    def _stepped(problem: LoopProblem, state: LoopState, records: Records, account: Account) -> LoopState:
        try:
            return step(problem, state, records, account)
        except Exception as error:
            singular = "LinAlgError" in type(error).__name__  # NumPy's and torch's have the same name
            if not singular and not isinstance(error, FloatingPointError):
                raise
            became = "a covariance of q became singular" if singular else "parameters of q grew without bound"
            exact = problem.minibatch is None and problem.schedule == Constant(1.0)
            cause = why_singular(problem.model, exact and is_conjugate(problem.model))
            raise (np.linalg.LinAlgError if singular else FloatingPointError)(
                f"{error}; unless the log joint raised it, {became}: {cause}"
            ) from error

    @property
    def caller(self) -> Caller:
        return caller_of(self.problem.model)

    def budget_of(self, state: LoopState) -> Budget:
        """The budget that remains at ``state``, less the closing record's evaluations."""
        return self._budget(state, self._reserve)

    def kept(self, state: LoopState) -> Evaluations | None:
        """The evaluations in the memory of an estimator of a `LogJoint`."""
        return self._remembered(state) if isinstance(self.problem.model, LogJoint) else None

    def _remembered(self, state: LoopState) -> Evaluations | None:
        memory = getattr(state.memory, "known", state.memory)
        if not hasattr(memory, "points"):
            return None
        n = len(memory)
        noise = memory.noise_variances[:, 0] if memory.noise_variances.size else None
        slopes = memory.gradients if differentiable(self.problem.model) else None
        return Evaluations(memory.points, memory.values, slopes, noise, np.zeros(n, bool), ("",) * n)

    def require_consistent(self, before: LoopState, after: LoopState) -> None:
        function = getattr(self.problem.model, "function", _IN_TORCH)
        if is_moving(self.problem.model):
            return
        if after.memory is None:
            require_consistent(function, len(before.latest or ()), after.finite_latest)
            return
        kept = self._remembered(before)
        if kept is not None:
            require_consistent(function, len(kept), self._remembered(after))

    def pending(self, state: LoopState) -> np.ndarray:
        """Points (m, D) that were chosen and have no values yet.

        TypeError or ValueError where they cannot be evaluated outside of the fit, one at a time.
        """
        estimator, model, monitor = self.problem.estimator, self.problem.model, self.records.monitor
        if not isinstance(estimator, BayesianQuadrature) or not estimator.memory:
            raise TypeError(
                f"points of a fit by {type(estimator).__name__} cannot be asked for, nor kept under way by "
                "workers; use method='bq', a BayesianQuadrature that keeps its evaluations"
            )
        if not is_as_stated(model):
            raise TypeError(
                f"model is a {type(model).__name__}; points can be asked for, and kept under way by workers, "
                "of a LogJoint"
            )
        if monitor.cost:
            raise ValueError(
                f"elbo_samples is {monitor.samples}; a fit that is asked for points, or keeps workers busy, "
                "takes the ELBO from the evaluations it has: leave it out"
            )
        return self._pending(state)

    def _pending(self, state: LoopState) -> np.ndarray:
        return state.pending.reshape(-1, self.first.q.dimension)

    def with_more(self, state: LoopState, count: int) -> LoopState:
        """The state with ``count`` further pending points, after a step with the new values if one is due."""
        # on a fork, so that the state keeps its random numbers if the step fails
        state = state.fork()
        if self._asked_at is not None:
            spent = time.perf_counter() - self._asked_at
            state = replace(state, seconds=state.seconds + spent, whole_seconds=state.whole_seconds + spent)
        try:
            state = self._with_told(state)
        except AsksError as asks:
            pending, count = self._pending(state), 0
            further = asks.points[rows_of(pending, asks.points) < 0]
            state = replace(state, pending=np.concatenate([pending, further]))
        self._asked_at = time.perf_counter()
        if self._reason(state) is None:
            return self._chosen(state, count)
        if len(state.pending) or self.finished(state) is not None:
            return state
        return self.step(state)  # this step makes the closing record

    def _chosen(self, state: LoopState, count: int) -> LoopState:
        """The state with ``count`` further pending points; at first with those of the first step."""
        estimator, pending = self.problem.estimator, self._pending(state)
        assert isinstance(estimator, BayesianQuadrature)  # `pending` refuses others
        known = [] if state.unfinished is None else [state.unfinished.points]
        waiting = np.concatenate([*known, pending])
        if not len(state.memory) and not len(waiting):
            count = max(count, self.budget_of(state).room(estimator.count(state.q.dimension, state.memory)))
        if not count:
            return state
        points, memory = estimator.asked(self.problem.model, state.q, count, state.rng, state.memory, waiting)
        return replace(state, memory=memory, pending=np.concatenate([pending, points]))

    def _with_told(self, state: LoopState) -> LoopState:
        """The state after the search of the beginning, a test of its claim, or a step if one is due."""
        if self._reason(state) is not None:
            return state
        told, ledger = state.unfinished, Ledger(state.q.dimension)
        told = Evaluations.none(state.q.dimension) if told is None else told
        ledger.enter(told)
        asking = Account(ledger, unfinished=Told(told))  # an `AsksError` asks for points without values
        if state.is_beginning:
            problem = affordable(self.problem, state, self._remaining(state))
            assert problem is not None  # as there is no reason to end
            return self._begun(problem, state, asking)
        state = self._judged(state)
        found = self._tried(self.problem, state, asking)
        assert isinstance(self.problem.estimator, BayesianQuadrature)  # `pending` refuses others
        enough = self.problem.estimator.count(state.q.dimension, state.memory)
        if found is not state or not len(told) or (len(state.pending) and len(told) < enough):
            return found
        # a step that makes a record alone leaves these evaluations for the next one
        account = Account(ledger, given=told)
        return self._stepped(self.problem, replace(state, unfinished=None), self.records, account)

    def _budget(self, state: LoopState, reserve: int = 0) -> Budget:
        most = self.records.stop.budget
        return Budget(None if most is None else max(most - reserve, 0), state.n_evaluations)

    def _paid(self, state: LoopState) -> int:
        """Evaluations so far, without those of the unfinished next step, which may ask for them again."""
        paid = state.step_evaluations + state.record_evaluations + state.repeated
        if state.unfinished is None:
            return paid
        kept = len(state.unfinished) * max(n_rows(self.problem.data), 1)
        return paid + max(state.unfinished.n_evaluations - kept, 0)

    @cached_property
    def _reserve(self) -> int:
        """Evaluations reserved for the closing record; 0 where the budget does not allow a step as well."""
        most, cost = self.records.stop.budget, self.records.monitor.cost
        if most is None:
            return 0
        if affordable(self.problem, self.first, most - cost) is None:
            return 0
        return cost + (evaluations_for(self.problem, most) if self._ends_tested else 0)

    def _remaining(self, state: LoopState) -> int | None:
        """Evaluations for the next step, less the closing record's."""
        most = self.records.stop.budget
        return None if most is None else most - self._paid(state) - self._reserve

    def _can_record(self, state: LoopState) -> bool:
        remaining = self._remaining(state)
        if remaining is None or self.records.monitor.cost == 0:
            return True
        problem = self.problem
        free = is_conjugate(problem.model) and problem.minibatch is None and problem.estimator.samples == 0
        cost = 0 if free else self.records.monitor.cost  # no cost where the gradient brings the ELBO with it
        return affordable(problem, state, remaining - cost) is problem

    def _reason(self, state: LoopState) -> str | None:
        stop = self.records.stop
        if stop.seconds is not None and self._ends_tested:  # as for evaluations, a share is the test's
            stop = replace(stop, seconds=(1.0 - GAIN.share) * stop.seconds)
        reason = stop.reached(state)
        if reason is not None:
            return reason
        if self._gain_is_tested:
            converges = stop.tolerance is not None and state.has_no_gain
        else:
            due = state.recorded and self.records.recorder.is_due(state.iteration)
            settles = due and has_settled(self.problem, stop, state)
            converges = settles or state.has_converged(stop.tolerance)
        if converges:
            return "tolerance"
        return "budget" if affordable(self.problem, state, self._remaining(state)) is None else None

    def finished(self, state: LoopState) -> str | None:
        """'tolerance', 'steps', 'budget' or 'seconds', once q has a record, if the budget allows one."""
        reason, most = self._reason(state), self.records.stop.budget
        closes = most is None or self._paid(state) + self.records.monitor.cost <= most
        return None if reason is not None and not state.recorded and closes else reason

    def result(self, state: LoopState, reason: str) -> Fit:
        return with_raised_warnings(self.fit_of(state, reason))

    def fit_of(self, state: LoopState, reason: str) -> Fit:
        """The fit, whose warnings have not been raised."""
        found = state.fork()
        elbo, sd = self._elbo(found)
        return Fit(
            q=found.q,
            elbo=elbo,
            elbo_sd=sd,
            trace=Trace(found.rows),
            stopped=reason,
            checkpoint=self.checkpoint(found),
            problem=self.problem,
            state=found,
        )

    def _elbo(self, state: LoopState) -> tuple[float, float]:
        """The ELBO of q and its sd: as recorded, else from the evaluations kept, else of the last record."""
        if not state.recorded and is_of_one_function(self.problem.model, state.q, state.memory):
            # a run may have failed because q is degenerate
            with suppress(FloatingPointError, np.linalg.LinAlgError):
                return self.records.monitor.remembered(state.q, state.memory)[:2]
        return (state.rows[-1].elbo, state.rows[-1].elbo_sd) if state.rows else (math.nan, math.inf)

    def with_evaluations(self, state: LoopState, evaluations: Evaluations) -> LoopState:
        found = with_evaluations(state.fork(), evaluations)
        rows, remaining = matched(state.pending, evaluations.points)
        if (rows >= 0).any():
            return replace(found, pending=state.pending[remaining])
        if self._numbers is not None:
            found.rng.bit_generator.state = self._numbers
        return found

    def checkpoint(self, state: LoopState) -> Checkpoint:
        return Checkpoint(
            DOOR, self.settings, state, state.n_evaluations, partial(saved, self.problem.geometry)
        )

    def status(self, state: LoopState) -> RunStatus:
        estimate = f"ELBO {state.rows[-1].elbo:.4f}" if state.rows else ""
        budget, where = self.records.stop.budget, f"at iteration {state.iteration}"
        if budget is not None:
            return RunStatus(state.n_evaluations, budget, "evaluations", estimate, where)
        return RunStatus(state.iteration, self.records.stop.steps, "steps", estimate, where)


def classes(state: LoopState) -> dict[str, type]:
    """The classes of the records in a saved run like ``state``."""
    return named(Saved, TraceRow, Evaluations, Settled, Anchor) | classes_in(
        tuple(getattr(state, name) for name in _PARTS)
    )


def _require_shapes(found: Any, needed: Any) -> None:
    for array, template in zip(found, needed, strict=True):
        if np.shape(array) != np.shape(template):
            raise ValueError(
                f"the run to resume has an array of shape {np.shape(array)} where this model and data have "
                f"{np.shape(template)}; resume with the model and data that it was begun with"
            )


def affordable(problem: LoopProblem, state: LoopState, remaining: int | None) -> LoopProblem | None:
    """The problem with an estimator that makes at most ``remaining`` evaluations at the next step.

    None where the estimator needs more. Without a limit the problem is returned unchanged.
    """
    if remaining is None:
        return problem
    rows = max(_rows(problem, state), 1)
    # each datum counts once, however many draws of theta use its expectations
    if is_conjugate(problem.model):
        return problem if rows <= remaining else None
    each, samples = _points(problem.estimator, state)
    if each * samples * rows <= remaining:
        return problem
    fewer = remaining // rows // each
    if state.anchor is not None:
        fewer -= 1
    estimator = _with_samples(problem.estimator, fewer) if fewer >= 1 else None
    return None if estimator is None else replace(problem, estimator=estimator)


def _rows(problem: LoopProblem, state: LoopState) -> int:
    """Number of data in the next step."""
    if problem.minibatch is None:
        return n_rows(problem.data)
    varying = getattr(problem.minibatch, "next_size", None)
    return problem.minibatch.size if varying is None else int(varying(state.minibatch))


def _points(estimator: Any, state: LoopState) -> tuple[int, int]:
    """(b, L): the next step calls the log joint at b L points at most, with L samples."""
    components = state.q.n_components if isinstance(state.q, GaussianMixture) else 1
    quadrature = getattr(estimator, "quadrature", estimator)
    if not hasattr(quadrature, "nodes"):
        return components, max(estimator.samples, 1) + (state.anchor is not None)
    known = getattr(state.memory, "known", state.memory)
    return 1, quadrature.nodes if known is None else quadrature.count(state.q.dimension, known)


def _with_samples(estimator: Any, samples: int) -> Any:
    """The estimator with this number of samples in a step, or None where it needs more."""
    try:
        if hasattr(estimator, "quadrature"):
            return replace(estimator, quadrature=_with_samples(estimator.quadrature, samples))
        if hasattr(estimator, "nodes"):
            first = estimator.initial_nodes
            first = samples if first is None else min(first, samples)
            return replace(estimator, nodes=min(estimator.nodes, samples), initial_nodes=first)
        return replace(estimator, samples=samples)
    except (TypeError, ValueError):
        return None
