"""Lower and upper limits of arrays, for NumPy and torch."""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, is_torch, namespace

__all__ = ["at_least", "at_most", "positive"]


def at_least(values: Array, floor: float) -> Array:
    """Return max(values, floor)."""
    return values.clamp_min(floor) if is_torch(values) else np.maximum(values, floor)


def at_most(values: Array, ceiling: float) -> Array:
    """Return min(values, ceiling)."""
    return values.clamp_max(ceiling) if is_torch(values) else np.minimum(values, ceiling)


def positive(values: Array) -> Array:
    """Return values that are at least the smallest normal number, so that they have a logarithm."""
    return at_least(values, float(namespace(values).finfo(values.dtype).tiny))
