"""The integral over a box, int f(x) dx: the box's volume times the mean of f under its uniform measure."""

from __future__ import annotations

from typing import Any

import numpy as np

from gp.arrays import Array, shown, to_numpy
from gp.measures import Measure, Uniform

__all__ = ["LEBESGUE", "integrated_against"]

LEBESGUE = "lebesgue"
_ELSEWHERE = (
    "the integral over a region without bounds is that of f / p against a measure with a density p, such as "
    "gp.measures.Gaussian(mean, covariance): give that measure, and f / p as f"
)


def integrated_against(
    measure: object, lower: Array | float | None, upper: Array | float | None
) -> tuple[Measure, float]:
    """Return a probability measure, and the logarithm of the factor of integrals against it.

    Parameters
    ----------
    measure : a measure, or 'lebesgue' for integrals over the box between ``lower`` and ``upper``.
    lower, upper : (D,), or numbers; for 'lebesgue' only.

    Raises
    ------
    TypeError
        measure is neither; a bound is no array of numbers.
    ValueError
        Bounds are missing, infinite, NaN, out of order, or given with another measure.
    """
    given = {"lower": lower, "upper": upper}
    if not isinstance(measure, str):
        if not isinstance(measure, Measure):
            raise TypeError(
                f"measure is {shown(measure)}; it must be one of gp.measures, such as Gaussian(mean, "
                f"covariance), or {LEBESGUE!r} with lower and upper"
            )
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} is given, and measure is a {type(measure).__name__}: bounds are those of "
                    f"measure={LEBESGUE!r}, the integral over a box"
                )
        return measure, 0.0
    if measure != LEBESGUE:
        raise ValueError(f"measure is {shown(measure)}; it must be one of gp.measures, or {LEBESGUE!r}")
    box = _box(given)
    return box, float(np.sum(np.log(to_numpy(box.width))))


def _box(bounds: dict[str, Any]) -> Uniform:
    for name, value in bounds.items():
        if value is None:
            raise ValueError(f"{name} is None; measure={LEBESGUE!r} needs lower and upper, the box's corners")
        try:
            ends = np.asarray(to_numpy(value), dtype=float)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is {shown(value)}; it must be a number or an array (D,)") from None
        entries = np.asarray(value, dtype=object)
        absent = np.isinf(ends) | np.reshape([entry is None for entry in entries.flat], ends.shape)
        if absent.any():
            where = np.flatnonzero(np.atleast_1d(absent)).tolist()
            raise ValueError(f"{name} is infinite or None in coordinates {where}; {_ELSEWHERE}")
    lower, upper = bounds["lower"], bounds["upper"]
    size = max(np.size(to_numpy(lower)), np.size(to_numpy(upper)))
    if size > 1:  # a single number beside an array is meant for each coordinate
        lower, upper = (np.full(size, end) if np.ndim(end) == 0 else end for end in (lower, upper))
    return Uniform(lower, upper)
