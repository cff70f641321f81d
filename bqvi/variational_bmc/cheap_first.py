"""A run on a cheap model of the log joint, then one on the log joint, which begins with its posterior.

    OnCheap(state) --the steps of a run on the cheap model, until it ends--> CheapModel, q, frame
                   --_begun--> the first state on the log joint: that frame, and in the prior mean the cheap
                              model's posterior mean (`surrogate`)

The first points of the log joint are draws of that q, and as many points of the plausible box, in case the
cheap model is wrong. A cheap model may be improper: where its q diverges, the run continues without it, with
a warning. Both are runs of :mod:`bqvi.variational_bmc.vbmc_run`, with a budget for each. Evaluations of the
cheap model are entered in the same ledger, so that they are kept however the run ends, and the run can be
resumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import Budget, Evaluations
from bqvi.runs import Checkpoint, RunStatus
from bqvi.variational_bmc.correction import proposal_of
from bqvi.variational_bmc.diagnostics import about_width
from bqvi.variational_bmc.result import VBMCResult
from bqvi.variational_bmc.state import CheapModel, State
from bqvi.variational_bmc.vbmc_run import DOOR, VBMCRun


@dataclass(frozen=True, eq=False)
class OnCheap:
    """The state of a run during its first phase, which is that of the run on the cheap model."""

    state: State

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations of the log joint, which is zero."""
        return 0


class CheapFirst:
    """The engine of both runs, one after the other (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    cheap, expensive : the runs on the cheap model and on the log joint.
    given : the number of first points of the run on the log joint that the user gave.
    """

    small = True

    def __init__(self, cheap: VBMCRun, expensive: VBMCRun, given: int) -> None:
        self._cheap, self._expensive, self._given = cheap, expensive, given
        self.ledger = cheap.ledger = expensive.ledger
        self.caller = expensive.caller

    def init(self) -> OnCheap:
        return OnCheap(self._cheap.init())

    def _of(self, state: State | OnCheap) -> tuple[VBMCRun, State]:
        """The run that is under way, and its own state."""
        return (self._cheap, state.state) if isinstance(state, OnCheap) else (self._expensive, state)

    def resumed(self, state: State | OnCheap) -> State | OnCheap:
        """The state of an earlier run; ValueError where that run had no cheap model."""
        if isinstance(state, OnCheap):
            return OnCheap(self._cheap.resumed(state.state))
        if state.cheap is None:
            raise ValueError("resume was run without a cheap model: leave cheap out, or start anew")
        return self._expensive.resumed(state)

    def step(self, state: State | OnCheap) -> State | OnCheap:
        """Take a step on the cheap model or, once that run has ended, hand over to the log joint."""
        if not isinstance(state, OnCheap):
            return self._expensive.step(state)
        if self._cheap.finished(state.state) is None:
            state = OnCheap(self._cheap.step(state.state))
        return state if self._cheap.finished(state.state) is None else self._begun(state.state)

    def _begun(self, last: State) -> State:
        """The first state on the log joint, given the last on the cheap model."""
        q, frame = last.q, last.frame
        used = q is not None and not about_width(frame.measure(q), self._expensive.coordinates)
        cheap = CheapModel(last.evaluations, frame, last.psi, used)
        first = replace(self._expensive.first, cheap=cheap, seconds=last.seconds)
        if q is None or not used:
            return first
        first = replace(first, frame=frame, q=q, mean=last.mean, covariance=last.covariance)
        given, designed = first.pending[: self._given], first.pending[self._given :]
        count = (len(designed) + 1) // 2
        if not count:
            return first
        draws = proposal_of(q).draws(count, self._expensive.seed)
        draws[0] = q.mean
        return replace(first, pending=np.concatenate([given, frame.out(draws), designed[:-count]]))

    def finished(self, state: State | OnCheap) -> str | None:
        return None if isinstance(state, OnCheap) else self._expensive.finished(state)

    def result(self, state: State | OnCheap, reason: str) -> VBMCResult:
        """The result of the second run; ValueError where that has not begun."""
        if isinstance(state, OnCheap):
            raise ValueError(f"the run ended {self.status(state).place}: resume it")
        return self._expensive.result(state, reason)

    def with_evaluations(self, state: State | OnCheap, evaluations: Evaluations) -> State | OnCheap:
        run, inner = self._of(state)
        found = run.with_evaluations(inner, evaluations)
        return OnCheap(found) if isinstance(state, OnCheap) else found

    def checkpoint(self, state: State | OnCheap) -> Checkpoint:
        if not isinstance(state, OnCheap):
            return self._expensive.checkpoint(state)
        settings = self._expensive.checkpoint(state.state).settings
        return Checkpoint(DOOR, settings, state, 0, n_cheap_evaluations=state.state.n_evaluations)

    def status(self, state: State | OnCheap) -> RunStatus:
        if not isinstance(state, OnCheap):
            return self._expensive.status(state)
        found = replace(self._cheap.status(state.state), unit="evaluations of the cheap model")
        return replace(found, where=f"{found.place}, before any of the log joint")

    def budget_of(self, state: State | OnCheap) -> Budget:
        """The budget of the log joint, all of which remains in the first run."""
        return self._expensive.budget_of(self._expensive.first if isinstance(state, OnCheap) else state)

    def kept(self, state: State | OnCheap) -> Evaluations | None:
        return None if isinstance(state, OnCheap) else self._expensive.kept(state)

    def require_consistent(self, before: State | OnCheap, after: State | OnCheap) -> None:
        if isinstance(before, OnCheap) == isinstance(after, OnCheap):
            run, inner = self._of(before)
            run.require_consistent(inner, self._of(after)[1])

    def alone(self, state: State | OnCheap) -> bool:
        """Whether steps have to be made before the run can be asked for points: those of the first run."""
        return isinstance(state, OnCheap)

    def pending(self, state: State | OnCheap) -> np.ndarray:
        """Points (m, D) that were chosen and have no values yet: none in the first run."""
        return np.zeros((0, self.caller.dimension)) if isinstance(state, OnCheap) else state.pending

    def with_more(self, state: State, count: int) -> State:
        return self._expensive.with_more(state, count)
