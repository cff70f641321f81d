"""The one loop.

    batch    = minibatch.draw(rng)                    which data, with what weights
    gradient = estimator(model, q, batch, rng)        the gradient in q's parameters
    step     = schedule.increment(geometry.direction(q, gradient))    natural or Euclidean, and its length
    q        = geometry.move(q, step)

Every method of the package is a choice of estimator, geometry, schedule and mini-batch strategy. Coordinate
ascent is the exact natural gradient of all the data with step 1 (thesis Eq. 4.12); gradient descent is the
same gradient pulled back to unconstrained coordinates; a stochastic method is one with a mini-batch
strategy, or an estimator that samples theta.

A `LoopState` determines the continuation of a run. `step` maps a state to the next, so a run can be driven
from outside, stopped, saved and resumed, with the same numbers (:mod:`bqvi.inference.fit_run` is its engine).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from acquisition.minibatch import Learning, Selection
from bqvi.arrays import Values, like
from bqvi.calls import Account, Evaluations
from bqvi.families.family import Distribution
from bqvi.gradients.conjugate import LocalMemory
from bqvi.gradients.gradient import Batch, Combination, Gradient, RememberingEstimator
from bqvi.inference.state import LoopProblem, LoopState, Monitor, Recorder, Stop, TraceRow, with_unused
from bqvi.inference.steps import Geometry
from bqvi.models.contracts import is_amortised
from bqvi.models.data import n_rows, take
from gp.arrays import Array, is_torch, to_numpy
from gp.checks import noise_seed

_FREE = Account()
"""An account without limit and ledger."""


class NotFiniteError(ArithmeticError):
    """A gradient that is not finite, or parameters out of the range of floating-point numbers."""


def start(problem: LoopProblem, q: Distribution, rng: np.random.Generator) -> LoopState:
    """The state before the first step, at q."""
    problem.geometry.check(q)
    coordinates = problem.geometry.coordinates(q)
    if is_amortised(problem.model):  # weights of networks stay torch tensors, on their device
        coordinates = tuple(like(x, problem.model.reference) for x in coordinates)
    else:
        coordinates = tuple(to_numpy(x) for x in coordinates)
    minibatch, setup = _started(problem, rng)
    estimator = problem.estimator
    memory = estimator.start(problem.model, q) if isinstance(estimator, RememberingEstimator) else None
    return LoopState(
        q=problem.geometry.at(q, coordinates),
        rng=rng,
        schedule=problem.schedule.start(coordinates),
        minibatch=minibatch,
        memory=memory,
        setup_seconds=setup,
        whole_seconds=setup,
        noise=noise_seed(rng),
    )


def _started(problem: LoopProblem, rng: np.random.Generator) -> tuple[Any, float]:
    """The strategy's first state, and the seconds for it, with those of computations on the data."""
    if problem.minibatch is None:
        return None, 0.0
    began = time.perf_counter()
    minibatch = problem.minibatch.start(n_rows(problem.data), rng)
    if problem.per_datum:
        _ = problem.limits
    before = float(getattr(problem.minibatch, "setup_seconds", 0.0))
    return minibatch, before + time.perf_counter() - began


@dataclass(frozen=True)
class Drawn:
    """A mini-batch, and the state of its strategy before it is given the gradients."""

    batch: Batch
    selection: Selection | None = None
    state: Any = None
    """The strategy's state after the draw."""
    seconds: float = 0.0
    """Seconds that the draw took."""

    def observed(self, problem: LoopProblem) -> tuple[Any, float]:
        """The strategy's state after it was given the gradients, and its seconds for this mini-batch."""
        combination = self.batch.combination
        if combination is None or self.selection is None or problem.minibatch is None:
            return self.state, self.seconds
        if not problem.learning:
            return self.state, self.seconds + combination.seconds
        if combination.terms is None:
            raise TypeError(no_gradients_message(problem))
        began = time.perf_counter()
        state = problem.minibatch.observe(self.state, self.selection, combination.terms)
        return state, self.seconds + combination.seconds + time.perf_counter() - began


def no_gradients_message(problem: LoopProblem) -> str:
    """The message of an error: the strategy needs per-datum gradients, and the estimator gives none."""
    return (
        f"minibatch is a {type(problem.minibatch).__name__}, which needs per-datum gradients, but "
        f"{type(problem.estimator).__name__} gives none for a {type(problem.model).__name__}; use "
        "'pathwise', or a strategy that is not Learning, such as Balanced"
    )


def gradient_at(problem: LoopProblem, state: LoopState, account: Account = _FREE) -> tuple[Gradient, Drawn]:
    """The gradient of the next mini-batch, and the record for `advance`.

    Parameters
    ----------
    problem : the problem of the loop. state : the state before the step.
    account : the evaluations of the step.
    """
    drawn = _next_batch(problem, state, account)
    if state.memory is None:
        return problem.estimator(problem.model, state.q, drawn.batch, state.rng), drawn
    # known from the memory: a protocol's check at each step takes as long as a small gradient
    remembering = cast(RememberingEstimator, problem.estimator)
    return remembering(problem.model, state.q, drawn.batch, state.rng, state.memory), drawn


def _next_batch(problem: LoopProblem, state: LoopState, account: Account) -> Drawn:
    if problem.minibatch is None:
        return Drawn(Batch(problem.data, n_rows(problem.data), account=account))
    began = time.perf_counter()
    selection, drawn = problem.minibatch.draw(state.minibatch, state.rng)
    seconds = time.perf_counter() - began
    combination = _combination(problem, drawn, selection) if problem.per_datum else None
    rows = take(problem.data, selection.indices)
    # copied, as the strategy keeps the array and torch warns of read-only ones
    weights = selection.weights.copy()
    anchor = None if combination is not None else state.anchor
    corrections = getattr(problem.minibatch, "corrections", None)
    batch = Batch(rows, len(selection.indices), weights, combination, account, anchor, corrections)
    return Drawn(batch, selection, drawn, seconds)


def _combination(problem: LoopProblem, drawn: Any, selection: Selection) -> Combination:
    # known beforehand: a protocol's check at each step takes as long as a small gradient
    if not problem.learning:
        return Combination(lambda terms: selection.weights @ terms, problem.limits)
    strategy = cast(Learning, problem.minibatch)
    return Combination(lambda terms: strategy.estimate(drawn, selection, terms), problem.limits)


def advance(
    problem: LoopProblem, state: LoopState, gradient: Gradient, drawn: Drawn, began: float | None = None
) -> LoopState:
    """The state after a step along ``gradient``.

    The strategy is given the gradients last, when no later computation can fail, so that the table of
    gradients that it keeps belongs to the same step as the state.

    Parameters
    ----------
    problem : the problem of the loop. state : the state before the step. gradient : the gradient at its q.
    drawn : the mini-batch of the gradient. began : the time of `time.perf_counter` at which the step began;
        None leaves the step out of ``seconds``.
    """
    direction = problem.geometry.direction(state.q, gradient)
    # Adam's moments can hide an infinite entry of the direction, which a multiple of the direction cannot.
    # The direction is therefore checked, unless the schedule states that it propagates infinities.
    if state.schedule is not None and not getattr(problem.schedule, "propagates", False):
        _require_finite(state, direction)
    increment, schedule = problem.schedule.increment(direction, state.schedule, state.iteration)
    _require_finite(state, increment)
    if gradient.end is not None and increment is gradient.values:
        moved = problem.geometry.at(state.q, gradient.end)
    else:
        moved = _moved(problem.geometry, state, increment)
    minibatch, seconds = drawn.observed(problem)
    return replace(
        state,
        q=moved,
        schedule=schedule,
        minibatch=minibatch,
        memory=gradient.memory,
        iteration=state.iteration + 1,
        seconds=state.seconds if began is None else state.seconds + time.perf_counter() - began,
        step_evaluations=state.step_evaluations + gradient.n_evaluations,
        samples=state.samples + gradient.samples,
        minibatch_seconds=state.minibatch_seconds + seconds,
    )


def _moved(geometry: Geometry, state: LoopState, increment: Values) -> Any:
    try:
        return geometry.move(state.q, increment)
    except FloatingPointError as overflow:
        raise NotFiniteError(
            f"the step at iteration {state.iteration} is so large that parameters overflow; lower the "
            "schedule's scale"
        ) from overflow


@dataclass(frozen=True)
class Records:
    """When records are made, their content, and when two that agree end a run."""

    monitor: Monitor
    recorder: Recorder
    stop: Stop


def step(problem: LoopProblem, state: LoopState, records: Records, account: Account) -> LoopState:
    """The state after a step, or at the same iteration if by its record the run has settled.

    A record is of q *before* the step of its iteration: where the step's gradient needed a local step over
    all the data, it has the exact ELBO as well.

    Parameters
    ----------
    problem : the problem of the loop. state : the state before the step. records : when records are made, and
        when two that agree end the run.
    account : the budget and the ledger of the step's evaluations.
    """
    before = state.rng.bit_generator.state
    try:
        began = time.perf_counter()
        gradient, drawn = gradient_at(problem, state, account)
        spent = time.perf_counter() - began
        estimated = _with_estimate(state, gradient)
        if records.recorder.is_due(state.iteration):
            made = None if account.ledger is None else account.ledger.entries()
            estimated = _with_record(estimated, records.monitor, gradient, account)
            if has_settled(problem, records.stop, estimated):
                state.rng.bit_generator.state = before
                return _settled(state, estimated, gradient, made)
        else:
            estimated = reopened(estimated)
        moved = advance(problem, estimated, gradient, drawn, time.perf_counter() - spent)
        return _with_latest(with_unused(moved, account), account)
    except BaseException:
        # the random numbers of this step are drawn again when it is repeated
        state.rng.bit_generator.state = before
        raise


def has_settled(problem: LoopProblem, stop: Stop, state: LoopState) -> bool:
    """Whether the last two records agree, and a memoised estimator has visited all the data.

    Runs that are judged by :mod:`convergence` do not settle here.

    Parameters
    ----------
    problem : the problem of the loop. stop : the conditions, of which the tolerance is used.
    state : the state with its records.
    """
    if problem.is_judged or state.tested >= 0:  # by another test
        return False
    visited = getattr(problem.estimator, "visited_all", None)
    return stop.settled(state.rows) and (visited is None or visited(state.memory, n_rows(problem.data)))


def _settled(before: LoopState, state: LoopState, gradient: Gradient, made: Evaluations | None) -> LoopState:
    """A state with its record and without a step; the evaluations of its gradient are kept and counted."""
    found = replace(before, rows=state.rows, record_evaluations=state.record_evaluations)
    if made is None or not len(made):
        return replace(found, record_evaluations=found.record_evaluations + gradient.n_evaluations)
    return with_evaluations(found, made)


def with_evaluations(state: LoopState, made: Evaluations) -> LoopState:
    """The state with the evaluations of a step that was cut short, for its repetition."""
    before = state.unfinished
    return replace(state, unfinished=made if before is None else before.joined(made))


def _with_latest(state: LoopState, account: Account) -> LoopState:
    """The state after a step of an estimator that keeps no evaluations, with the latest of these."""
    if account.entered is None:
        return state
    if account.entered.n_beside:
        state = replace(state, step_evaluations=state.step_evaluations + account.entered.n_beside)
    made = account.entered.made
    if made is None:
        return state
    kept = made if state.latest is None else state.latest.joined(made)
    return replace(state, latest=kept[-Monitor.KEPT :])


def closed(problem: LoopProblem, state: LoopState, monitor: Monitor, account: Account) -> LoopState:
    """The state with a record of its q.

    Parameters
    ----------
    problem : the problem of the loop. state : the state. monitor : makes the record.
    account : the evaluations of the record.
    """
    if not isinstance(state.memory, LocalMemory):
        return with_unused(_with_record(state, monitor, None, account), account)
    # where local steps are refined, that of the record is too
    gradient, _ = gradient_at(problem, state, account)
    row, spent = _row(state, monitor, gradient, account), gradient.n_evaluations
    return _with_row(state, replace(row, record_evaluations=spent, n_evaluations=row.n_evaluations + spent))


def reopened(state: LoopState) -> LoopState:
    """The state without the record that closed a run, for its continuation.

    Parameters
    ----------
    state : a state of a run that had ended, or of one under way.
    """
    return replace(state, rows=state.rows[:-1]) if state.recorded else state


def _with_record(
    state: LoopState, monitor: Monitor, gradient: Gradient | None, account: Account
) -> LoopState:
    """The state with a record of q; fresh draws of an earlier closing record are used again."""
    if state.recorded and monitor.cost and not monitor.exact:
        row = replace(state.rows[-1], bound=monitor.bound(gradient))
        return replace(state, rows=(*state.rows[:-1], row))
    return _with_row(reopened(state), _row(state, monitor, gradient, account))


def _with_row(state: LoopState, row: TraceRow) -> LoopState:
    spent = state.record_evaluations + row.record_evaluations
    return replace(state, rows=(*state.rows, row), record_evaluations=spent)


def _with_estimate(state: LoopState, gradient: Gradient) -> LoopState:
    """Return the state with the estimate of the ELBO by the step's own draws."""
    found = gradient.bound if gradient.elbo is None else gradient.elbo
    if found is None or gradient.local is not None:
        return state
    latest = np.concatenate((state.estimates[1 - Monitor.KEPT :], (found,)))
    return replace(state, estimates=latest)


def _finite(x: Array) -> bool:
    # the sum of squares is the fastest pass; if it overflows, the entries are checked one by one
    if is_torch(x):
        flat = x.flatten()
        return math.isfinite(flat.dot(flat)) or bool(x.isfinite().all())
    return math.isfinite(np.vdot(x, x)) or bool(np.isfinite(x).all())


def _require_finite(state: LoopState, step: Values) -> None:
    if all(map(_finite, step)):
        return
    names = [
        name or type(state.q).__name__
        for name, x in zip(state.q.leaf_names, step, strict=True)
        if not _finite(x)
    ]
    raise NotFiniteError(
        f"the step at iteration {state.iteration} is not finite in {', '.join(dict.fromkeys(names))}: "
        "a gradient was NaN or infinite, or the step size is too large; lower the schedule's scale, or guard "
        "the log joint"
    )


def _row(state: LoopState, monitor: Monitor, gradient: Gradient | None, account: Account) -> TraceRow:
    local = None if gradient is None else gradient.local
    latest = max(2, (state.iteration + 1) // 10)  # the draws of earlier steps are of lower ELBOs
    value = monitor.value(state.q, local, state.memory, state.estimates[-latest:], account, state.noise)
    before = state.step_evaluations + state.record_evaluations + state.repeated
    return TraceRow(
        iteration=state.iteration,
        seconds=state.seconds,
        step_evaluations=state.step_evaluations,
        samples=state.samples,
        setup_seconds=state.setup_seconds,
        minibatch_seconds=state.minibatch_seconds,
        elbo=value.elbo,
        elbo_sd=value.elbo_sd,
        bound=monitor.bound(gradient),
        metrics=monitor.measure(state.q),
        record_evaluations=value.n_evaluations,
        n_evaluations=before + value.n_evaluations,
    )
