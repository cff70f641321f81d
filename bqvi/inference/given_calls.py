"""The user's choices for calls of a log joint: how they are carried out, and earlier evaluations.

Every estimator evaluates a `LogJoint` through `bqvi.calls`, in coordinates without bounds. Earlier
evaluations and the treatment of points without a value are for those that keep their evaluations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bqvi.calls import Run, make_coordinates
from bqvi.calls.caller import evaluation_arrays
from bqvi.calls.selection import selected
from bqvi.calls.target_model import box_around
from bqvi.gradients import BayesianQuadrature, Estimator, RememberingEstimator
from bqvi.gradients.evaluations import is_as_stated
from bqvi.inference.methods import Method
from bqvi.inference.state import LoopState
from bqvi.models.log_joint import LogJoint


def with_calls(model: Any, choice: Method | None, method: str | Estimator, run: Run, known: object) -> Any:
    """The model as a ``run`` evaluates it, one of another package in the coordinates of its box.

    Methods that keep no evaluations begin at N(0, I) for such a model, as for any log joint.

    Parameters
    ----------
    choice, method : as of `choices.problem_of`. run, known : as of `fit`, with its ``evaluations``.
    """
    estimator = method if choice is None else choice.estimator(None)
    keeps = isinstance(estimator, RememberingEstimator)
    stated = {"run.executor": run.executor, "evaluations": known, "run.errors": run.errors,
              "run.n_jobs": None if run.n_jobs == 1 else run.n_jobs}  # fmt: skip
    given = [name for name, value in stated.items() if value is not None]
    if not is_as_stated(model):
        if given:
            raise TypeError(
                f"{given[0]} was given, but model is a {type(model).__name__}; it is for a LogJoint"
            )
        return model
    if not keeps and (known is not None or run.errors == "infeasible"):
        name = "run.errors='infeasible'" if known is None else "evaluations"
        raise ValueError(
            f"{name} was given with method {method!r}, which averages over draws from q; it is for methods "
            "that keep their evaluations, such as 'bq'"
        )
    if model.function.noise_sd is not None and not isinstance(estimator, BayesianQuadrature):
        raise ValueError(
            f"the log joint has a noise_sd, and method is {method!r}; it is for 'bq', whose process takes it"
        )
    target = model.target
    if target is None or not keeps:
        return model.within(None, run) if given else model
    around = (None, None) if target.boxed else box_around(np.atleast_2d(np.asarray(target.start)))
    return model.within(make_coordinates(None, None, *target.box(*around), names=target.names), run)


def with_known(model: LogJoint, state: LoopState, evaluations: object, budget: int | None) -> LoopState:
    """The state before the first step with evaluations that were made before.

    Parameters
    ----------
    evaluations : theta and values, then gradients; see `fit`.
    budget : the budget, in which the evaluations count.
    """
    from bqvi.gradients.evaluations import caller_of

    arrays = evaluation_arrays(evaluations)
    assert arrays is not None  # called only where evaluations were given
    if len(arrays) == 4:
        raise ValueError("evaluations has noise sds; give them as noise_sd of the LogJoint")
    if not hasattr(state.memory, "with_evaluations"):
        raise ValueError("evaluations was given, and the estimator keeps none (memory=0)")
    if model.differentiable and (len(arrays) < 3 or arrays[2] is None):
        raise ValueError(
            "evaluations has no gradients, and the log joint has; give (theta, values, gradients), or a log "
            "joint with gradient=None"
        )
    shape = np.shape(np.atleast_2d(np.asarray(arrays[0])))
    if model.coordinates is None and shape[1:] != (model.dimension,):
        raise ValueError(
            f"evaluations has theta of shape {shape}; it must be (n, {model.dimension}), of the "
            "parameters of the log joint"
        )
    rows = caller_of(model).given(*arrays)
    rows = selected(rows if model.differentiable else replace(rows, gradients=None), budget)
    spent = state.step_evaluations + len(rows)
    return replace(state, memory=state.memory.with_evaluations(rows), step_evaluations=spent)
