"""A step of VBMC between evaluations: fit to the values, explore where that is due, and choose next points.

    values --learn--> surrogate, q --> record --> exploration, or points by the acquisition

With asynchronous workers other points are being evaluated meanwhile. A fit is then due once as many values
as a batch are new, or none is pending. The surrogate's variances are conditioned on pending points
(Ginsbourger et al. 2010: by a rank-one update for each), and its mean is not, as their values are unknown.
The first design is continued until half of it has values. Exploration proposes its points in the same way,
and is repeated from the known values each time values return, as `climbing` is; without workers it
evaluates them itself. A run is determined by the seed and by the order in which values return between
proposals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bqvi.calls import AsksError, Evaluations, require_good
from bqvi.calls.climb import Asking
from bqvi.calls.table import rows_of
from bqvi.variational_bmc.climbing import next_step
from bqvi.variational_bmc.state import Estimate, State, evaluated
from bqvi.variational_bmc.steps import batch_size, design, record, with_next, with_pending

if TYPE_CHECKING:
    from bqvi.variational_bmc.vbmc_run import VBMCRun


def advanced(run: VBMCRun, state: State, count: int | None, explores: bool = True) -> State:
    """The ``state`` of a ``run`` after a fit, if one is due, with further pending points.

    There are up to ``count`` of these, or a batch where it is None, as all pending points have been evaluated
    then. There are none where the run has ended or exploration has evaluated points. ``explores`` is False
    in the step after an exploration, so that it is followed by points of the acquisition.
    """
    if not run.clock.runs:
        run.clock.starts(state.seconds)
    if count is not None and _in_design(run, state):
        reached = _designed(run, state, count)
    else:
        new = len(state) - (state.rows[-1].n_evaluations if state.rows else 0)
        fits = (
            not state.rows or new >= batch_size(state, run.settings) or (new > 0 and not len(state.pending))
        )
        reached = _learned(run, state, count is None, explores) if fits else state
        left = 1 if count is None else count - (len(reached.pending) - len(state.pending))
        ready = count is not None or reached.recorded
        if left > 0 and ready and run.finished(reached) is None:
            reached = _chosen(run, reached, None if count is None else left)
    return replace(reached, seconds=run.clock.spent)


def _in_design(run: VBMCRun, state: State) -> bool:
    """Whether too few points have values for a surrogate, while others are being evaluated or can be."""
    if state.rows:
        return False
    design = len(run.first.pending) + len(run.first.evaluations)
    good = int((~state.evaluations.failed).sum())
    if 0 < good < 2 and len(state) >= design:
        return run.budget_of(state).room(1) > 0
    least = min(design, max(run.target.dimension + 3, design // 2))
    return good < least and len(state) < design


def _designed(run: VBMCRun, state: State, count: int) -> State:
    """The state with points of the climb to the mode, if there are gradients, and of the first design."""
    begun = len(state) + len(state.pending)
    climb = _climbing(run, state)
    more = design(run.target.dimension, begun + count, run.seed)[begun : begun + count - len(climb)]
    return with_pending(state, np.concatenate([climb, more]))


def _climbing(run: VBMCRun, state: State) -> np.ndarray:
    """The next point of the climb to the mode, (1, D), or none, (0, D)."""
    none = np.zeros((0, run.target.dimension))
    if not len(state):
        return none
    point = next_step(state.evaluations)
    return none if point is None else _not_pending(state, point[None])


def _not_pending(state: State, points: np.ndarray) -> np.ndarray:
    """The points among (m, D) that are not pending."""
    return points[rows_of(state.pending, points) < 0]


def _learned(run: VBMCRun, state: State, calls: bool, explores: bool) -> State:
    """The state with a record of its values, and the points of an exploration; or with their values.

    Where exploration evaluates its points itself (``calls``), the record is made from these too, in the next
    step or, if the budget cuts it short, in this one; a run that goes on repeats it from the fit before it.
    """
    begun = state.begun
    require_good(begun.evaluations, 2, run.target.function.range.title)
    fitted, estimate = run.learn(begun)
    row = record(begun, fitted, estimate)
    most = run.explores(begun, row, estimate) if explores else 0
    reached = replace(fitted, rows=(*begun.rows, row), before=begun.known, fits_at=0)
    if most:
        source = _Exploring(run, state, len(begun)) if calls else Asking(state.evaluations.censored)
        try:
            found = run.explored(source, fitted, estimate, most)
            row = record(begun, replace(fitted, exploration=found), estimate)
            reached = replace(reached, exploration=found, rows=(*begun.rows, row))
        except AsksError as asks:
            room = run.budget_of(state).room(len(state.pending) + len(asks.points)) - len(state.pending)
            reached = with_pending(reached, _not_pending(state, asks.points)[: max(room, 0)])
        if isinstance(source, _Exploring) and len(source.reached) > len(begun):
            further = replace(source.reached, exploration=found, fits_at=0)
            if not source.cut:
                return further
            return replace(_learned(run, further, calls, False), fits_at=len(begun))
    reached, estimate = run.with_scales(begun, reached, estimate)
    run.learned = (reached.rows, estimate)
    return reached


class _Exploring:
    """A run of VBMC as a source of evaluations for exploration (`bqvi.calls.climb.Evaluating`).

    An exploration that was cut short is made again from its beginning: its evaluations are shown in the order
    in which they are asked for, and are not made again.
    """

    def __init__(self, run: VBMCRun, reached: State, shown: int) -> None:
        self._run, self.reached, self._shown = run, reached, shown
        self.cut = False
        """Whether the budget allowed a part of the points only."""

    @property
    def made(self) -> Evaluations:
        return self.reached.evaluations[np.arange(self._shown)].censored

    def evaluate(self, points: np.ndarray) -> bool:
        needed = points[len(self.reached) - self._shown :]
        if len(needed):
            budget = self._run.budget_of(self.reached)
            room = 0 if self._run.clock.over else budget.room(len(needed))
            if room:
                self.reached = evaluated(self.reached, self._run.call(needed[:room], budget))
            self.cut = room < len(needed)
        self._shown = min(self._shown + len(points), len(self.reached))
        return not self.cut


def _chosen(run: VBMCRun, state: State, count: int | None) -> State:
    """The state with points chosen by the acquisition, given the points that are being evaluated."""
    reached = state
    if count is not None:
        reached = with_pending(state, _climbing(run, state)[:count])
        count -= len(reached.pending) - len(state.pending)
        if count <= 0:
            return reached
    learned, estimate = _latest(run, state)
    test = _not_pending(reached, run.test_of_noise(reached, estimate))
    reached = with_pending(reached, test)
    tested = run.tested(reached, estimate)
    if tested is not None:
        return tested
    each, alone = batch_size(reached, run.settings), count is None
    count = each if count is None else count - len(test)
    if count <= 0:
        return reached
    begun = len(reached) + len(reached.pending)
    seed = run.seed_at(state, *(() if alone else (begun,)))
    waiting = np.concatenate([reached.evaluations.points[learned:], reached.pending])
    leading = -begun % each < count
    return with_next(reached, estimate, count, seed, run.settings.variational, waiting, leading)


def _latest(run: VBMCRun, state: State) -> tuple[int, Estimate]:
    """The number of values of the last fit and its estimate, computed again where it is not kept."""
    n = state.rows[-1].n_evaluations
    if run.learned is None or run.learned[0] is not state.rows:
        then = replace(state, evaluations=state.evaluations[:n], predicted=state.predicted[:n])
        before = then.before_last_record()
        reached, estimate = run.learn(before)
        reached = replace(reached, rows=(*before.rows, record(before, reached, estimate)))
        run.learned = (state.rows, run.with_scales(before, reached, estimate)[1])
    return n, run.learned[1]
