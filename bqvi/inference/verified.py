"""Whether the log joint of a run that goes on is that of the run before: a few evaluations made again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.calls import Account, Budget
from bqvi.gradients.gradient import Batch
from bqvi.inference.loop import Problem, State

_SAME = 1e-6
"""Relative difference of values that other threads or another machine may bring."""


class OtherFunctionError(ValueError):
    """The log joint gives other values than in the run that is resumed."""


def verified(problem: Problem, state: State, count: int, budget: Budget) -> State:
    """The state with ``count`` of its evaluations made again, which are counted.

    Parameters
    ----------
    problem : of a log joint without data, with an estimator that keeps evaluations.
    state : where the run stands.
    count : as many as the budget has room for, and as there are.
    budget : what is left.

    Raises
    ------
    OtherFunctionError
        A value differs by more than a millionth, or there is none where there was one.
    """
    from bqvi.gradients.evaluations import evaluate

    memory = getattr(state.memory, "known", state.memory)
    rows = np.unique(np.linspace(0, len(memory) - 1, min(count, len(memory))).round().astype(int))
    if not len(memory):
        return state
    batch = Batch(None, 0, account=Account(budget=budget))
    found = evaluate(problem.model, state.q, batch, memory.points[rows])
    before = memory.values[rows[: len(found)]]
    scale = 1.0 + np.abs(before)
    differ = ~(np.abs(found.values - before) <= _SAME * scale)
    if differ.any():
        first = int(np.argmax(differ))
        coordinates = getattr(problem.model, "coordinates", None)
        at = found.points[first] if coordinates is None else coordinates.to_user(found.points[[first]])[0]
        raise OtherFunctionError(
            f"the log joint is not that of the run to resume: {int(differ.sum())} of {len(found)} "
            f"evaluations made again differ, at theta = {at.tolist()} by "
            f"{found.values[first] - before[first]:.3g}; resume with the function that the run was begun "
            "with, or start anew"
        )
    return replace(state, evaluations=state.evaluations + found.n_evaluations)
