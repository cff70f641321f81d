"""A run, then another that begins with its result, as one run.

    states of the first --its steps, until one returns a state of the second--> the second engine's steps

The first phase is a run on a cheap model (`bqvi.variational_bmc.cheap_first`), before one on the log joint.
Both engines enter evaluations in one ledger, so that they are kept however the run ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger
from bqvi.runs.checkpoint import Checkpoint
from bqvi.runs.engine import Asked, RunStatus, VerifiableEngine

_A = TypeVar("_A")
_B = TypeVar("_B")
B_co = TypeVar("B_co", covariant=True)


class First(Protocol[_A, B_co]):
    """The first phase: the methods of `VerifiableEngine` without its end and result, and those defined here.

    Attributes
    ----------
    second : the engine of the second phase. ledger : the ledger of both.
    alone : whether its steps are made before the run can be asked for points; otherwise such a run leaves
        them out.
    advice : advice for a run that ended in this phase.
    """

    second: Any
    ledger: Ledger
    alone: bool
    advice: str

    def init(self) -> _A:
        """The state before the first evaluation."""

    def second_start(self, state: _A) -> B_co:
        """The first state of the second phase, given a state of the first."""

    def recorded(self, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint of the second phase with the part of the first that a resumed run needs."""


class TwoPhases(Generic[_A, _B]):
    """The engine of a run in two phases (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    first : the first phase, which has the second. states : the class of the states of the first.
    """

    small = True

    def __init__(self, first: First[_A, _B], states: type[_A]) -> None:
        self._first = first
        self._states = states
        self.ledger = first.ledger
        self.init = first.init

    def _begun(self, state: _A | _B) -> bool:
        return not isinstance(state, self._states)

    def _of(self, state: _A | _B) -> VerifiableEngine[_A | _B, Any]:
        return cast(VerifiableEngine[_A | _B, Any], self._first.second if self._begun(state) else self._first)

    @property
    def caller(self) -> Caller:
        return cast(VerifiableEngine[_A | _B, Any], self._first).caller

    def step(self, state: _A | _B) -> _A | _B:
        """A step of the present phase."""
        return self._of(state).step(state)

    def finished(self, state: _A | _B) -> str | None:
        """The reason why the second phase has no further step, or None."""
        return self._of(state).finished(state) if self._begun(state) else None

    def result(self, state: _A | _B, reason: str) -> Any:
        """The second phase's result, with `First.recorded`; ValueError where that phase has not begun."""
        if not self._begun(state):
            raise ValueError(f"the run ended {self.status(state).place}: {self._first.advice}")
        found = self._first.second.result(state, reason)
        return replace(found, checkpoint=self._first.recorded(found.checkpoint))

    def with_evaluations(self, state: _A | _B, evaluations: Evaluations) -> _A | _B:
        """The state with the evaluations of a step that was cut short."""
        return self._of(state).with_evaluations(state, evaluations)

    def checkpoint(self, state: _A | _B) -> Checkpoint:
        """The state; in the second phase with `First.recorded`."""
        found = self._of(state).checkpoint(state)
        return self._first.recorded(found) if self._begun(state) else found

    def status(self, state: _A | _B) -> RunStatus:
        """The progress of the present phase."""
        return self._of(state).status(state)

    def budget_of(self, state: _A | _B) -> Budget:
        return self._of(state).budget_of(state)

    def kept(self, state: _A | _B) -> Evaluations | None:
        return self._of(state).kept(state)

    def require_consistent(self, before: _A | _B, after: _A | _B) -> None:
        if self._begun(before) == self._begun(after):
            self._of(after).require_consistent(before, after)

    def again(self, state: _A | _B, points: np.ndarray, ledger: Ledger) -> Evaluations:
        return self._of(state).again(state, points, ledger)

    def alone(self, state: _A | _B) -> bool:
        """Whether steps have to be made before the run can be asked for points."""
        return self._first.alone and not self._begun(state)

    def pending(self, state: _A | _B) -> np.ndarray:
        """Points that were chosen and have no values yet, (m, D): none in the first phase."""
        return self._asked.pending(state) if self._begun(state) else np.zeros((0, self.caller.dimension))

    def with_more(self, state: _A | _B, count: int) -> _A | _B:
        """The state with further pending points, which are of the second phase."""
        state = state if self._begun(state) else self._first.second_start(cast(_A, state))
        return self._asked.with_more(state, count)

    @property
    def _asked(self) -> Asked[_A | _B, Any]:
        """The second engine, where the run is asked for points."""
        return cast(Asked[_A | _B, Any], self._first.second)
