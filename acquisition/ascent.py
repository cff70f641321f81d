"""Several quasi-Newton ascents in a box, climbed together.

Each of M points has its own inverse Hessian (BFGS), its own step length and its own fate; what they
share is the evaluation of the function, which for a Gaussian process costs little more for M points
than for one. A trial that does not gain enough is tried again nearer, in the same evaluation as the
next steps of the others. Coordinates at a bound whose gradient points outwards are held there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Vector: TypeAlias = np.ndarray
Function: TypeAlias = Callable[[Vector], tuple[Vector, Vector]]

_SUFFICIENT = 1e-4
"""A step has to gain this share of what the gradient promises (Armijo)."""
_SHORTER = 0.3
_CURVED = 1e-10
"""Least cosine between step and change of gradient for an update of the inverse Hessian."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where M ascents ended.

    Attributes
    ----------
    points : (M, D)
    values : (M,)
    evaluations : how often the function was called.
    """

    points: Vector
    values: Vector
    evaluations: int


@dataclass(eq=False)
class _State:
    """M ascents on their way: points, values, gradients (M, D), inverse Hessians (M, D, D)."""

    points: Vector
    values: Vector
    gradients: Vector
    hessians: Vector
    fresh: Vector
    """(M,), whether the inverse Hessian is still a guess."""


def ascend(
    function: Function,
    starts: Vector,
    lower: Vector,
    upper: Vector,
    *,
    first_step: float,
    tolerance: float,
    max_evaluations: int,
) -> Ascent:
    """Return local maxima of a function in a box, one for each start.

    Parameters
    ----------
    function : points (M, D) to values (M,) and gradients (M, D).
    starts : (M, D), in the box.
    lower, upper : (D,), the box.
    first_step : length of the first step, about the scale on which the function changes.
    tolerance : an ascent ends when its next step promises to gain less than this.
    max_evaluations : of the function, all M points at once counted as one.
    """
    values, gradients = function(starts)
    count, dimension = starts.shape
    hessians = np.broadcast_to(np.eye(dimension), (count, dimension, dimension)).copy()
    state = _State(starts.copy(), values, gradients, hessians, np.ones(count, bool))
    length = np.ones(count)
    direction = _directions(state, lower, upper, first_step)
    for evaluations in range(1, max_evaluations):
        trial = np.clip(state.points + length[:, None] * direction, lower, upper)
        promised = np.einsum("md,md->m", state.gradients, trial - state.points)
        if not np.any(promised > tolerance):
            return Ascent(state.points, state.values, evaluations)
        values, gradients = function(trial)
        gained = (promised > 0) & (values >= state.values + _SUFFICIENT * promised)
        _accept(state, gained, trial, values, gradients)
        length = np.where(gained, 1.0, _SHORTER * length)
        renewed = _directions(state, lower, upper, first_step)
        direction = np.where(gained[:, None], renewed, direction)
    return Ascent(state.points, state.values, max_evaluations)


def _directions(state: _State, lower: Vector, upper: Vector, first_step: float) -> Vector:
    """Quasi-Newton directions (M, D), of length ``first_step`` where no curvature is known."""
    g = state.gradients
    held = ((state.points <= lower) & (g < 0)) | ((state.points >= upper) & (g > 0))
    free = np.where(held, 0.0, g)
    direction = np.where(held, 0.0, (state.hessians @ free[:, :, None])[:, :, 0])
    uphill = np.einsum("md,md->m", direction, free) > 0
    direction = np.where(uphill[:, None], direction, free)
    norm = np.sqrt(np.einsum("md,md->m", direction, direction))
    limit = np.where(state.fresh | ~uphill, first_step, 10 * first_step)
    too_long = (norm > limit) | state.fresh
    scale = np.where(too_long, limit / np.maximum(norm, np.finfo(float).tiny), 1.0)
    return direction * scale[:, None]


def _accept(state: _State, gained: Vector, trial: Vector, values: Vector, gradients: Vector) -> None:
    """Move the ascents that gained, and learn curvature from their steps."""
    step = trial - state.points
    change = state.gradients - gradients  # of -f, so that curvature is positive
    curvature = np.einsum("md,md->m", step, change)
    size = np.sqrt(np.einsum("md,md->m", step, step) * np.einsum("md,md->m", change, change))
    learnt = gained & (curvature > _CURVED * size)
    if np.any(learnt):
        _update(state, learnt, step[learnt], change[learnt], curvature[learnt])
    state.points = np.where(gained[:, None], trial, state.points)
    state.values = np.where(gained, values, state.values)
    state.gradients = np.where(gained[:, None], gradients, state.gradients)


def _update(state: _State, which: Vector, step: Vector, change: Vector, curvature: Vector) -> None:
    """BFGS: the inverse Hessian nearest to the old one that maps the change to the step."""
    hessian = state.hessians[which]
    scale = curvature / np.einsum("md,md->m", change, change)
    fresh = state.fresh[which]
    hessian[fresh] = hessian[fresh] * scale[fresh, None, None]
    mapped = (hessian @ change[:, :, None])[:, :, 0]
    along = 1 + np.einsum("md,md->m", change, mapped) / curvature
    cross = mapped[:, :, None] * step[:, None, :]
    outer = step[:, :, None] * step[:, None, :]
    hessian += (along[:, None, None] * outer - cross - cross.transpose(0, 2, 1)) / curvature[
        :, None, None
    ]
    state.hessians[which] = hessian
    state.fresh[which] = False
