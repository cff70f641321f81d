"""Contract tests for executors and for models of other packages, yours included.

An executor that passes :func:`check_executor` can be given to every front door, as ``executor`` of a `Run`; a
:class:`~bqvi.calls.TargetModel` that passes :func:`check_target` can be given instead of a log joint. The
oracles are direct calls of a function with known values, and finite differences.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqvi.calls.caller import Caller
from bqvi.calls.faults import EvaluationError
from bqvi.calls.function import Function
from bqvi.calls.run import Executor, Run
from bqvi.calls.table import Ledger
from bqvi.calls.target_model import TargetModel
from gp.testing import require, require_close

_POINTS = np.array([[0.3, -1.2], [1.0, 0.5], [-0.7, 0.1], [0.2, 0.9], [-1.5, -0.4], [0.8, 0.8]])
_STEP = 1e-3
"""The step of central differences of fourth order, whose error is about 1e-11 for functions of order 1."""


def _value(x: np.ndarray) -> float:
    return float(-0.5 * (x[0] - 1.0) ** 2 - x[1] ** 4)


def _random(x: np.ndarray) -> float:
    """Another value at each call, in any process."""
    return float(int.from_bytes(os.urandom(6), "big"))


def _undefined_at_one(x: np.ndarray) -> float:
    if x[0] == 1.0:
        raise ZeroDivisionError("undefined here")
    return _value(x)


@dataclass(frozen=True)
class _Counted:
    """`_value`, which adds a byte to the file at ``path`` at each call, in any process of this machine."""

    path: str

    def __call__(self, x: np.ndarray) -> float:
        with open(self.path, "ab") as file:
            file.write(b".")
        return _value(x)


def _with_bug(x: np.ndarray) -> float:
    raise NameError(f"a mistake at {x[0]}")


def check_executor(executor: Executor) -> None:
    """Raise AssertionError, saying what is wrong, unless ``executor`` keeps the contract of executors.

    Parameters
    ----------
    executor : an object with ``submit`` or ``map``, whose processes must be able to import bqvi.
    """
    ledger = Ledger(2)
    found = Caller(Function(_value), run=Run(executor=executor)).evaluate(_POINTS, ledger)
    expected = np.array([_value(x) for x in _POINTS])
    require_close(
        found.values, expected, 0.0, "values have to be those of direct calls, in the order of points"
    )
    require_close(found.points, _POINTS, 0.0, "points have to be those that were asked for")
    require(ledger.take().n_evaluations == len(_POINTS), "each point has to be counted once")
    repeated = Caller(Function(_random), run=Run(executor=executor)).evaluate(np.zeros((3, 2)))
    require(
        len(set(repeated.values)) == 3,
        "each of several equal points has to be called: the function may be noisy",
    )
    _check_counts(executor)
    _check_failures(executor, expected)


def _check_counts(executor: Executor) -> None:
    """Where the executor's processes have another file system no calls are counted, and none are missed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls")
        Caller(Function(_Counted(path)), run=Run(executor=executor)).evaluate(_POINTS)
        made = os.path.getsize(path) if os.path.exists(path) else 0
    require(
        made <= len(_POINTS),
        f"a point has to be called once, as calls count in the budget: {len(_POINTS)} points had {made} "
        "calls",
    )


def _check_failures(executor: Executor, expected: np.ndarray) -> None:
    found = Caller(Function(_undefined_at_one), run=Run(executor=executor)).evaluate(_POINTS)
    failed = _POINTS[:, 0] == 1.0
    message = "a numerical exception has to reach the caller, as a failed row with its reason"
    require(found.failed.tolist() == failed.tolist(), message)
    require("ZeroDivisionError" in str(found.reasons[int(failed.argmax())]), message)
    require_close(found.values[~failed], expected[~failed], 0.0, "one failed point has to cost no other")
    try:
        Caller(Function(_with_bug), run=Run(executor=executor)).evaluate(_POINTS)
    except EvaluationError as error:
        require("NameError" in str(error), f"the message of a mistake has to have its name: {error}")
    else:
        raise AssertionError("a mistake in the function has to end the batch with an EvaluationError")


def check_target(
    model: TargetModel, points: np.ndarray | None = None, *, tolerance: float = 1e-6, seed: int = 0
) -> None:
    """Raise AssertionError, saying what is wrong, unless ``model`` keeps the contract of target models.

    Parameters
    ----------
    model : the model to test.
    points : the points (n, P), n >= 2, at which it is tested; by default three in its plausible box.
    tolerance : the largest error of gradients and of round trips, relative to the largest entry, or 1.
    seed : seed of the default points.
    """
    if points is None:
        share = np.random.default_rng(seed).uniform(0.25, 0.75, (3, model.dimension))
        low, high = np.asarray(model.plausible_lower), np.asarray(model.plausible_upper)
        points = low + share * (high - low)
    values = np.asarray(model.value(points))
    require(values.shape == (len(points),), f"values at {len(points)} points have shape {values.shape}")
    require(bool(np.isfinite(values).all()), f"values have to be finite near the start, and are {values}")
    alone = [model.value(theta) for theta in points]
    require_close(values, alone, 1e-12, "values at many points have to be those at each alone")
    require_close(model.value(points), values, 0.0, "equal points have to have equal values")
    if model.has_gradient:
        _check_gradients(model, points, values, tolerance)
    _check_named(model, points, tolerance)


def _check_gradients(model: TargetModel, points: Any, values: np.ndarray, tolerance: float) -> None:
    again, gradients = model.value_and_gradient(points)
    require_close(again, values, 1e-12, "values with gradients have to be those without")
    require(gradients.shape == points.shape, f"gradients have shape {gradients.shape}, not {points.shape}")
    for theta, gradient in zip(points, gradients, strict=True):
        steps = _STEP * np.eye(len(theta))
        ahead, far, behind, back = (model.value(theta + k * steps) for k in (1, 2, -1, -2))
        slope = (back - 8.0 * behind + 8.0 * ahead - far) / (12.0 * _STEP)
        require_close(gradient, slope, tolerance, "gradients have to be those of the values")


def _check_named(model: TargetModel, points: Any, tolerance: float) -> None:
    named = model.constrain(points)
    for name, array in named.items():
        require(np.shape(array)[:1] == (len(points),), f"{name} has to be (n, ...), and is {np.shape(array)}")
    for i, theta in enumerate(points):
        one = model.constrain(theta)
        for name, array in named.items():
            require_close(one[name], array[i], 1e-12, f"{name} of one point has to be that of many")
        if model.from_named is not None or model.to_named is None:
            back = model.unconstrain(one)
            require_close(back, theta, tolerance, "unconstrain has to undo constrain")
