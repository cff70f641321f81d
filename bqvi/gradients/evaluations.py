"""The log joint and its gradient at chosen points, whatever the log joint does there.

An evaluation is *good* if it returns, and its value and gradient are finite and below `LARGEST` in size. The
others are faults: they are counted and described, never fitted. A function that raises on a batch is called
again point by point, so that one bad point costs no good one. What has been paid for is in the batch's
ledger, whatever happens next: an interrupt between two points, or a failure of what is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from bqvi.gradients.black_box import LogJointFunction, cost, log_joint_function, reference_tensor
from bqvi.gradients.gradient import Batch
from gp.arrays import to_numpy

LARGEST = 1e100
"""No log density of data has such values; they are overflows, or stand for 'impossible'."""


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What was paid for."""

    points: np.ndarray
    """Theta of the m good evaluations, (m, D)."""
    values: np.ndarray
    """F, (m,)."""
    gradients: np.ndarray
    """(m, D); (m, 0) for a model without gradients."""
    good: np.ndarray
    """Which of the points asked for these are, (n,)."""
    faults: tuple[str, ...]
    """One description for each of the others."""
    spent: int
    """In the loop's units: per datum, or of the log joint for a model without data."""


def differentiable(model: Any) -> bool:
    """Whether the model's log joint has a gradient."""
    return bool(getattr(model, "differentiable", True))


def evaluate(model: Any, q: Any, batch: Batch, points: np.ndarray) -> Evaluations:
    """At (n, D) points.

    What was found is entered in ``batch.ledger``, if there is one; of a call that is interrupted, what was
    found until then.

    Raises
    ------
    ValueError
        A log joint that is to be differentiated leaves torch on the way: its values differ, without a graph.
    """
    log_joint = log_joint_function(model, q, batch)
    function = _Function(log_joint, reference_tensor(model, batch.rows), differentiable(model))
    at_once = bool(getattr(model, "vectorised", True))
    tried: list[_Tried] = []
    try:
        for part in _attempts(function, points, at_once):
            tried.append(part)  # noqa: PERF402 (an interrupt leaves those before it)
    except BaseException:
        if tried and not _left_torch(function, _joined(tried)):
            _entered(batch, _sorted_out(points, _joined(tried), _spent(model, batch, points, tried, at_once)))
        raise
    whole = _joined(tried)
    if _left_torch(function, whole):
        raise ValueError(
            "the log joint has no gradient in theta: it leaves torch on the way (numpy, .item(), .detach()); "
            "write it in torch throughout, or give LogJoint gradient=None to use its values only"
        )
    return _entered(batch, _sorted_out(points, whole, _spent(model, batch, points, tried, at_once)))


class _Function(NamedTuple):
    """The log joint, as it is called."""

    log_joint: LogJointFunction
    like: torch.Tensor
    """Of the precision and device that it works in."""
    with_gradient: bool


class _Tried(NamedTuple):
    """What the log joint gave at n points."""

    values: np.ndarray
    gradients: np.ndarray
    """NaN where it raised, zero where it does not depend on theta."""
    reasons: list[str]
    """What was raised, at each point; empty where it returned."""
    without_graph: np.ndarray
    """Where the values depend on nothing, as far as torch knows, (n,)."""


def _attempts(function: _Function, points: np.ndarray, at_once: bool) -> Iterator[_Tried]:
    """At all points together, if it takes them and raises at none; otherwise one at a time."""
    if at_once:
        whole = _attempt(function, points)
        if not any(whole.reasons) or len(points) == 1:
            yield whole
            return
    for point in points:
        yield _attempt(function, point[None])


def _joined(parts: list[_Tried]) -> _Tried:
    values, gradients, reasons, without_graph = zip(*parts, strict=True)
    return _Tried(
        np.concatenate(values),
        np.concatenate(gradients),
        [reason for part in reasons for reason in part],
        np.concatenate(without_graph),
    )


def _attempt(function: _Function, points: np.ndarray) -> _Tried:
    """Values and gradients at ``points``; NaN and the reason where the log joint raises."""
    log_joint, like, with_gradient = function
    n, width = len(points), points.shape[1] if with_gradient else 0
    theta = like.new_tensor(points).requires_grad_(with_gradient)
    try:
        with torch.set_grad_enabled(with_gradient):
            values = log_joint(theta)
        slopes = _gradient(values, theta) if with_gradient else None
        gradients = np.zeros((n, width)) if slopes is None else to_numpy(slopes).astype(float, copy=False)
        return _Tried(
            to_numpy(values).astype(float, copy=False), gradients, [""] * n, np.full(n, slopes is None)
        )
    except Exception as error:
        reason = f"raised {type(error).__name__}: {error}"
        return _Tried(np.full(n, np.nan), np.full((n, width), np.nan), [reason] * n, np.zeros(n, bool))


def _gradient(values: torch.Tensor, theta: torch.Tensor) -> torch.Tensor | None:
    """None for values without a graph that leads to theta."""
    if not values.requires_grad:
        return None
    (found,) = torch.autograd.grad(values.sum(), theta, allow_unused=True)
    return found


def _left_torch(function: _Function, whole: _Tried) -> bool:
    """Of a constant nothing is asked; values that differ have come from theta, and should have a graph."""
    values = whole.values[whole.without_graph & np.isfinite(whole.values)]
    return function.with_gradient and len(values) > 0 and bool(np.ptp(values) > 0.0)


def _spent(model: Any, batch: Batch, points: np.ndarray, tried: list[_Tried], at_once: bool) -> int:
    """On what was tried, and on all points together where each was tried by itself after that."""
    calls = sum(len(part.values) for part in tried)
    again = at_once and len(tried[0].values) < len(points)
    return cost(model, batch, calls + again * len(points))


def _entered(batch: Batch, found: Evaluations) -> Evaluations:
    """``found``, in the ledger if there is one."""
    if batch.ledger is not None:
        batch.ledger.append(found)
    return found


def _sorted_out(points: np.ndarray, whole: _Tried, spent: int) -> Evaluations:
    """What was found at the first of ``points``, as far as they were tried."""
    points = points[: len(whole.values)]
    size = np.column_stack([np.abs(whole.values), np.abs(whole.gradients)])
    good = np.all(size < LARGEST, axis=1)  # False for NaN
    faults = tuple(
        reason or _described(value)
        for reason, value, fine in zip(whole.reasons, whole.values, good, strict=True)
        if not fine
    )
    return Evaluations(points[good], whole.values[good], whole.gradients[good], good, faults, spent)


def _described(value: float) -> str:
    return f"returned {value}" if not abs(value) < LARGEST else "had a gradient that is not finite"
