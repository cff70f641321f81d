"""The user's bounds and plausible bounds, checked, with defaults for those left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bqvi.calls.settings import INTERVALS
from gp.arrays import shown, to_numpy

_LARGE = 1e140
"""The largest bound: squares of larger ones, summed over parameters, approach the largest float."""
_NARROWEST = 1e-140
"""The least width of a plausible box: the squares of smaller ones underflow."""

Bound = float | Sequence[float | None] | np.ndarray | None

_OTHER_ORDER = (
    ". PyVBMC's order (fun, x0, LB, UB, PLB, PUB) is another: give start=x0, lower=LB, upper=UB, "
    "plausible_lower=PLB, plausible_upper=PUB by name"
)


def _length(name: str, value: Bound) -> int | None:
    """The number of entries of an array; None for a number."""
    try:
        array = to_numpy(value)
    except ValueError:
        raise ValueError(
            f"{name} is {shown(value)}; its rows differ in length, it must be an array (P,)"
        ) from None
    return len(array) if array.ndim else None


def count_of(bounds: Mapping[str, Bound], names: object, dimension: int | None) -> int:
    """The number P of parameters; ValueError unless all vectors have that length.

    Parameters
    ----------
    bounds : the bounds by the names of their arguments. names : names of the parameters, or None.
    dimension : P where it is known, or None.
    """
    found = {name: _length(name, value) for name, value in bounds.items()}
    lengths = {name: length for name, length in found.items() if length is not None}
    if names is not None:
        if (
            isinstance(names, str | bytes)
            or not isinstance(names, Sequence | np.ndarray)
            or getattr(names, "shape", None) == ()
        ):
            raise TypeError(f"names is {shown(names)}; it must be a sequence of names")
        lengths["names"] = len(names)
    if dimension is not None:
        lengths["dimension"] = dimension
    if not lengths:
        raise ValueError(
            "the number of parameters is not known; give lower, upper, plausible_lower or plausible_upper "
            "as an array with one entry for each parameter; to resume a run, those that it began with"
        )
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the lengths disagree: {text}; each must have one entry for each parameter")
    count = next(iter(lengths.values()))
    if count < 1:
        raise ValueError(f"{' and '.join(lengths)} has no entries; give one for each parameter")
    return count


def vector_of(name: str, value: Bound, count: int, missing: float) -> np.ndarray:
    """The bound as an array (P,), P being ``count``, with ``missing`` where it or an entry is None.

    Parameters
    ----------
    name : the argument, for messages. value : the bound as it was given.
    count : P. missing : the number that stands for None.
    """
    if value is None:
        return np.full(count, missing)
    try:
        given = to_numpy(value)
        if given.dtype.kind not in "fiubO":
            raise TypeError(given.dtype)
        if given.dtype.kind == "O":
            entries = [missing if entry is None else entry for entry in given.flat]
            given = np.array(entries, object).reshape(given.shape)
        vector = given.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {shown(value)}; it must be a number or an array ({count},)") from None
    if vector.shape not in ((), (count,)):
        raise ValueError(f"{name} has shape {vector.shape}; it must be a number or an array ({count},)")
    return np.broadcast_to(vector, (count,)).copy()


def names_of(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The P = ``count`` names, or x0, x1, ... by default; ValueError where two are equal."""
    titles = tuple(f"x{i}" for i in range(count)) if names is None else tuple(map(str, names))
    if len(set(titles)) < count:
        raise ValueError(f"names is {list(titles)}; the names must differ")
    return titles


def turning_of(periodic: object, names: Sequence[str]) -> np.ndarray:
    """Which of the parameters with these P ``names`` are periodic, (P,) bool."""
    count = len(names)
    try:
        given = to_numpy(periodic)
    except ValueError:
        given = np.asarray(None)
    if given.size == 0:
        return np.zeros(count, bool)
    if given.dtype == bool and given.shape == (count,):
        return given.copy()
    if given.ndim == 1 and given.dtype.kind == "U" and set(given.tolist()) <= set(names):
        return np.isin(names, given)
    whole = given.ndim == 1 and np.issubdtype(given.dtype, np.integer)
    if not whole or given.min() < 0 or given.max() >= count:
        raise ValueError(
            f"periodic is {shown(periodic)}; it must be names of parameters ({', '.join(names)}), indices "
            f"below {count}, or {count} booleans"
        )
    return np.isin(np.arange(count), given)


def require_order(names: tuple[str, ...], low: np.ndarray, high: np.ndarray, turning: np.ndarray) -> None:
    """Raise ValueError where bounds are NaN or out of order, or a periodic parameter lacks one.

    Parameters
    ----------
    names : of the parameters, P of them. low, high : the bounds (P,).
    turning : (P,), True for periodic parameters.
    """
    for i, name in enumerate(names):
        if math.isnan(low[i]) or math.isnan(high[i]):
            raise ValueError(
                f"{name} has lower = {low[i]} and upper = {high[i]}, a bound that is NaN; give a number, or "
                "None for no bound"
            )
        if low[i] > high[i]:
            raise ValueError(
                f"{name} has lower = {low[i]:.6g} above upper = {high[i]:.6g}; lower must be below upper, or "
                f"equal to it for a fixed parameter{_OTHER_ORDER}"
            )
        large = next((b for b in (low[i], high[i]) if math.isfinite(b) and abs(b) >= _LARGE), None)
        if large is not None:
            raise ValueError(
                f"{name} has a bound, lower or upper, of {large:.6g}; it must be below {_LARGE:g} in size, "
                "or infinite for none"
            )
        if low[i] == high[i] and math.isinf(low[i]):
            raise ValueError(f"{name} has lower and upper both at {low[i]}; give a number to fix it")
        if turning[i] and not math.isfinite(high[i] - low[i]):
            raise ValueError(f"{name} is periodic and needs a finite lower and upper, a period apart")


def require_resolved(names: Sequence[str], half_widths: np.ndarray) -> None:
    """Raise ValueError where the plausible bounds are equal, or infinite, after rounding."""
    for name, half in zip(names, half_widths, strict=True):
        if not _NARROWEST < half < math.inf:
            raise ValueError(
                f"plausible_lower and plausible_upper of {name} are too near to each other for "
                "floating-point numbers, beside the bounds: move them apart, or shift or scale the parameter"
            )


def plausible_box(
    names: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
    turning: np.ndarray,
    given_low: np.ndarray,
    given_high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The plausible bounds (P,), (P,), strictly inside the hard bounds.

    Parameters
    ----------
    names : the names of the P parameters. low, high : their bounds. turning : which are periodic.
    given_low, given_high : the plausible bounds that were given, NaN where they are missing.
    """
    pairs = zip(names, low, high, turning, given_low, given_high, strict=True)
    found = np.array([_plausible_interval(*pair) for pair in pairs], float).reshape(-1, 2)
    return found[:, 0].copy(), found[:, 1].copy()


def _plausible_interval(
    name: str, lower: float, upper: float, turns: bool, given_low: float, given_high: float
) -> tuple[float, float]:
    """The plausible bounds of one parameter; arguments as of `plausible_box`."""
    lower, upper = float(lower), float(upper)
    if lower == upper:  # a fixed parameter has no plausible interval
        return lower, upper
    low, high = _filled(name, lower, upper, float(given_low), float(given_high))
    found = f"{name} has plausible_lower = {low:.6g} and plausible_upper = {high:.6g}"
    if max(abs(low), abs(high)) >= _LARGE:
        raise ValueError(f"{found}; they must be below {_LARGE:g} in size: change the units")
    if not low < high:
        raise ValueError(f"{found}; plausible_lower must be below plausible_upper")
    if turns:
        if min(high, upper) < max(low, lower):
            raise ValueError(
                f"{found}, outside of its period, from lower = {lower:.6g} to upper = {upper:.6g}"
            )
        middle, half = 0.5 * (low + high), min(0.5 * (high - low), (0.5 - INTERVALS.margin) * (upper - lower))
        return middle - half, middle + half
    if low < lower or high > upper:
        raise ValueError(
            f"{found}, outside of its bounds, lower = {lower:.6g} and upper = {upper:.6g}; the plausible "
            f"bounds must lie inside of the bounds{_OTHER_ORDER}"
        )
    return _off_the_bounds(lower, upper, low, high)


def _filled(name: str, lower: float, upper: float, low: float, high: float) -> tuple[float, float]:
    """The plausible bounds of one parameter, with defaults where they are missing (NaN)."""
    bounded = math.isfinite(upper - lower)
    for side, value in (("plausible_lower", low), ("plausible_upper", high)):
        if math.isinf(value) or (math.isnan(value) and not bounded):
            text = "is missing (None or NaN)" if math.isnan(value) else f"is {value}"
            raise ValueError(
                f"{side} of {name} {text}; without two finite bounds a parameter needs plausible ones"
                + _OTHER_ORDER * math.isfinite(lower)
            )
    low = lower + INTERVALS.inner * (upper - lower) if math.isnan(low) else low
    high = upper - INTERVALS.inner * (upper - lower) if math.isnan(high) else high
    return low, high


def _off_the_bounds(lower: float, upper: float, low: float, high: float) -> tuple[float, float]:
    """The plausible bounds, moved inside of the bounds where they coincide with these or nearly."""
    width = upper - lower if math.isfinite(upper - lower) else high - low
    inner_low = max(low, lower + INTERVALS.margin * width) if math.isfinite(lower) else low
    inner_high = min(high, upper - INTERVALS.margin * width) if math.isfinite(upper) else high
    if inner_low < inner_high:
        return inner_low, inner_high
    # The interval is narrower than the margin: it is moved off the bound by a part of its own width.
    own = INTERVALS.margin * (high - low)
    return low + own * (low == lower), high - own * (high == upper)
