"""The log joint and its gradient at chosen points, whatever the log joint does there.

An evaluation is *good* if it returns, and its value and gradient are finite and below `LARGEST` in size. The
others are faults: they are counted and described, never fitted. A function that raises on a batch is called
again point by point, so that one bad point costs no good one.
"""

from __future__ import annotations

from collections.abc import Iterable
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

    Raises
    ------
    ValueError
        A log joint that is to be differentiated leaves torch on the way: its values differ, without a graph.
    """
    log_joint = log_joint_function(model, q, batch)
    like = reference_tensor(model, batch.rows)
    with_gradient = differentiable(model)
    pieces: Iterable[np.ndarray] = [points] if getattr(model, "vectorised", True) else points[:, None]
    tried, calls = [], 0
    for piece in pieces:
        calls += len(piece)
        found = _attempt(log_joint, like, piece, with_gradient)
        if any(found.reasons) and len(piece) > 1:
            calls += len(piece)
            found = _joined([_attempt(log_joint, like, point[None], with_gradient) for point in piece])
        tried.append(found)
    whole = _joined(tried)
    if with_gradient:
        _require_graph(whole)
    return _sorted_out(points, whole, cost(model, batch, calls))


class _Tried(NamedTuple):
    """What the log joint gave at n points."""

    values: np.ndarray
    gradients: np.ndarray
    """NaN where it raised, zero where it does not depend on theta."""
    reasons: list[str]
    """What was raised, at each point; empty where it returned."""
    without_graph: np.ndarray
    """Where the values depend on nothing, as far as torch knows, (n,)."""


def _joined(parts: list[_Tried]) -> _Tried:
    values, gradients, reasons, without_graph = zip(*parts, strict=True)
    return _Tried(
        np.concatenate(values),
        np.concatenate(gradients),
        [reason for part in reasons for reason in part],
        np.concatenate(without_graph),
    )


def _attempt(
    log_joint: LogJointFunction, like: torch.Tensor, points: np.ndarray, with_gradient: bool
) -> _Tried:
    """Values and gradients at ``points``; NaN and the reason where the log joint raises."""
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


def _require_graph(whole: _Tried) -> None:
    """Of a constant nothing is asked; values that differ have come from theta."""
    values = whole.values[whole.without_graph & np.isfinite(whole.values)]
    if len(values) and np.ptp(values) > 0.0:
        raise ValueError(
            "the log joint has no gradient in theta: it leaves torch on the way (numpy, .item(), .detach()); "
            "write it in torch throughout, or give LogJoint gradient=None to use its values only"
        )


def _sorted_out(points: np.ndarray, whole: _Tried, spent: int) -> Evaluations:
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
