"""The log joint and its gradient at chosen points, whatever the log joint does there.

An evaluation is *good* if it returns, and its value and gradient are finite and below `LARGEST` in size. The
others are faults: they are counted and described, never fitted. A function that raises on a batch is called
again point by point, so that one bad point costs no good one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    """At (n, D) points."""
    log_joint = log_joint_function(model, q, batch)
    like = reference_tensor(model, batch.rows)
    pieces: Iterable[np.ndarray] = [points] if getattr(model, "vectorised", True) else points[:, None]
    values, gradients, faults, calls = [], [], [], 0
    for piece in pieces:
        calls += len(piece)
        value, gradient, fault = _attempt(log_joint, like, piece, differentiable(model))
        if fault and len(piece) > 1:
            calls += len(piece)
            parts = [_attempt(log_joint, like, point[None], differentiable(model)) for point in piece]
            value = np.concatenate([part[0] for part in parts])
            gradient = np.concatenate([part[1] for part in parts])
            fault = [reason for part in parts for reason in part[2]]
        values.append(value)
        gradients.append(gradient)
        faults.extend(fault)
    return _sorted_out(
        points, np.concatenate(values), np.concatenate(gradients), faults, cost(model, batch, calls)
    )


def _attempt(
    log_joint: LogJointFunction, like: torch.Tensor, points: np.ndarray, with_gradient: bool
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Values and gradients at ``points``; NaN and the reason where the log joint raises."""
    width = points.shape[1] if with_gradient else 0
    theta = like.new_tensor(points).requires_grad_(with_gradient)
    try:
        with torch.set_grad_enabled(with_gradient):
            values = log_joint(theta)
        gradients = np.empty((len(points), width))
        if with_gradient:
            gradients = to_numpy(_gradient(values, theta)).astype(float, copy=False)
        return to_numpy(values).astype(float, copy=False), gradients, []
    except Exception as error:
        nothing = np.full(len(points), np.nan)
        return nothing, np.full((len(points), width), np.nan), [f"raised {type(error).__name__}: {error}"]


def _gradient(values: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    if not values.requires_grad:  # a log joint that does not depend on theta
        return torch.zeros_like(theta)
    (found,) = torch.autograd.grad(values.sum(), theta, allow_unused=True)
    return torch.zeros_like(theta) if found is None else found


def _sorted_out(
    points: np.ndarray, values: np.ndarray, gradients: np.ndarray, raised: list[str], spent: int
) -> Evaluations:
    size = np.column_stack([np.abs(values), np.abs(gradients)])
    good = np.all(size < LARGEST, axis=1)  # False for NaN
    returned = [
        f"returned {value}" if not abs(value) < LARGEST else "had a gradient that is not finite"
        for value, row in zip(values, size, strict=True)
        if not (row < LARGEST).all()
    ]
    faults = raised + returned[len(raised) :] if raised else returned
    return Evaluations(points[good], values[good], gradients[good], good, tuple(faults), spent)
