"""Assertions that the contract tests share: `gp.testing`, `gp.testing_measures`."""

from __future__ import annotations

from typing import Any

import numpy as np


def require_close(actual: Any, expected: Any, tolerance: float, message: str) -> None:
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
