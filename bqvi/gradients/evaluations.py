"""The log joint of a model and its gradient at chosen points, through `bqvi.calls`.

A `LogJoint` is called in the form in which its user gave it, with NumPy arrays or tensors; any other model by
its log joint as a torch function of draws.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from bqvi.calls import HERE, Caller, Evaluations, Function, Range
from bqvi.calls.draws import at_each_draw
from bqvi.calls.function import AUTODIFF
from bqvi.families.family import Distribution
from bqvi.gradients.gradient import Batch
from bqvi.models.contracts import is_conjugate
from bqvi.models.data import Data, n_rows
from bqvi.models.log_joint import VALUES_ONLY, LogJoint, LogJointModel, is_moving
from gp.arrays import to_numpy

if TYPE_CHECKING:
    import torch


def differentiable(model: LogJointModel) -> bool:
    """Whether the model's log joint has a gradient."""
    return bool(getattr(model, "differentiable", True))


def evaluate(
    model: LogJointModel,
    q: Distribution,
    batch: Batch,
    points: np.ndarray,
    first: bool = False,
    gradients: bool = True,
) -> Evaluations:
    """Evaluate at theta (n, D), as far as ``batch.account`` allows; evaluations are entered in its ledger.

    Parameters
    ----------
    model : a log joint with or without data. q : the distribution at which a moving log joint is taken.
    batch : the rows, their weights (S,), and the account. points : theta (n, D).
    first : whether no evaluation has succeeded before.
    gradients : whether gradients are made, if there are any.

    Returns
    -------
    Evaluations
        ``n_evaluations`` is in the loop's units: per datum, or of the log joint for a model without data.

    Raises
    ------
    EvaluationError
        See :meth:`bqvi.calls.Caller.evaluate`.
    """
    function = _function(model, q, batch)
    watched = gradients and batch.account.first and batch.account.entered is not None
    return _called(
        function if gradients else _values_of(function, model), model, batch, points, first, watched
    )


def at_draws(model: LogJoint, batch: Batch, theta: torch.Tensor) -> torch.Tensor:
    """The values (L,) of a `LogJoint` at draws theta (L, D), with its gradients in torch's graph.

    Only values are made where ``theta`` requires no gradient; otherwise as `evaluate_at_draws`.

    Parameters
    ----------
    model, batch : as there. theta : the draws (L, D), a tensor.
    """
    import torch

    from bqvi.gradients.black_box import with_gradients

    points = to_numpy(theta).astype(float)
    with torch.enable_grad():  # the user's function may need derivatives of its own
        made = evaluate_at_draws(model, batch, points, theta.requires_grad)
    return with_gradients(theta, made.values, made.gradients)


def evaluate_at_draws(model: LogJoint, batch: Batch, points: np.ndarray, gradients: bool) -> Evaluations:
    """The values of a `LogJoint`, and its ``gradients``, at draws theta (L, D) for a mean over them.

    They are made through `bqvi.calls` like all evaluations: a step that was cut short uses those that had
    returned when it is made again.

    Parameters
    ----------
    model : a `LogJoint`. batch : the account whose ledger and budget count the L evaluations; its rows say on
        which device and in which precision a function of torch is called.
    points : the draws theta (L, D). gradients : whether gradients are made as well.

    Raises
    ------
    EvaluationError
        The function raised, or has no finite value, or no finite gradient, at one of the draws.
    ValueError
        Gradients are asked for, and the `LogJoint` has none.
    """
    function = at_each_draw(_stated(model, batch.rows))
    if not gradients:
        function = _values_of(function, model)
    elif function.gradient is None:
        raise ValueError(VALUES_ONLY)
    made = _called(function, model, batch, points, batch.account.first, watched=batch.account.first)
    if batch.account.entered is not None:
        batch.account.entered.enter(made)
        batch.account.entered.n_beside += made.n_evaluations - len(made)
    return made


def evaluate_values(model: LogJointModel, q: Distribution, batch: Batch, points: np.ndarray) -> Evaluations:
    """Values alone at theta (n, D), for their mean: -inf is a value, and NaN marks numerical failures.

    Parameters
    ----------
    model : a log joint with or without data. q : the distribution at which a moving log joint is taken.
    batch : the rows, their weights (S,), and the account. points : theta (n, D).

    Raises
    ------
    EvaluationError
        f has an error in its code, or raised at all points, which is an error of the function too.
    """
    returned = Range("log joint", logarithmic=True)
    function = replace(_values_of(_function(model, q, batch), model), range=returned)
    found = _called(function, model, batch, points, first=True)
    coordinates = getattr(model, "coordinates", None)
    if coordinates is None:
        return found
    return replace(found, values=found.values + coordinates.log_jacobian(found.points))


def _values_of(function: Function, model: LogJointModel) -> Function:
    """The function without its gradient; one of torch is still called with tensors."""
    if function.gradient == AUTODIFF and function.like is None:
        function = replace(function, like=_like(model, None))
    return replace(function, gradient=None)


def caller_of(model: LogJoint) -> Caller:
    """The caller of a `LogJoint`'s function, in its coordinates."""
    return _caller(_stated(model, None), model, max(n_rows(model.data), 1))


def _caller(function: Function, model: LogJointModel, cost: int = 1) -> Caller:
    return Caller(function, getattr(model, "coordinates", None), getattr(model, "run", HERE), cost)


def _called(
    function: Function,
    model: LogJointModel,
    batch: Batch,
    points: np.ndarray,
    first: bool,
    watched: bool = False,
) -> Evaluations:
    account = batch.account
    caller = _caller(function, model, max(batch.size, 1))
    ask = partial(caller.evaluate, ledger=account.ledger, budget=account.budget, first=first, watched=watched)
    found = ask(points) if account.unfinished is None else account.unfinished.completed(points, ask)
    return replace(found, n_evaluations=batch.size) if is_conjugate(model) else found


def is_as_stated(model: LogJointModel) -> TypeGuard[LogJoint]:
    """Whether the model is a function that its user gave."""
    of_rows = getattr(model, "data", None) is not None
    return not (of_rows or is_moving(model)) and getattr(type(model), "log_prior", 0) is LogJoint.log_prior


def _stated(model: LogJoint, rows: Data) -> Function:
    """The user's function; if of torch, on the device and in the precision of the model or of ``rows``."""
    usual = rows is None and not (hasattr(model, "dtype") or hasattr(model, "device"))
    if usual or model.function.gradient != AUTODIFF:
        return model.function
    return replace(model.function, like=_like(model, rows))


def _like(model: LogJointModel, rows: Any) -> Any:
    from bqvi.gradients.black_box import reference_tensor

    return reference_tensor(model, rows)


def _function(model: LogJointModel, q: Distribution, batch: Batch) -> Function:
    """The log joint of the batch at q, as a function of theta."""
    if is_as_stated(model):
        return _stated(model, batch.rows)
    from bqvi.gradients.black_box import in_graph

    like = _like(model, batch.rows)
    log_joint = in_graph(model, q, batch)
    vectorised = bool(getattr(model, "vectorised", True))
    return Function(
        log_joint if vectorised else lambda theta: log_joint(theta[None])[0],
        AUTODIFF if differentiable(model) else None,
        vectorised=vectorised,
        like=like,
    )
