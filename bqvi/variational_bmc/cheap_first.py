"""A run on a cheap model of the log joint, then one on the log joint, which begins with what it said.

    OnCheap(state) --the steps of a run on the cheap model, until it ends--> CheapModel, q, frame
                   --begun--> the first state on the log joint: that frame, and in the prior mean the cheap
                              model's posterior mean (`surrogate`)

The first points of the log joint are draws of that q, and as many of the plausible box, in case it misleads.
A cheap model may be improper: where its q runs away, the run goes on without it, and says so.
Both are runs of :mod:`bqvi.variational_bmc.vbmc_run`, with a budget for each. Evaluations of the cheap model
are entered in the same ledger, so that whatever ends the run they are kept, and resumed from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger
from bqvi.runs import Checkpoint, Standing
from bqvi.variational_bmc.correction import proposal_of
from bqvi.variational_bmc.diagnostics import runs_away
from bqvi.variational_bmc.result import VBMCResult
from bqvi.variational_bmc.state import CheapModel, State
from bqvi.variational_bmc.vbmc_run import DOOR, VBMCRun


@dataclass(frozen=True, eq=False)
class OnCheap:
    """The state of a run that is still on the cheap model: that of its own run."""

    state: State

    @property
    def n_evaluations(self) -> int:
        """Of the log joint: none."""
        return 0


class CheapFirst:
    """The engine of such a run (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    cheap, dear : the runs on the cheap model and on the log joint.
    given : how many of the dear run's first points are the user's.
    """

    small = True

    def __init__(self, cheap: VBMCRun, dear: VBMCRun, given: int) -> None:
        self._cheap, self._dear, self._given = cheap, dear, given
        cheap.ledger = dear.ledger

    @property
    def ledger(self) -> Ledger:
        """Where evaluations of either are entered."""
        return self._dear.ledger

    @property
    def caller(self) -> Caller:
        """What evaluates the log joint."""
        return self._dear.caller

    def init(self) -> OnCheap:
        """Nothing evaluated."""
        return OnCheap(self._cheap.init())

    def resumed(self, state: State | OnCheap) -> State | OnCheap:
        """A state of an earlier run, which had a cheap model too; ValueError where it had none."""
        if isinstance(state, OnCheap):
            return OnCheap(self._cheap.resumed(state.state))
        if state.cheap is None:
            raise ValueError("resume was run without a cheap model: leave cheap out, or start anew")
        return self._dear.resumed(state)

    def step(self, state: State | OnCheap) -> State | OnCheap:
        """One of the run on the cheap model; once that has ended, of the other."""
        if not isinstance(state, OnCheap):
            return self._dear.step(state)
        reached = state.state
        if self._cheap.finished(reached) is None:
            reached = self._cheap.step(reached)
        return OnCheap(reached) if self._cheap.finished(reached) is None else self._begun(reached)

    def _begun(self, last: State) -> State:
        """The first state on the log joint, given the last on the cheap model."""
        q, frame = last.q, last.frame
        used = q is not None and not runs_away(frame.measure(q), self._dear.coordinates)
        cheap = CheapModel(last.evaluations, frame, last.psi, used)
        first = replace(self._dear.first, cheap=cheap, seconds=last.seconds)
        if q is None or not used:
            return first
        first = replace(first, frame=frame, q=q, mean=last.mean, covariance=last.covariance)
        given, designed = first.pending[: self._given], first.pending[self._given :]
        count = (len(designed) + 1) // 2
        if not count:
            return first
        draws = proposal_of(q).draws(count, self._dear.seed)
        draws[0] = q.mean
        return replace(first, pending=np.concatenate([given, frame.out(draws), designed[:-count]]))

    def finished(self, state: State | OnCheap) -> str | None:
        """That of the run on the log joint."""
        return None if isinstance(state, OnCheap) else self._dear.finished(state)

    def result(self, state: State | OnCheap, reason: str) -> VBMCResult:
        """That of the run on the log joint; ValueError where it has not begun."""
        if isinstance(state, OnCheap):
            raise ValueError(f"the run ended {self.place(state)}: resume it")
        return self._dear.result(state, reason)

    def budget_of(self, state: State | OnCheap) -> Budget:
        """What may be spent of the log joint from ``state`` on."""
        return self._dear.budget_of(self._dear.first if isinstance(state, OnCheap) else state)

    def kept(self, state: State | OnCheap) -> Evaluations | None:
        """The evaluations of the log joint that have values to compare."""
        return None if isinstance(state, OnCheap) else self._dear.kept(state)

    def require_consistent(self, before: State | OnCheap, after: State | OnCheap) -> None:
        """EvaluationError where given gradients are not those of the values."""
        if isinstance(before, OnCheap) and isinstance(after, OnCheap):
            self._cheap.require_consistent(before.state, after.state)
        elif not isinstance(before, OnCheap) and not isinstance(after, OnCheap):
            self._dear.require_consistent(before, after)

    def again(self, state: State, points: np.ndarray) -> Evaluations:
        """Evaluations of the log joint at points (n, D), within the budget, entered in no ledger."""
        return self._dear.again(state, points)

    def pending(self, state: State | OnCheap) -> np.ndarray:
        """Points of the log joint to be evaluated, (m, D)."""
        return (
            np.zeros((0, self.caller.dimension)) if isinstance(state, OnCheap) else self._dear.pending(state)
        )

    def alone(self, state: State | OnCheap) -> bool:
        """Whether steps have to be made before the run can be asked for points."""
        return isinstance(state, OnCheap)

    def with_more(self, state: State, count: int) -> State:
        """The state with further points of the log joint."""
        return self._dear.with_more(state, count)

    def with_evaluations(self, state: State | OnCheap, evaluations: Evaluations) -> State | OnCheap:
        """The state with evaluations of a step that was cut short."""
        if isinstance(state, OnCheap):
            return OnCheap(self._cheap.with_evaluations(state.state, evaluations))
        return self._dear.with_evaluations(state, evaluations)

    def checkpoint(self, state: State | OnCheap) -> Checkpoint:
        """The state, and what it was begun with."""
        if isinstance(state, OnCheap):
            return Checkpoint(DOOR, self._cheap.checkpoint(state.state).settings, state, 0)
        return self._dear.checkpoint(state)

    def place(self, state: State | OnCheap) -> str:
        """After how many evaluations."""
        if isinstance(state, OnCheap):
            return f"{self._cheap.place(state.state)} of the cheap model, before any of the log joint"
        return self._dear.place(state)

    def standing(self, state: State | OnCheap) -> Standing:
        """How far it has come."""
        if isinstance(state, OnCheap):
            return replace(self._cheap.standing(state.state), unit="evaluations of the cheap model")
        return self._dear.standing(state)
