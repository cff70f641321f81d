"""The log joint of a model and its gradient at chosen points, through `bqvi.calls`.

A `LogJoint` is called as its user states it, in NumPy where it is of NumPy; any other model by its log joint
as a torch function of draws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bqvi.calls import Caller, Evaluations, Function
from bqvi.calls.function import AUTODIFF
from bqvi.gradients.gradient import Batch
from bqvi.models.conjugate import is_conjugate
from bqvi.models.log_joint import LogJoint, is_moving


def differentiable(model: Any) -> bool:
    """Whether the model's log joint has a gradient."""
    return bool(getattr(model, "differentiable", True))


def evaluate(model: Any, q: Any, batch: Batch, points: np.ndarray, first: bool = False) -> Evaluations:
    """At theta (n, D); each evaluation is entered in ``batch.ledger`` as it returns, if there is one.

    Parameters
    ----------
    first : whether nothing has been evaluated before with success.

    Returns
    -------
    Evaluations
        ``n_evaluations`` is in the loop's units: per datum, or of the log joint for a model without data.

    Raises
    ------
    EvaluationError
        See :meth:`bqvi.calls.Caller.evaluate`.
    """
    caller = Caller(_function(model, q, batch), cost=max(batch.size, 1))
    found = caller.evaluate(points, batch.ledger, first=first)
    return replace(found, n_evaluations=batch.size) if is_conjugate(model) else found


def _function(model: Any, q: Any, batch: Batch) -> Function:
    """The log joint of the batch at q, as a function of theta."""
    as_stated = not is_moving(model) and getattr(type(model), "log_prior", None) is LogJoint.log_prior
    if as_stated and model.function.gradient != AUTODIFF:
        found: Function = model.function
        return found
    from bqvi.gradients.black_box import log_joint_function, reference_tensor

    like = reference_tensor(model, batch.rows)
    if as_stated:
        on_torch: Function = replace(model.function, like=like)
        return on_torch
    log_joint = log_joint_function(model, q, batch)
    vectorised = bool(getattr(model, "vectorised", True))
    return Function(
        log_joint if vectorised else lambda theta: log_joint(theta[None])[0],
        AUTODIFF if differentiable(model) else None,
        vectorised=vectorised,
        like=like,
    )
