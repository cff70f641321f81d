"""Monotone maps from the real line onto intervals, with the logarithms of their slopes: see `coordinates`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from gp.arrays import Array

__all__ = ["CHARTS", "Chart", "bounded_exp"]

_LARGEST_EXPONENT = 700.0  # e^700 is representable


@dataclass(frozen=True)
class Chart:
    """A monotone map from the real line onto an interval (a, b)."""

    name: str
    forward: Callable[[Array, Array, Array], Array]
    inverse: Callable[[Array, Array, Array], Array]
    log_slope: Callable[[Array, Array, Array], Array]
    log_slope_gradient: Callable[[Array, Array, Array], Array]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name: a chart holds functions without a name, which cannot be pickled."""
        return _chart_named, (self.name,)


def bounded_exp(t: Array) -> Array:
    """The exponential of t, finite for any finite t."""
    return np.exp(np.minimum(t, _LARGEST_EXPONENT))


def _between(t: Array, a: Array, b: Array) -> Array:
    near_a = a + (b - a) * ndtr(np.minimum(t, 0.0))  # the distance from the nearer bound keeps its digits
    return np.where(t < 0.0, near_a, b - (b - a) * ndtr(-np.maximum(t, 0.0)))


def _between_inverse(x: Array, a: Array, b: Array) -> Array:
    from_a, from_b = (x - a) / (b - a), (b - x) / (b - a)
    return np.where(from_a < 0.5, ndtri(np.minimum(from_a, 0.5)), -ndtri(np.minimum(from_b, 0.5)))


CHARTS = (
    Chart(
        "line",
        lambda t, a, b: t,
        lambda x, a, b: x,
        lambda t, a, b: np.zeros_like(t),
        lambda t, a, b: np.zeros_like(t),
    ),
    Chart(
        "above",
        lambda t, a, b: a + bounded_exp(t),
        lambda x, a, b: np.log(x - a),
        lambda t, a, b: t,
        lambda t, a, b: np.ones_like(t),
    ),
    Chart(
        "below",
        lambda t, a, b: b - bounded_exp(-t),
        lambda x, a, b: -np.log(b - x),
        lambda t, a, b: -t,
        lambda t, a, b: -np.ones_like(t),
    ),
    Chart(
        "between",
        _between,
        _between_inverse,
        lambda t, a, b: np.log(b - a) - 0.5 * t * t - 0.5 * math.log(2.0 * math.pi),
        lambda t, a, b: -t,
    ),
)


def _chart_named(name: str) -> Chart:
    """The chart of that name."""
    return next(chart for chart in CHARTS if chart.name == name)
