"""From the user's parameters to coordinates without bounds, and back.

A parameter vector theta has P entries. Those that are fixed (lower == upper) have no coordinate; the other
D are carried to R^D in three steps, each with its Jacobian in closed form:

    v  --affine map-->  u  --standardised-->  t  --chart-->  theta,      u = shift + matrix v
                                                                         t = centre + half u

    chart       bounds        theta(t)                ln d theta / dt
    line        none          t                       0
    above       a <           a + e^t                 t
    below       < b           b - e^-t                -t
    between     a < . < b     a + (b - a) Phi(t)      ln (b - a) - t^2 / 2 - ln(2 pi) / 2

`centre` and `half` put the plausible box at [-1, 1]^D, so that nothing behind this file depends on the
user's units. Phi is the normal distribution function: a uniform density on an interval becomes exactly
Gaussian, which a process with a quadratic mean likes better than the exponential tails of a logistic.

A periodic parameter is cut open opposite the middle of its plausible interval, and is then one between two
bounds; what comes back is wrapped into [lower, upper). The affine map is the identity at first and becomes
a whitening when the posterior turns out to be correlated (`Coordinates.moved`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

MARGIN = 0.01
"""How far a plausible bound is moved off the hard bound that it lies on, in widths."""
INNER = 0.1
"""A bounded parameter without plausible bounds has [INNER, 1 - INNER] of its interval as such."""
_LARGEST_EXPONENT = 700.0  # e^700 is still a number

Bound = float | Sequence[float] | np.ndarray | None


@dataclass(frozen=True, eq=False)
class Affine:
    """The map u = shift + matrix v.

    Attributes
    ----------
    shift : (D,)
    matrix : (D, D), invertible; not necessarily triangular.
    """

    shift: np.ndarray
    matrix: np.ndarray

    def __post_init__(self) -> None:
        shift, matrix = np.asarray(self.shift, float), np.asarray(self.matrix, float)
        if shift.ndim != 1 or matrix.shape != (len(shift), len(shift)):
            raise ValueError(
                f"shift has shape {shift.shape} and matrix {matrix.shape}; they must be (D,) and (D, D)"
            )
        if not (np.isfinite(shift).all() and np.isfinite(matrix).all()):
            raise ValueError("shift or matrix has NaN or infinite entries")
        if not np.isfinite(np.linalg.slogdet(matrix)[1]):
            raise ValueError("matrix is singular; it must be invertible")
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def identity(cls, dimension: int) -> Self:
        """The map that does nothing."""
        return cls(np.zeros(dimension), np.eye(dimension))

    def forward(self, v: np.ndarray) -> np.ndarray:
        """Return u (n, D) for v (n, D)."""
        out: np.ndarray = self.shift + v @ self.matrix.T
        return out

    def inverse(self, u: np.ndarray) -> np.ndarray:
        """Return v (n, D) for u (n, D)."""
        return np.linalg.solve(self.matrix, (u - self.shift).T).T

    def after(self, inner: Affine) -> Affine:
        """The map v -> self(inner(v))."""
        return Affine(self.forward(inner.shift[None])[0], self.matrix @ inner.matrix)

    @cached_property
    def log_determinant(self) -> float:
        """Log |det matrix|."""
        return float(np.linalg.slogdet(self.matrix)[1])


@dataclass(frozen=True)
class _Chart:
    """A monotone map from the line onto an interval (a, b)."""

    name: str
    forward: Callable[[Any, Any, Any], Any]
    inverse: Callable[[Any, Any, Any], Any]
    log_slope: Callable[[Any, Any, Any], Any]
    log_slope_gradient: Callable[[Any], Any]

    def __reduce__(self) -> Any:
        """By name: functions without one cannot be pickled, and results travel between processes."""
        return _chart, (self.name,)


def _exp(t: Any) -> Any:
    return np.exp(np.minimum(t, _LARGEST_EXPONENT))


def _between(t: Any, a: Any, b: Any) -> Any:
    near_a = a + (b - a) * ndtr(np.minimum(t, 0.0))  # from the nearer bound: nothing is lost beside it
    return np.where(t < 0.0, near_a, b - (b - a) * ndtr(-np.maximum(t, 0.0)))


def _between_inverse(x: Any, a: Any, b: Any) -> Any:
    from_a, from_b = (x - a) / (b - a), (b - x) / (b - a)
    return np.where(from_a < 0.5, ndtri(np.minimum(from_a, 0.5)), -ndtri(np.minimum(from_b, 0.5)))


_CHARTS = (
    _Chart(
        "line",
        lambda t, a, b: t,
        lambda x, a, b: x,
        lambda t, a, b: np.zeros_like(t),
        np.zeros_like,
    ),
    _Chart(
        "above",
        lambda t, a, b: a + _exp(t),
        lambda x, a, b: np.log(x - a),
        lambda t, a, b: t,
        np.ones_like,
    ),
    _Chart(
        "below",
        lambda t, a, b: b - _exp(-t),
        lambda x, a, b: -np.log(b - x),
        lambda t, a, b: -t,
        lambda t: -np.ones_like(t),
    ),
    _Chart(
        "between",
        _between,
        _between_inverse,
        lambda t, a, b: np.log(b - a) - 0.5 * t * t - 0.5 * math.log(2.0 * math.pi),
        lambda t: -t,
    ),
)


def _chart(name: str) -> _Chart:
    return next(chart for chart in _CHARTS if chart.name == name)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Bounds of P parameters and the coordinates R^D of the free ones; made by `make_coordinates`.

    Attributes
    ----------
    names : P names.
    lower, upper : (P,), infinite where there is none.
    plausible_lower, plausible_upper : (P,), strictly inside the bounds; of a periodic parameter they may
        reach beyond one bound.
    periodic : (P,) bool.
    affine : the map from these coordinates to those in which the plausible box is [-1, 1]^D.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    plausible_lower: np.ndarray
    plausible_upper: np.ndarray
    periodic: np.ndarray
    affine: Affine

    @cached_property
    def free(self) -> np.ndarray:
        """Indices of the parameters that are not fixed, (D,)."""
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
        """Names of the D free parameters."""
        return tuple(self.names[i] for i in self.free)

    @cached_property
    def _window(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends (D,), (D,) of what the charts fill: the bounds, or one period around the middle."""
        a, b = self.lower[self.free].copy(), self.upper[self.free].copy()
        turning = self.periodic[self.free]
        middle = 0.5 * (self.plausible_lower + self.plausible_upper)[self.free][turning]
        half_period = 0.5 * (b - a)[turning]
        a[turning], b[turning] = middle - half_period, middle + half_period
        return a, b

    @cached_property
    def _columns(self) -> tuple[tuple[_Chart, np.ndarray], ...]:
        """Each chart with the coordinates that it serves."""
        a, b = self._window
        kind = np.isfinite(a) + 2 * np.isfinite(b)
        return tuple(
            (chart, np.flatnonzero(kind == i)) for i, chart in enumerate(_CHARTS) if (kind == i).any()
        )

    @cached_property
    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half width (D,) of the plausible box in t."""
        low = self._apply("inverse", self.plausible_lower[self.free][None])[0]
        high = self._apply("inverse", self.plausible_upper[self.free][None])[0]
        return 0.5 * (low + high), 0.5 * (high - low)

    def _apply(self, method: str, x: np.ndarray) -> np.ndarray:
        """`method` of the charts on the columns (n, D)."""
        a, b = self._window
        out = np.empty(x.shape)
        for chart, where in self._columns:
            out[:, where] = getattr(chart, method)(x[:, where], a[where], b[where])
        return out

    def _raw(self, points: np.ndarray) -> np.ndarray:
        """The line's coordinates t (n, D)."""
        centre, half = self._standard
        out: np.ndarray = centre + half * self.affine.forward(points)
        return out

    def _require(self, name: str, x: Any, columns: int) -> np.ndarray:
        array = np.asarray(x, float)
        if array.ndim != 2 or array.shape[1] != columns:
            raise ValueError(f"{name} has shape {array.shape}; it must be (n, {columns})")
        return array

    def unwrapped(self, points: np.ndarray) -> np.ndarray:
        """As `to_user`, but periodic parameters continue over a bound: what moments are taken of."""
        points = self._require("points", points, self.dimension)
        a, b = self._window
        inside = np.clip(self._apply("forward", self._raw(points)), np.nextafter(a, b), np.nextafter(b, a))
        theta = np.tile(self.lower, (len(points), 1))
        theta[:, self.free] = inside
        return theta

    def to_user(self, points: np.ndarray) -> np.ndarray:
        """Parameters (n, P) at the points (n, D): strictly inside the bounds, fixed ones as they are."""
        return self.wrapped(self.unwrapped(points))

    def wrapped(self, theta: np.ndarray) -> np.ndarray:
        """Parameters (n, P) with the periodic ones brought into [lower, upper)."""
        theta = theta.copy()
        turning = np.flatnonzero(self.periodic & (self.lower < self.upper))
        low, high = self.lower[turning], self.upper[turning]
        wrapped = low + np.mod(theta[:, turning] - low, high - low)
        theta[:, turning] = np.where(wrapped >= high, low, wrapped)
        return theta

    def from_user(self, theta: np.ndarray) -> np.ndarray:
        """Points (n, D) of the parameters (n, P).

        Raises
        ------
        ValueError
            where a parameter is not strictly inside its bounds, is not its fixed value, or is NaN.
        """
        theta = self._require("theta", theta, self.n_parameters)
        self.require_inside("theta", theta)
        a, b = self._window
        x = theta[:, self.free]
        turning = self.periodic[self.free]
        period = (b - a)[turning]
        inside = a[turning] + np.mod(x[:, turning] - a[turning], period)
        x[:, turning] = np.clip(inside, np.nextafter(a, b)[turning], np.nextafter(b, a)[turning])
        centre, half = self._standard
        return self.affine.inverse((self._apply("inverse", x) - centre) / half)

    def inside(self, theta: np.ndarray) -> np.ndarray:
        """Which entries of ``theta`` (n, P) have a density: inside the bounds, or at a fixed value."""
        inside = (theta > self.lower) & (theta < self.upper)
        inside |= (self.lower == self.upper) & (theta == self.lower)
        inside |= self.periodic & (self.lower < self.upper)
        found: np.ndarray = inside & np.isfinite(theta)
        return found

    def require_inside(self, name: str, theta: np.ndarray) -> None:
        """ValueError unless each row of ``theta`` (n, P) is strictly inside the bounds."""
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
        """Log |d theta_free / d v| at the points, (n,)."""
        t = self._raw(self._require("points", points, self.dimension))
        _, half = self._standard
        constant = float(np.log(half).sum()) + self.affine.log_determinant
        out: np.ndarray = self._apply("log_slope", t).sum(axis=1) + constant
        return out

    def log_jacobian_gradient(self, points: np.ndarray) -> np.ndarray:
        """Its gradient in v, (n, D)."""
        t = self._raw(self._require("points", points, self.dimension))
        _, half = self._standard
        slopes = np.empty(t.shape)
        for chart, where in self._columns:
            slopes[:, where] = chart.log_slope_gradient(t[:, where])
        out: np.ndarray = (slopes * half) @ self.affine.matrix
        return out

    def pull_gradients(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Gradients in v (n, D) of a function whose gradients in theta are (n, P); without the Jacobian's."""
        points = self._require("points", points, self.dimension)
        gradients = self._require("gradients", gradients, self.n_parameters)
        _, half = self._standard
        slopes = _exp(self._apply("log_slope", self._raw(points)))
        out: np.ndarray = (gradients[:, self.free] * slopes * half) @ self.affine.matrix
        return out

    def moved(self, inner: Affine) -> Coordinates:
        """Coordinates w with v = inner.shift + inner.matrix w."""
        return dataclasses.replace(self, affine=self.affine.after(inner))

    def raw_affine(self) -> Affine:
        """The map from v to the charts' coordinates t: what a transform of a distribution is made of."""
        centre, half = self._standard
        return Affine(centre, np.diag(half)).after(self.affine)

    def chart_values(self, t: np.ndarray, only: int | None = None) -> np.ndarray:
        """Free parameters for t (..., D) of the charts, not wrapped; or of the coordinate ``only``, any t."""
        a, b = self._window
        out = np.empty(t.shape)
        for chart, where in self._columns:
            if only is None:
                out[..., where] = chart.forward(t[..., where], a[where], b[where])
            elif only in where:
                out = chart.forward(t, a[only], b[only])
        return out

    def axis(self, position: int) -> Coordinates:
        """Coordinates of the free parameter at ``position`` by itself."""
        i = [int(self.free[position])]
        return Coordinates(
            names=(self.names[i[0]],),
            lower=self.lower[i],
            upper=self.upper[i],
            plausible_lower=self.plausible_lower[i],
            plausible_upper=self.plausible_upper[i],
            periodic=self.periodic[i],
            affine=Affine.identity(1),
        )

    def charts(self) -> tuple[tuple[str, float, float], ...]:
        """For each coordinate the chart's name and the ends of its interval."""
        a, b = self._window
        names = {int(i): chart.name for chart, where in self._columns for i in where}
        return tuple((names[i], float(a[i]), float(b[i])) for i in range(self.dimension))

    def unlike(self, other: Coordinates) -> str:
        """The first attribute in which the bounds of ``other`` differ, "" if none does; names may differ."""
        for name in ("lower", "upper", "plausible_lower", "plausible_upper", "periodic"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                return name
        return ""

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays from which `from_arrays` makes the same coordinates again."""
        return {
            "names": np.array(json.dumps(list(self.names))),
            "lower": self.lower,
            "upper": self.upper,
            "plausible_lower": self.plausible_lower,
            "plausible_upper": self.plausible_upper,
            "periodic": self.periodic,
            "shift": self.affine.shift,
            "matrix": self.affine.matrix,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """What `to_arrays` was called on."""
        plain = {
            key: np.array(arrays[key]) for key in ("lower", "upper", "plausible_lower", "plausible_upper")
        }
        return cls(
            names=tuple(json.loads(str(arrays["names"]))),
            **plain,
            periodic=np.array(arrays["periodic"], bool),
            affine=Affine(arrays["shift"], arrays["matrix"]),
        )


def make_coordinates(
    lower: Bound = None,
    upper: Bound = None,
    plausible_lower: Bound = None,
    plausible_upper: Bound = None,
    *,
    periodic: Sequence[int] | Sequence[bool] | np.ndarray = (),
    names: Sequence[str] | None = None,
    dimension: int | None = None,
) -> Coordinates:
    """Coordinates for P parameters.

    Parameters
    ----------
    lower, upper : (P,) or a number for all; None or infinite entries: no bound. lower == upper fixes a
        parameter.
    plausible_lower, plausible_upper : (P,) or a number for all: an interval that is likely to hold most of
        the posterior, about two standard deviations to either side. Parameters with both bounds may do
        without (NaN entries or None): the middle 80 % of their interval stand in. On a hard bound it is
        moved in by 1 % of the interval.
    periodic : indices of the periodic parameters, or P booleans; their period is upper - lower.
    names : P different names; x0, x1, ... if not given.
    dimension : P, where no vector tells it.

    Raises
    ------
    ValueError
        Lengths disagree, bounds are NaN or out of order, plausible bounds lie outside of them, are out of
        order or missing, a periodic parameter lacks a bound, every parameter is fixed.
    TypeError
        Something is no array of numbers.
    """
    bounds = {
        "lower": lower,
        "upper": upper,
        "plausible_lower": plausible_lower,
        "plausible_upper": plausible_upper,
    }
    count = _count(bounds, names, dimension)
    low = _vector("lower", lower, count, -np.inf)
    high = _vector("upper", upper, count, np.inf)
    titles = _names(names, count)
    turning = _periodic(periodic, count)
    _require_order(titles, low, high, turning)
    given = (
        _vector("plausible_lower", plausible_lower, count, np.nan),
        _vector("plausible_upper", plausible_upper, count, np.nan),
    )
    box = _plausible(titles, low, high, turning, *given)
    free = int((low < high).sum())
    if free == 0:
        raise ValueError("lower equals upper for every parameter; at least one must be free")
    return Coordinates(titles, low, high, *box, turning, Affine.identity(free))


def _count(bounds: Mapping[str, Bound], names: Sequence[str] | None, dimension: int | None) -> int:
    """P, on which all vectors must agree."""
    lengths = {name: len(np.atleast_1d(value)) for name, value in bounds.items() if np.ndim(value) > 0}  # type: ignore[arg-type]
    if names is not None:
        lengths["names"] = len(names)
    if dimension is not None:
        lengths["dimension"] = dimension
    if not lengths:
        raise ValueError(
            "the number of parameters is not known; give lower, upper, plausible_lower or plausible_upper "
            "as an array with one entry for each parameter"
        )
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the lengths disagree: {told}; each must have one entry for each parameter")
    count = next(iter(lengths.values()))
    if count < 1:
        raise ValueError("there are no parameters; give at least one")
    return count


def _vector(name: str, value: Bound, count: int, missing: float) -> np.ndarray:
    if value is None:
        return np.full(count, missing)
    try:
        vector = np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; it must be a number or an array ({count},)") from None
    if vector.shape not in ((), (count,)):
        raise ValueError(f"{name} has shape {vector.shape}; it must be a number or an array ({count},)")
    return np.broadcast_to(vector, (count,)).copy()


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"names is {names!r}; it must be a sequence of {count} names")
    titles = tuple(f"x{i}" for i in range(count)) if names is None else tuple(map(str, names))
    if len(set(titles)) < count:
        raise ValueError(f"names is {list(titles)}; the names must differ")
    return titles


def _periodic(periodic: Any, count: int) -> np.ndarray:
    given = np.asarray(periodic)
    if given.size == 0:
        return np.zeros(count, bool)
    if given.dtype == bool and given.shape == (count,):
        return given.copy()
    whole = given.ndim == 1 and np.issubdtype(given.dtype, np.integer)
    if not whole or given.min() < 0 or given.max() >= count:
        raise ValueError(f"periodic is {periodic!r}; it must be indices below {count}, or {count} booleans")
    return np.isin(np.arange(count), given)


def _require_order(names: tuple[str, ...], low: np.ndarray, high: np.ndarray, turning: np.ndarray) -> None:
    for i, name in enumerate(names):
        if math.isnan(low[i]) or math.isnan(high[i]):
            raise ValueError(f"{name} has a bound that is NaN; give a number, or -inf and inf for none")
        if low[i] > high[i]:
            raise ValueError(
                f"{name} has lower = {low[i]:.6g} above upper = {high[i]:.6g}; lower must be below upper, or "
                "equal to it for a fixed parameter"
            )
        if low[i] == high[i] and math.isinf(low[i]):
            raise ValueError(f"{name} has both bounds at {low[i]}; give a number to fix it")
        if turning[i] and not math.isfinite(high[i] - low[i]):
            raise ValueError(f"{name} is periodic and needs a finite lower and upper, a period apart")


def _plausible(
    names: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
    turning: np.ndarray,
    given_low: np.ndarray,
    given_high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Plausible bounds, strictly inside the hard ones."""
    out_low, out_high = given_low.copy(), given_high.copy()
    for i, name in enumerate(names):
        a, b = float(low[i]), float(high[i])
        if a == b:  # fixed: the interval has no meaning
            out_low[i] = out_high[i] = a
            continue
        p, q = _filled(name, a, b, float(given_low[i]), float(given_high[i]))
        if not p < q:
            raise ValueError(
                f"{name} has plausible_lower = {p:.6g} and plausible_upper = {q:.6g}; "
                "plausible_lower must be below plausible_upper"
            )
        if turning[i]:
            out_low[i], out_high[i] = _within_period(name, a, b, p, q)
        else:
            _require_within(name, a, b, p, q)
            out_low[i], out_high[i] = _off_the_bounds(a, b, p, q)
    return out_low, out_high


def _filled(name: str, a: float, b: float, p: float, q: float) -> tuple[float, float]:
    """Plausible bounds in the place of those that are missing."""
    bounded = math.isfinite(b - a)
    for side, value in (("plausible_lower", p), ("plausible_upper", q)):
        if math.isinf(value) or (math.isnan(value) and not bounded):
            told = "is missing" if math.isnan(value) else f"is {value}"
            raise ValueError(
                f"{side} of {name} {told}; without two finite bounds a parameter needs plausible ones"
            )
    p = a + INNER * (b - a) if math.isnan(p) else p
    q = b - INNER * (b - a) if math.isnan(q) else q
    return p, q


def _within_period(name: str, a: float, b: float, p: float, q: float) -> tuple[float, float]:
    if min(q, b) < max(p, a):
        raise ValueError(
            f"{name} has its plausible interval [{p:.6g}, {q:.6g}] outside of its period [{a:.6g}, {b:.6g}]"
        )
    middle, half = 0.5 * (p + q), min(0.5 * (q - p), (0.5 - MARGIN) * (b - a))
    return middle - half, middle + half


def _require_within(name: str, a: float, b: float, p: float, q: float) -> None:
    if p < a or q > b:
        raise ValueError(
            f"{name} has its plausible interval [{p:.6g}, {q:.6g}] outside of its bounds [{a:.6g}, {b:.6g}]; "
            "the plausible bounds must lie inside of the bounds"
        )


def _off_the_bounds(a: float, b: float, p: float, q: float) -> tuple[float, float]:
    width = b - a if math.isfinite(b - a) else q - p
    low = max(p, a + MARGIN * width) if math.isfinite(a) else p
    high = min(q, b - MARGIN * width) if math.isfinite(b) else q
    if low < high:
        return low, high
    # An interval squeezed against a bound: a part of its own width will do.
    return p + MARGIN * (q - p) * (p == a), q - MARGIN * (q - p) * (q == b)
