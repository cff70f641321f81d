"""A run on a cheap model of the log joint, then one on the log joint, which begins with its posterior.

    OnCheap(state) --the steps of a run on the cheap model, until it ends--> CheapModel, q, frame
                   --begun--> the first state on the log joint: that frame, and in the prior mean the cheap
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
    """The run on the cheap model as the first phase of a run (:class:`bqvi.runs.two_phases.First`).

    Parameters
    ----------
    cheap, expensive : the runs on the cheap model and on the log joint.
    given : the number of first points of the run on the log joint that the user gave.
    """

    alone = True
    advice = "resume it"

    def __init__(self, cheap: VBMCRun, expensive: VBMCRun, given: int) -> None:
        self._cheap, self.second, self._given = cheap, expensive, given
        self.ledger = cheap.ledger = expensive.ledger
        self.caller = expensive.caller

    def init(self) -> OnCheap:
        return OnCheap(self._cheap.init())

    def resumed(self, state: State | OnCheap) -> State | OnCheap:
        """The state of an earlier run; ValueError where that run had no cheap model."""
        if isinstance(state, OnCheap):
            return OnCheap(self._cheap.resumed(state.state))
        if state.cheap is None:
            raise ValueError("resume was run without a cheap model: leave cheap out, or start anew")
        return self.second.resumed(state)

    def step(self, state: OnCheap) -> State | OnCheap:
        """Take a step on the cheap model or, once that run has ended, hand over to the log joint."""
        if self._cheap.finished(state.state) is None:
            state = OnCheap(self._cheap.step(state.state))
        return state if self._cheap.finished(state.state) is None else self.second_start(state)

    def second_start(self, state: OnCheap) -> State:
        """The first state on the log joint, given the last on the cheap model."""
        last = state.state
        q, frame = last.q, last.frame
        used = q is not None and not about_width(frame.measure(q), self.second.coordinates)
        cheap = CheapModel(last.evaluations, frame, last.psi, used)
        first = replace(self.second.first, cheap=cheap, seconds=last.seconds)
        if q is None or not used:
            return first
        first = replace(first, frame=frame, q=q, mean=last.mean, covariance=last.covariance)
        given, designed = first.pending[: self._given], first.pending[self._given :]
        count = (len(designed) + 1) // 2
        if not count:
            return first
        draws = proposal_of(q).draws(count, self.second.seed)
        draws[0] = q.mean
        return replace(first, pending=np.concatenate([given, frame.out(draws), designed[:-count]]))

    def budget_of(self, state: OnCheap) -> Budget:
        """The budget of the log joint, all of which remains."""
        return self.second.budget_of(self.second.first)

    def kept(self, state: OnCheap) -> None:
        """No evaluations of the log joint."""

    def require_consistent(self, before: OnCheap, after: OnCheap) -> None:
        """Raise EvaluationError where given gradients are not those of the values."""
        self._cheap.require_consistent(before.state, after.state)

    def with_evaluations(self, state: OnCheap, evaluations: Evaluations) -> OnCheap:
        """The state with evaluations of a step that was cut short."""
        return OnCheap(self._cheap.with_evaluations(state.state, evaluations))

    def checkpoint(self, state: OnCheap) -> Checkpoint:
        """The state together with the arguments of its run."""
        settings = self._cheap.checkpoint(state.state).settings
        return Checkpoint(DOOR, settings, state, 0, n_cheap_evaluations=state.state.n_evaluations)

    def recorded(self, checkpoint: Checkpoint) -> Checkpoint:
        """The ``checkpoint`` unchanged, as states on the log joint contain the cheap model."""
        return checkpoint

    def status(self, state: OnCheap) -> RunStatus:
        """The progress of the run on the cheap model."""
        found = replace(self._cheap.status(state.state), unit="evaluations of the cheap model")
        return replace(found, where=f"{found.place}, before any of the log joint")
