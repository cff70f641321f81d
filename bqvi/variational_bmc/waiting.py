"""VBMC with asynchronous workers: the choice of next points while other points are being evaluated.

    values told --learn--> surrogate, q          once as many values as a batch are new, or none is pending
    pending, new --condition--> its variances    (Ginsbourger et al. 2010: by a rank-one update for each)
                 --acquisition--> next points

The surrogate's variances are conditioned on pending points, and its mean is not, as their values are unknown.
The first design is continued until half of it has values. Exploration proposes its points in the same way,
and is repeated from the known values each time values return, as `climbing` is. A run is determined by the
seed and by the order in which values return between proposals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bqvi.calls import AsksError, require_good
from bqvi.calls.climb import Asking, rows_of
from bqvi.variational_bmc.climbing import next_step
from bqvi.variational_bmc.state import Estimate, State
from bqvi.variational_bmc.steps import batch_size, design, record, with_next, with_pending

if TYPE_CHECKING:
    from bqvi.variational_bmc.vbmc_run import VBMCRun


def with_more(run: VBMCRun, state: State, count: int) -> State:
    """The ``state`` of a ``run`` with up to ``count`` further pending points, with none if it has ended."""
    if not run.clock.runs:
        run.clock.starts(state.seconds)
    if _in_design(run, state):
        reached = _designed(run, state, count)
    else:
        reached = state if state.rows and not _due(run, state) else _learned(run, state)
        left = count - (len(reached.pending) - len(state.pending))
        if left > 0 and run.finished(reached) is None:
            reached = _chosen(run, reached, left)
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


def _due(run: VBMCRun, state: State) -> bool:
    """Whether the surrogate should be fitted to the values that returned since its last fit."""
    new = len(state) - state.rows[-1].n_evaluations
    return new >= batch_size(state, run.settings) or (new > 0 and not len(state.pending))


def _learned(run: VBMCRun, state: State) -> State:
    """The state with a record of all its values."""
    require_good(state.evaluations, 2)
    fitted, estimate = run.learn(state)
    row = record(state, fitted, estimate)
    most = run.explores(state, row, estimate)
    if most:
        fitted = _explored(run, fitted, estimate, most)
    reached = replace(fitted, rows=(*state.rows, row), before=state.known)
    run.learned = (reached.rows, estimate)
    return reached


def _explored(run: VBMCRun, state: State, estimate: Estimate, most: int) -> State:
    """The state with the points that exploration proposes, ``most`` at most; ``explored`` without any."""
    asking = Asking(state.evaluations.censored)
    try:
        return replace(state, exploration=run.explored(asking, state, estimate, most))
    except AsksError as asks:
        room = run.budget_of(state).room(len(state.pending) + len(asks.points)) - len(state.pending)
        return with_pending(state, _not_pending(state, asks.points)[: max(room, 0)])


def _chosen(run: VBMCRun, state: State, count: int) -> State:
    """The state with points chosen by the acquisition, given the points that are being evaluated."""
    reached = with_pending(state, _climbing(run, state)[:count])
    count -= len(reached.pending) - len(state.pending)
    if count <= 0:
        return reached
    learned, estimate = _latest(run, state)
    test = _not_pending(reached, run.test_of_noise(reached, estimate))
    reached, count = with_pending(reached, test), count - len(test)
    if count <= 0:
        return reached
    tested = run.tested(reached, estimate)
    if tested is not None:
        return tested
    begun, each = len(reached) + len(reached.pending), batch_size(reached, run.settings)
    seed = run.seed_at(state, begun)
    waiting = np.concatenate([reached.evaluations.points[learned:], reached.pending])
    leading = -begun % each < count
    return with_next(reached, estimate, count, seed, run.settings.variational, waiting, leading)


def _latest(run: VBMCRun, state: State) -> tuple[int, Estimate]:
    """The number of values of the last fit and its estimate, computed again where it is not kept."""
    n = state.rows[-1].n_evaluations
    if run.learned is None or run.learned[0] is not state.rows:
        then = replace(state, evaluations=state.evaluations[:n], predicted=state.predicted[:n])
        run.learned = (state.rows, run.learn(then.before_last_record())[1])
    return n, run.learned[1]
