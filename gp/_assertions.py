"""Assertions and finite differences of the contract tests of `gp.testing` and of bqvi."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gp.arrays import Array


def require_close(actual: Array, expected: Array, tolerance: float, message: str) -> None:
    """Raise AssertionError unless shapes agree, and entries to ``tolerance`` times the largest, or 1."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    require(actual.shape == expected.shape, f"{message}: shape {actual.shape}, expected {expected.shape}")
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    worst = float(np.max(np.abs(actual - expected), initial=0.0))
    require(worst <= tolerance * scale, f"{message}: off by {worst:.3g}")


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def partials(function: Callable[..., Array], points: np.ndarray, axis: int = 0) -> np.ndarray:
    """Central differences as each column of ``points`` (n, D) moves, stacked along ``axis``."""
    return np.stack(
        [central_difference(function, points, (..., d)) for d in range(points.shape[1])], axis=axis
    )


def central_difference(function: Callable[..., Array], at: np.ndarray, index: Any) -> np.ndarray:
    """Central difference of fourth order in entry ``index``; error about 1e-11 for functions of order 1."""
    step, move = 1e-3, np.zeros_like(at)
    move[index] = step
    near = np.asarray(function(at + move)) - np.asarray(function(at - move))
    far = np.asarray(function(at + 2 * move)) - np.asarray(function(at - 2 * move))
    return (8 * near - far) / (12 * step)
