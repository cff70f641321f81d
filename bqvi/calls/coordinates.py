"""From the user's parameters and their bounds, as they were given, to coordinates without bounds, and back.

A parameter vector theta has P entries. Those that are fixed (lower == upper) have no coordinate; the other
D are mapped to R^D in two steps, each with its Jacobian in closed form:

    v  --standardised-->  t  --chart-->  theta,      t = centre + half v

    chart       bounds        theta(t)                ln d theta / dt
    line        none          t                       0
    above       a <           a + e^t                 t
    below       < b           b - e^-t                -t
    between     a < . < b     a + (b - a) Phi(t)      ln (b - a) - t^2 / 2 - ln(2 pi) / 2

`centre` and `half` put the plausible box at [-1, 1]^D, so that nothing behind this file depends on the
user's units. Phi is the normal distribution function: a uniform density on an interval becomes exactly
Gaussian, which a process with a quadratic mean fits better than the exponential tails of a logistic.

The circle of a periodic parameter is cut opposite the middle of its plausible interval, so that it becomes a
parameter between two bounds; values that are returned to the user are wrapped into [lower, upper).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from bqvi.calls.function import named_point, names_of
from bqvi.calls.settings import INTERVALS
from gp.arrays import LOG_2PI, Array, shown, to_numpy
from gp.checks import vector_of
from gp.measures import AffineMap
from gp.names import TRANSFORM

_LARGEST_EXPONENT = 700.0  # e^700 is representable
_LARGE = 1e140
"""The largest bound: squares of larger ones, summed over parameters, approach the largest float."""
_NARROWEST = 1e-140
"""The least width of a plausible box: the squares of smaller ones underflow."""

Bound = float | Sequence[float | None] | np.ndarray | None

_OTHER_ORDER = (
    "PyVBMC's order (fun, x0, LB, UB, PLB, PUB) is another: give start=x0, lower=LB, upper=UB, "
    "plausible_lower=PLB, plausible_upper=PUB by name"
)
VECTORS = ("lower", "upper", "plausible_lower", "plausible_upper", "periodic")


@dataclass(frozen=True)
class _Chart:
    """A monotone map from the real line onto an interval (a, b)."""

    name: str
    forward: Callable[[Array, Array, Array], Array]
    inverse: Callable[[Array, Array, Array], Array]
    log_slope: Callable[[Array, Array, Array], Array]
    log_slope_gradient: Callable[[Array, Array, Array], Array]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name: a chart holds functions without a name, which cannot be pickled."""
        return _chart_named, (self.name,)


def _bounded_exp(t: Array) -> Array:
    """The exponential of t, finite for any finite t."""
    return np.exp(np.minimum(t, _LARGEST_EXPONENT))


def _between(t: Array, a: Array, b: Array) -> Array:
    near_a = a + (b - a) * ndtr(np.minimum(t, 0.0))  # the distance from the nearer bound keeps its digits
    return np.where(t < 0.0, near_a, b - (b - a) * ndtr(-np.maximum(t, 0.0)))


def _between_inverse(x: Array, a: Array, b: Array) -> Array:
    from_a, from_b = (x - a) / (b - a), (b - x) / (b - a)
    return np.where(from_a < 0.5, ndtri(np.minimum(from_a, 0.5)), -ndtri(np.minimum(from_b, 0.5)))


_CHARTS = (
    _Chart(
        "line",
        lambda t, a, b: t,
        lambda x, a, b: x,
        lambda t, a, b: np.zeros_like(t),
        lambda t, a, b: np.zeros_like(t),
    ),
    _Chart(
        "above",
        lambda t, a, b: a + _bounded_exp(t),
        lambda x, a, b: np.log(x - a),
        lambda t, a, b: t,
        lambda t, a, b: np.ones_like(t),
    ),
    _Chart(
        "below",
        lambda t, a, b: b - _bounded_exp(-t),
        lambda x, a, b: -np.log(b - x),
        lambda t, a, b: -t,
        lambda t, a, b: -np.ones_like(t),
    ),
    _Chart(
        "between",
        _between,
        _between_inverse,
        lambda t, a, b: np.log(b - a) - 0.5 * t * t - 0.5 * LOG_2PI,
        lambda t, a, b: -t,
    ),
)


def _chart_named(name: str) -> _Chart:
    """The chart of that name."""
    return next(chart for chart in _CHARTS if chart.name == name)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Bounds of P parameters and the coordinates R^D of the free ones; made by `make_coordinates`.

    Attributes
    ----------
    names : the P names of the parameters.
    lower, upper : the bounds (P,), infinite where there is none.
    plausible_lower, plausible_upper : the plausible bounds (P,), strictly inside the bounds; those of a
        periodic parameter may reach beyond one bound.
    periodic : which parameters are periodic, (P,) bool.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    plausible_lower: np.ndarray
    plausible_upper: np.ndarray
    periodic: np.ndarray

    @cached_property
    def free(self) -> np.ndarray:
        """The indices (D,) of the parameters that are not fixed."""
        return np.flatnonzero(self.lower < self.upper)

    @property
    def dimension(self) -> int:
        """The number D of coordinates."""
        return len(self.free)

    @property
    def n_parameters(self) -> int:
        """The number P of parameters."""
        return len(self.names)

    @property
    def free_names(self) -> tuple[str, ...]:
        """The names of the D free parameters."""
        return tuple(self.names[i] for i in self.free)

    @cached_property
    def _window(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends (D,), (D,) of the charts' intervals: the bounds, or one period around the middle."""
        a, b = self.lower[self.free].copy(), self.upper[self.free].copy()
        turning = self.periodic[self.free]
        middle = 0.5 * (self.plausible_lower + self.plausible_upper)[self.free][turning]
        half_period = 0.5 * (b - a)[turning]
        a[turning], b[turning] = middle - half_period, middle + half_period
        return a, b

    @cached_property
    def _columns(self) -> tuple[tuple[_Chart, np.ndarray], ...]:
        """Each chart with the coordinates that it maps."""
        a, b = self._window
        at = np.isfinite(a) + 2 * np.isfinite(b)
        return tuple((chart, np.flatnonzero(at == i)) for i, chart in enumerate(_CHARTS) if (at == i).any())

    @cached_property
    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """The centre and the half width (D,) of the plausible box in the charts' coordinates t."""
        with np.errstate(divide="ignore", invalid="ignore"):  # `_require_resolved` checks the result
            low = self._apply("inverse", self.plausible_lower[self.free][None])[0]
            high = self._apply("inverse", self.plausible_upper[self.free][None])[0]
            return 0.5 * (low + high), 0.5 * (high - low)

    def _apply(self, method: str, x: np.ndarray) -> np.ndarray:
        """Apply ``method`` of each chart to its columns of x (..., D)."""
        a, b = self._window
        out = np.empty(x.shape)
        for chart, where in self._columns:
            out[..., where] = getattr(chart, method)(x[..., where], a[where], b[where])
        return out

    def _raw(self, points: np.ndarray) -> np.ndarray:
        """The charts' coordinates t (n, D) of the points (n, D)."""
        centre, half = self._standard
        return centre + half * points

    def _require(self, name: str, x: object, columns: int) -> np.ndarray:
        array = np.asarray(x, float)
        if array.ndim != 2 or array.shape[1] != columns:
            raise ValueError(f"{name} has shape {array.shape}; it must be (n, {columns})")
        return array

    def unwrapped(self, points: np.ndarray) -> np.ndarray:
        """As `to_user` of the points (n, D), with periodic parameters continued beyond a bound."""
        points = self._require("points", points, self.dimension)
        a, b = self._window
        inside = np.clip(self._apply("forward", self._raw(points)), np.nextafter(a, b), np.nextafter(b, a))
        theta = np.tile(self.lower, (len(points), 1))
        theta[:, self.free] = inside
        return theta

    def to_user(self, points: np.ndarray) -> np.ndarray:
        """The parameters (n, P) at the points (n, D), free ones strictly inside the bounds."""
        return self.wrapped(self.unwrapped(points))

    def wrapped(self, theta: np.ndarray) -> np.ndarray:
        """Parameters theta (n, P) with the periodic ones brought into [lower, upper)."""
        theta = theta.copy()
        turning = np.flatnonzero(self.periodic & (self.lower < self.upper))
        low, high = self.lower[turning], self.upper[turning]
        wrapped = low + np.mod(theta[:, turning] - low, high - low)
        theta[:, turning] = np.where(wrapped >= high, low, wrapped)
        return theta

    def from_user(self, theta: np.ndarray, name: str = "theta") -> np.ndarray:
        """The points (n, D) of the parameters theta (n, P), the argument ``name``."""
        theta = self._require(name, theta, self.n_parameters)
        self.require_inside(name, theta)
        a, b = self._window
        x, turning = theta[:, self.free], self.periodic[self.free]
        x[:, turning] = a[turning] + np.mod(x[:, turning] - a[turning], (b - a)[turning])
        inside = np.clip(x, np.nextafter(a, b), np.nextafter(b, a))
        centre, half = self._standard
        return (self._apply("inverse", inside) - centre) / half

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """Which entries of ``theta`` (n, P) lie strictly inside the bounds, or are at a fixed value."""
        inside = (theta > self.lower) & (theta < self.upper)
        inside |= (self.lower == self.upper) & (theta == self.lower)
        inside |= self.periodic & (self.lower < self.upper)
        return inside & np.isfinite(theta)

    def require_inside(self, name: str, theta: np.ndarray) -> None:
        """Raise ValueError, naming ``theta`` (n, P) as ``name``, unless each row is inside the bounds."""
        inside = self.inside(theta)
        if not inside.all():
            row, i = np.argwhere(~inside)[0]
            allowed = (
                f"it is fixed at {self.lower[i]:.6g}"
                if self.lower[i] == self.upper[i]
                else f"it must lie strictly between {self.lower[i]:.6g} and {self.upper[i]:.6g}"
            )
            raise ValueError(f"{name} has {self.names[i]} = {theta[row, i]} in row {row}; {allowed}")

    def log_jacobian(self, points: np.ndarray) -> np.ndarray:
        """The log Jacobian ln |d theta_free / d v| at the points (n, D), (n,)."""
        t = self._raw(self._require("points", points, self.dimension))
        _, half = self._standard
        return self._apply("log_slope", t).sum(axis=1) + np.log(half).sum()

    def log_jacobian_gradient(self, points: np.ndarray) -> np.ndarray:
        """The gradient of `log_jacobian` with respect to v at the points, (n, D)."""
        t = self._raw(self._require("points", points, self.dimension))
        _, half = self._standard
        return self._apply("log_slope_gradient", t) * half

    def pull_gradients(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The gradients in v (n, D), at the points, of a function with ``gradients`` in theta (n, P)."""
        points = self._require("points", points, self.dimension)
        gradients = self._require("gradients", gradients, self.n_parameters)
        _, half = self._standard
        slopes = _bounded_exp(self._apply("log_slope", self._raw(points)))
        return gradients[:, self.free] * slopes * half

    @cached_property
    def to_charts(self) -> AffineMap:
        """The scale and shift of the map from v to the charts' coordinates t."""
        centre, half = self._standard
        return AffineMap(centre, np.diag(half))

    def chart_values(self, t: np.ndarray) -> np.ndarray:
        """The free parameters at t (..., D), not wrapped."""
        return self._apply("forward", t)

    def axis(self, position: int) -> Coordinates:
        """The coordinates of the free parameter at ``position`` alone."""
        i = [int(self.free[position])]
        return Coordinates((self.names[i[0]],), *(getattr(self, name)[i] for name in VECTORS))

    def charts(self) -> tuple[tuple[str, float, float], ...]:
        """For each coordinate the name of its chart and the ends of its interval."""
        a, b = self._window
        names = {int(i): chart.name for chart, where in self._columns for i in where}
        return tuple((names[i], float(a[i]), float(b[i])) for i in range(self.dimension))

    def require_names(self, argument: str, names: Sequence[str]) -> None:
        """Raise ValueError where ``names`` are not those of an ``argument``, and neither are the default."""
        usual = names_of(None, self.n_parameters) in (self.names, tuple(names))
        if self.names != tuple(names) and not (usual and set(self.names) != set(names)):
            raise ValueError(f"{argument} has the parameters {', '.join(self.names)}, and here they are "
                             f"{', '.join(names)}: the names and their order must be the same")  # fmt: skip

    def require_like(
        self, other: Coordinates, argument: str = "resume", vectors: Sequence[str] = VECTORS
    ) -> None:
        """Raise ValueError where names or ``vectors`` differ from those of an ``argument``, the ``other``."""
        other.require_names(argument, self.names)
        for name in vectors:
            own, theirs = getattr(self, name), getattr(other, name)
            if not np.array_equal(own, theirs):
                differ = f"{shown(theirs.tolist())}, and here it is {shown(own.tolist())}"
                raise ValueError(f"{argument} has {name} = {differ}: it is of another model")


def place_of(coordinates: Coordinates | None, point: np.ndarray) -> str:
    """The text by which messages name a point (D,) of ``coordinates``, in the user's units."""
    if coordinates is None:
        return named_point((), point)
    return named_point(coordinates.names, coordinates.to_user(point[None])[0])


def make_coordinates(
    lower: Bound = None,
    upper: Bound = None,
    plausible_lower: Bound = None,
    plausible_upper: Bound = None,
    *,
    periodic: Sequence[int] | Sequence[bool] | Sequence[str] | np.ndarray = (),
    names: Sequence[str] | None = None,
    dimension: int | None = None,
) -> Coordinates:
    """Coordinates for P parameters.

    Parameters
    ----------
    lower, upper : the bounds, (P,) or a number for all; None or an infinite entry for no bound. A parameter
        with lower == upper is fixed.
    plausible_lower, plausible_upper : the plausible bounds, (P,) or a number for all: an interval that is
        likely to contain most of the posterior, about two standard deviations to either side. For parameters
        with both bounds the default (NaN entries or None) is the middle 80 % of their interval. A plausible
        bound that lies on a hard bound is moved inwards by 1 % of the interval.
    periodic : the names or indices of the periodic parameters, or P booleans; their period is upper - lower.
    names : P different names; x0, x1, ... by default.
    dimension : the number P, needed where no vector of that length is given.
    """
    bounds = dict(zip(VECTORS[:4], (lower, upper, plausible_lower, plausible_upper), strict=True))
    count = _count_of(bounds, names, dimension)
    missing = (-np.inf, np.inf, np.nan, np.nan)
    low, high, *given = (
        vector_of(name, bound, count, fill)
        for (name, bound), fill in zip(bounds.items(), missing, strict=True)
    )
    titles = names_of(names, count)
    turning = _turning_of(periodic, titles)
    _require_order(titles, low, high, turning)
    pairs = zip(titles, low, high, turning, *given, strict=True)
    box = np.array([_plausible_interval(*pair) for pair in pairs], float).reshape(-1, 2)
    free = int((low < high).sum())
    if free == 0:
        raise ValueError("lower equals upper for every parameter; at least one must be free")
    found = Coordinates(titles, low, high, box[:, 0].copy(), box[:, 1].copy(), turning)
    _require_resolved(found.free_names, found._standard[1])
    return found


def length_of(name: str, value: Bound) -> int | None:
    """The number of entries of an array; None for a number."""
    if callable(value):
        raise TypeError(f"{name} is a function; it must be a number or an array (P,); {TRANSFORM}")
    try:
        array = to_numpy(value)
    except ValueError:
        raise ValueError(
            f"{name} is {shown(value)}; its rows differ in length, it must be an array (P,)"
        ) from None
    if array.ndim > 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be a number or (P,). {_OTHER_ORDER}")
    return len(array) if array.ndim else None


def _count_of(bounds: Mapping[str, Bound], names: Any, dimension: int | None) -> int:
    """The number P of parameters; ValueError unless all vectors have that length."""
    found = {name: length_of(name, value) for name, value in bounds.items()}
    lengths = {name: length for name, length in found.items() if length is not None}
    if names is not None:
        if np.ndim(names) != 1:
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


def _turning_of(periodic: object, names: Sequence[str]) -> np.ndarray:
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


def _require_order(names: tuple[str, ...], low: np.ndarray, high: np.ndarray, turning: np.ndarray) -> None:
    """Raise ValueError where bounds are NaN or out of order, or a periodic parameter lacks one."""
    for i, name in enumerate(names):
        if math.isnan(low[i]) or math.isnan(high[i]):
            raise ValueError(
                f"{name} has lower = {low[i]} and upper = {high[i]}, a bound that is NaN; give a number, or "
                "None for no bound"
            )
        if low[i] > high[i]:
            raise ValueError(
                f"{name} has lower = {low[i]:.6g} above upper = {high[i]:.6g}; lower must be below upper, or "
                f"equal to it for a fixed parameter. {_OTHER_ORDER}"
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


def _require_resolved(names: Sequence[str], half_widths: np.ndarray) -> None:
    """Raise ValueError where the plausible bounds are equal, or infinite, after rounding."""
    for name, half in zip(names, half_widths, strict=True):
        if not _NARROWEST < half < math.inf:
            raise ValueError(
                f"plausible_lower and plausible_upper of {name} are too near to each other for "
                "floating-point numbers, beside the bounds: move them apart, or shift or scale the parameter"
            )


def _plausible_interval(
    name: str, lower: float, upper: float, turns: bool, given_low: float, given_high: float
) -> tuple[float, float]:
    """The plausible bounds of one parameter, strictly inside the hard bounds; NaN where none was given."""
    lower, upper = float(lower), float(upper)
    if lower == upper:  # a fixed parameter has no plausible interval
        return lower, upper
    low, high = _filled(name, lower, upper, float(given_low), float(given_high))
    found = f"{name} has plausible_lower = {low:.6g} and plausible_upper = {high:.6g}"
    if max(abs(low), abs(high)) >= _LARGE:
        raise ValueError(f"{found}; they must be below {_LARGE:g} in size: change the units")
    if not low < high:
        raise ValueError(f"{found}; plausible_lower must be below plausible_upper. {_OTHER_ORDER}")
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
            f"bounds must lie inside of the bounds. {_OTHER_ORDER}"
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
                + f". {_OTHER_ORDER}" * math.isfinite(lower)
            )
    tenth = 0.1 * (upper - lower)  # a default interval is that much shorter at either end
    return lower + tenth if math.isnan(low) else low, upper - tenth if math.isnan(high) else high


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
