"""Several starts as one run: one after the other, and the best is returned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bqvi.calls import EvaluationError, Evaluations, Ledger
from bqvi.calls.faults import stops
from bqvi.inference.fit_run import DOOR, FitRun, Saved, saved, with_raised_warnings
from bqvi.inference.result import Fit
from bqvi.inference.steps import Geometry
from bqvi.runs import Checkpoint, RunStatus
from bqvi.runs.driver import FAILED


@dataclass(frozen=True)
class Starts:
    """The states of the starts, and the reasons of those that ended, in order."""

    states: tuple[Any, ...]
    stopped: tuple[str, ...] = ()

    @property
    def active(self) -> int:
        """The index of the start that is under way, or of the last."""
        return min(len(self.stopped), len(self.states) - 1)

    @property
    def best(self) -> int:
        """The index of the start with the best ELBO among those that have begun and not failed."""
        failed = [i for i, reason in enumerate(self.stopped) if reason == FAILED]
        worth = [-np.inf if i in failed else _elbo(self.states[i]) for i in range(self.active + 1)]
        return int(np.argmax(np.where(np.isfinite(worth), worth, -np.inf)))

    def with_active(self, state: object) -> Starts:
        """Return the state with another state of the active start."""
        return replace(self, states=(*self.states[: self.active], state, *self.states[self.active + 1 :]))


def _elbo(state: Any) -> float:
    rows = state.parts["rows"] if isinstance(state, Saved) else state.rows
    return float(rows[-1].elbo) if rows else float("nan")


class StartsRun:
    """The engine of several starts (:class:`bqvi.runs.Engine`).

    A start that fails numerically does not end the others; the run fails if every start does. An error of
    code or of the system ends the run, and so does any error of the user's function with ``errors="raise"``.
    Each start has an equal share of the budget that remains before it.
    """

    def __init__(self, runs: tuple[FitRun, ...]) -> None:
        self._runs = tuple(
            FitRun(run.problem, run.records, run.family, run.first, runs[0].ledger) for run in runs
        )
        self._under_way = self._runs[0]

    @property
    def ledger(self) -> Ledger:
        return self._runs[0].ledger

    @property
    def small(self) -> bool:
        return self._runs[0].small

    def init(self) -> Starts:
        return Starts(tuple(run.init() for run in self._runs))

    def resumed(self, before: Checkpoint) -> Starts:
        """The starts of an earlier run."""
        found = before.state
        if not isinstance(found, Starts) or len(found.states) != len(self._runs):
            number = len(found.states) if isinstance(found, Starts) else 1
            raise ValueError(
                f"starts is {len(self._runs)}, and resume is a run with starts = {number}: give that number, "
                "or 1 to go on with the best"
            )
        states = [
            run.resumed(replace(before, state=s)) for run, s in zip(self._runs, found.states, strict=True)
        ]
        return replace(found, states=tuple(states))

    def _run(self, state: Starts) -> FitRun:
        """The start under way, with its share of the budget."""
        run, i = self._runs[state.active], state.active
        budget = run.records.stop.budget
        if budget is None:
            return run
        spent = sum(before.n_evaluations for before in state.states[:i])
        return run.within(max(budget - spent, 0) // (len(self._runs) - i))

    def step(self, state: Starts) -> Starts:
        run, inner = self._run(state), state.states[state.active]
        self._under_way = run
        try:
            if run.finished(inner) is None:
                inner = run.step(inner)
            reason = run.finished(inner)
        except Exception as error:
            if _ends_all(error, getattr(getattr(run.problem.model, "function", None), "errors", "numerical")):
                raise
            if state.active == len(self._runs) - 1 and all(why == FAILED for why in state.stopped):
                raise RuntimeError(f"every start failed; the last: {error}") from error
            inner, reason = run.with_evaluations(inner, self.ledger.entries()), FAILED
        moved = state.with_active(inner)
        return moved if reason is None else replace(moved, stopped=(*moved.stopped, reason))

    def require_consistent(self, before: Starts, after: Starts) -> None:
        """Raise EvaluationError where gradients of the start under way are not those of the values."""
        i = before.active
        self._under_way.require_consistent(before.states[i], after.states[i])

    def finished(self, state: Starts) -> str | None:
        return None if len(state.stopped) < len(state.states) else state.stopped[state.best]

    def result(self, state: Starts, reason: str) -> Fit:
        found = self._runs[state.best].fit_of(state.states[state.best], reason)
        elbos = tuple(_elbo(inner) for inner in state.states[: state.active + 1])
        forked = replace(state, states=tuple(inner.fork() for inner in state.states))
        return with_raised_warnings(replace(found, start_elbos=elbos, checkpoint=self.checkpoint(forked)))

    def with_evaluations(self, state: Starts, evaluations: Evaluations) -> Starts:
        found = self._under_way.with_evaluations(state.states[state.active], evaluations)
        return state.with_active(found)

    def checkpoint(self, state: Starts) -> Checkpoint:
        spent = sum(inner.n_evaluations for inner in state.states)
        records = partial(_saved, self._runs[0].problem.geometry)
        return Checkpoint(DOOR, self._runs[0].settings, state, spent, records)

    def status(self, state: Starts) -> RunStatus:
        run = self._runs[state.active]
        found = run.status(state.states[state.active])
        if run.records.stop.budget is not None:
            found = replace(found, done=sum(inner.n_evaluations for inner in state.states))
        number = state.active + 1
        return replace(
            found, estimate=f"start {number}; {found.estimate}", where=f"in start {number}, {found.place}"
        )


def _ends_all(error: Exception, errors: str) -> bool:
    """Whether the error of one start ends the run, given the user's policy ``errors`` on exceptions."""
    if not isinstance(error, EvaluationError):
        return stops(error, "numerical")
    if error.no_value:
        return errors == "raise"
    if isinstance(error.__cause__, Exception):
        return stops(error.__cause__, errors)
    # without a cause, the function returned no log density, which no other start would mend
    return error.point is not None


def _saved(geometry: Geometry, state: Starts) -> Starts:
    return replace(state, states=tuple(saved(geometry, inner) for inner in state.states))
