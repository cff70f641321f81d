"""A run, then another that begins with its result, as one run.

    states of the first --its steps, until one returns a state of the second--> the second engine's steps

The first phase is the search of a plausible box (`locating`), before the run of any door, or a run on a cheap
model (`bqvi.variational_bmc.cheap_first`), before one on the log joint. Both engines enter evaluations in one
ledger, so that they are kept however the run ends, and it can be resumed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from bqvi.calls import Ledger
from bqvi.runs.checkpoint import Checkpoint
from bqvi.runs.engine import Standing


class First(Protocol):
    """The first phase: :class:`bqvi.runs.engine.Keeping` without an end and a result, and the following.

    Attributes
    ----------
    second : the engine of the second phase. ledger : that of both.
    alone : whether it makes its steps before the run can be asked for points; else such a run skips them.
    advice : what to do with a run that ended in it.
    """

    second: Any
    ledger: Ledger
    alone: bool
    advice: str

    def init(self) -> Any:
        """The state before the first evaluation."""

    def handed_over(self, state: Any) -> Any:
        """The first state of the second phase, given one of the first."""

    def recorded(self, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint of the second phase with what a resumed run needs of the first."""


class TwoPhases:
    """The engine of such a run (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    first : its first phase, which has the second. states : the class of the states of the first.
    """

    small = True

    def __init__(self, first: First, states: type) -> None:
        self._first: Any = first
        self._states = states
        self.ledger = first.ledger
        self.init = first.init

    def _begun(self, state: Any) -> bool:
        """Whether the second phase has begun."""
        return not isinstance(state, self._states)

    def _of(self, state: Any) -> Any:
        """The engine of a state."""
        return self._first.second if self._begun(state) else self._first

    @property
    def caller(self) -> Any:
        """What evaluates the log joint."""
        return self._first.caller

    def step(self, state: Any) -> Any:
        """A step of the phase that has been reached."""
        return self._of(state).step(state)

    def finished(self, state: Any) -> Any:
        """Why the second phase has no further step, or None."""
        return self._first.second.finished(state) if self._begun(state) else None

    def result(self, state: Any, reason: str) -> Any:
        """The second phase's result, with `First.recorded`; ValueError where that phase has not begun."""
        if not self._begun(state):
            raise ValueError(f"the run ended {self.standing(state).place}: {self._first.advice}")
        found = self._first.second.result(state, reason)
        return replace(found, checkpoint=self._first.recorded(found.checkpoint))

    def with_evaluations(self, state: Any, evaluations: Any) -> Any:
        """The state with those of a step that was cut short."""
        return self._of(state).with_evaluations(state, evaluations)

    def checkpoint(self, state: Any) -> Checkpoint:
        """The state; in the second phase with `First.recorded`."""
        found: Checkpoint = self._of(state).checkpoint(state)
        return self._first.recorded(found) if self._begun(state) else found

    def standing(self, state: Any) -> Standing:
        """How far the phase has come."""
        found: Standing = self._of(state).standing(state)
        return found

    def budget_of(self, state: Any) -> Any:
        """What may be spent from ``state`` on."""
        return self._of(state).budget_of(state)

    def kept(self, state: Any) -> Any:
        """The evaluations that have values to compare."""
        return self._of(state).kept(state)

    def require_consistent(self, before: Any, after: Any) -> None:
        """EvaluationError where given gradients are not those of the values, asked within a phase."""
        if self._begun(before) == self._begun(after):
            self._of(after).require_consistent(before, after)

    def again(self, state: Any, points: np.ndarray) -> Any:
        """Evaluations at points (n, D) of them, within the budget, entered in no ledger."""
        return self._of(state).again(state, points)

    def alone(self, state: Any) -> bool:
        """Whether steps have to be made before the run can be asked for points."""
        return self._first.alone and not self._begun(state)

    def pending(self, state: Any) -> Any:
        """Points that were chosen and have no values yet, (m, D): none in the first phase."""
        begun = self._begun(state)
        return self._first.second.pending(state) if begun else np.zeros((0, self.caller.dimension))

    def with_more(self, state: Any, count: int) -> Any:
        """The state with further pending points, which are of the second phase."""
        state = state if self._begun(state) else self._first.handed_over(state)
        return self._first.second.with_more(state, count)
