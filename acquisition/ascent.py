"""Several quasi-Newton ascents in a box, made together.

Each of M points has its own inverse Hessian (BFGS), and its own step length. The function is evaluated at all
M points in one call, which for a Gaussian process costs little more than at one. A trial step that gains too
little is shortened, and evaluated together with the next steps of the other points. Coordinates at a bound
whose gradient points outwards are held there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Function: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Ascent:
    """The ends of M ascents.

    Attributes
    ----------
    points : (M, D)
    values : (M,)
    n_evaluations : the number of calls of the function.
    """

    points: np.ndarray
    values: np.ndarray
    n_evaluations: int


def ascend(
    function: Function,
    starts: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    first_step: float,
    tolerance: float,
    max_evaluations: int,
) -> Ascent:
    """Return local maxima of a function in a box, one for each start.

    Parameters
    ----------
    function : a function of points (M, D) that returns values (M,) and gradients (M, D).
    starts : (M, D), in the box.
    lower, upper : (D,), the box.
    first_step : length of the first step, about the length scale of the function.
    tolerance : an ascent ends when the predicted gain of its next step is less than this.
    max_evaluations : the most evaluations of the function, all M points together counted as one.
    """
    state = _start(function, starts, first_step)
    direction, length = _directions(state, lower, upper), np.ones((len(starts), 1))
    for evaluations in range(1, max_evaluations):
        trial = np.minimum(np.maximum(state.points + length * direction, lower), upper)
        step = trial - state.points
        expected = _dot(state.gradients, step)
        if not expected.max() > tolerance:
            return Ascent(state.points, state.values, evaluations)
        values, gradients = function(trial)
        # Armijo
        gained = (values >= state.values + 1e-4 * expected) & (expected > 0)
        _learn(state, gained, step, state.gradients - gradients)
        if gained.all():
            state.points, state.values, state.gradients = trial, values, gradients
            direction, length = _directions(state, lower, upper), np.ones((len(starts), 1))
            continue
        moved = gained[:, None]
        state.points = np.where(moved, trial, state.points)
        state.values = np.where(gained, values, state.values)
        state.gradients = np.where(moved, gradients, state.gradients)
        direction = np.where(moved, _directions(state, lower, upper), direction)
        length = np.where(moved, 1.0, 0.3 * length)
    return Ascent(state.points, state.values, max_evaluations)


@dataclass(eq=False)
class _State:
    """The state of M ascents: points, values, gradients (M, D), inverse Hessians (M, D, D)."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    longest: np.ndarray
    """(M, 1), the largest length of a step."""
    fresh: np.ndarray
    """(M,), whether the inverse Hessian is the initial one."""


def _start(function: Function, starts: np.ndarray, first_step: float) -> _State:
    """Return ascents whose first step is ``first_step`` long, in the direction of the gradient."""
    values, gradients = function(starts)
    count, dimension = starts.shape
    norm = np.sqrt(_dot(gradients, gradients)) + np.finfo(float).tiny
    hessians = (first_step / norm)[:, None, None] * np.eye(dimension)
    longest = np.full((count, 1), 10.0 * first_step)
    return _State(starts, values, gradients, hessians, longest, np.ones(count, bool))


def _directions(state: _State, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Quasi-Newton directions (M, D), uphill and not too long."""
    g, points = state.gradients, state.points
    outside = ((points <= lower) & (g < 0)) | ((points >= upper) & (g > 0))
    held = outside.any()
    if held:
        g = np.where(outside, 0.0, g)
    direction = (state.hessians @ g[:, :, None])[:, :, 0]
    if held:
        # the direction may point downhill once coordinates are held; the gradient with zeros there does not
        direction = np.where(outside, 0.0, direction)
        downhill = _dot(direction, g) <= 0
        direction = np.where(downhill[:, None], g, direction)
    norm = np.sqrt(_dot(direction, direction))[:, None]
    return direction * (state.longest / np.maximum(norm, state.longest))


def _learn(state: _State, gained: np.ndarray, step: np.ndarray, change: np.ndarray) -> None:
    """BFGS: the inverse Hessian nearest to the old one that maps the change to the step.

    ``change`` (M, D) is that of the gradient of -f. Where f is not concave along the step, or
    has not risen, the matrix is kept.
    """
    curvature, square = _dot(step, change), _dot(change, change)
    curved = gained & (curvature > 0)
    if not curved.any():
        return
    if not curved.all():
        step, change = (np.where(curved[:, None], part, 0.0) for part in (step, change))
    guessed = curved & state.fresh
    if guessed.any():
        # the first scale of the inverse Hessian is the curvature along the first step, not the step's length
        scale = np.where(guessed, curvature / np.maximum(square, np.finfo(float).tiny), 1.0)
        ones = np.eye(step.shape[1]) * scale[:, None, None]
        state.hessians = np.where(guessed[:, None, None], ones, state.hessians)
        state.fresh = state.fresh & ~guessed
    inverse = np.where(curved, 1 / np.where(curved, curvature, 1.0), 0.0)
    mapped = (state.hessians @ change[:, :, None])[:, :, 0]
    along = inverse * (1 + inverse * _dot(change, mapped))
    outer = step[:, :, None] * (along[:, None] * step - inverse[:, None] * mapped)[:, None, :]
    cross = (inverse[:, None] * mapped)[:, :, None] * step[:, None, :]
    state.hessians = state.hessians + outer - cross


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products of rows, (M,)."""
    return np.einsum("md,md->m", a, b)
