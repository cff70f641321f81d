"""A fit that returns points to evaluate and takes their values in any order (`bqvi.runs.Steps`).

    told --beginning--> next points | q       one after the other (`beginning`), before the first step
    told --estimator--> gradient --> q        once the new values suffice for a step, or no point is pending
    q, memory --process | pending, told--> next points

Points without values, and values that no step has used yet, condition the variances of the process and not
its mean. A fit is determined by the seed and by the order in which values return between proposals.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.calls import Account, Budget, Evaluations, Ledger, Told
from bqvi.calls.table import rows_of
from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.evaluations import is_as_stated
from bqvi.inference.monitor import Monitor
from bqvi.inference.state import LoopProblem, LoopState


def require_asked(problem: LoopProblem, monitor: Monitor) -> None:
    """Raise TypeError or ValueError unless points of the fit can be evaluated outside of it, one at a time.

    Parameters
    ----------
    problem : the problem of the run. monitor : the monitor of its records, which must take no evaluations.
    """
    estimator, model = problem.estimator, problem.model
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


def due(problem: LoopProblem, state: LoopState) -> bool:
    """Whether enough values have returned for a step."""
    received = 0 if state.unfinished is None else len(state.unfinished)
    if not received:
        return False
    return not len(state.pending) or received >= _estimator(problem).count(state.q.dimension, state.memory)


def account_of(state: LoopState) -> Account:
    """The account of a step that uses the evaluations given by the user.

    A step that makes a record alone leaves these evaluations for the next one.
    """
    assert state.unfinished is not None  # a step is under way
    ledger = Ledger(state.q.dimension)
    ledger.enter(state.unfinished)
    return Account(ledger, given=state.unfinished)


def beginning_of(state: LoopState) -> Account:
    """The account of the search of the beginning, which asks for points without values by an `AsksError`."""
    if state.unfinished is None:
        return Account(unfinished=Told(Evaluations.none(state.q.dimension)))
    return replace(account_of(state), given=None, unfinished=Told(state.unfinished))


def asking(state: LoopState, points: np.ndarray) -> LoopState:
    """The state with those of the points (m, D) pending that are not yet."""
    pending = state.pending.reshape(-1, points.shape[1])
    return replace(state, pending=np.concatenate([pending, points[rows_of(pending, points) < 0]]))


def chosen(problem: LoopProblem, state: LoopState, count: int, budget: Budget) -> LoopState:
    """The state with ``count`` further pending points; at first with as many as the first step evaluates.

    ``budget`` is the one that remains at ``state``.
    """
    estimator, dimension = _estimator(problem), state.q.dimension
    known = [] if state.unfinished is None else [state.unfinished.points]
    pending = state.pending.reshape(-1, dimension)
    waiting = np.concatenate([*known, pending])
    if not len(state.memory) and not len(waiting):
        count = max(count, budget.room(estimator.count(dimension, state.memory)))
    if not count:
        return state
    points, memory = estimator.asked(problem.model, state.q, count, state.rng, state.memory, waiting)
    return replace(state, memory=memory, pending=np.concatenate([pending, points]))


def _estimator(problem: LoopProblem) -> BayesianQuadrature:
    assert isinstance(problem.estimator, BayesianQuadrature)  # `require_asked` refuses others
    return problem.estimator
