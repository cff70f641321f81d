"""A log joint over R^P of another package's model, with the maps between theta and its named variables.

The front doors accept a `TargetModel` instead of a log joint. Its parameters theta are unconstrained: the
package's own transforms, whose Jacobians are part of the log joint, map them to the named variables.

    theta (n, P)  --to_named-->  {"tau": (n,), "effect": (n, 8), ...}       drawn, saved, plotted
                  --log_joint, log_joint_and_gradient-->  rounded, called by the engines

PyMC, NumPyro and Stan sum the same terms in different orders, and their last digits differ. Where to evaluate
next is chosen by comparisons, which amplify such differences: two runs of VBMC on one posterior end at
different evaluations. Values are rounded to multiples of 2^-34 times the power of two above them, or times 1
where that is larger; gradients likewise, with the power of two above their largest entry. With 34 binary
digits about one number in 100,000 differs between two packages, and a log joint of -1e6 has an error of at
most 6e-5 nats.

A run begins in the plausible box. Where the user gives none, `fit` with 'bq' begins with a search around the
start, `vbmc`, which searches by itself, in the box around the start, so that a run is the same for all
packages, and `integrate` asks for a measure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bqvi.calls.function import Function, GradientWithValue, names_of
from bqvi.calls.settings import INTERVALS
from gp.arrays import Array, shown
from gp.checks import vector_of


@dataclass(frozen=True)
class Rounded:
    """A log joint, alone or with its gradient as `TargetModel` has it, rounded.

    Attributes
    ----------
    function : returns a log joint, or (log joint, gradient) if ``paired``; what else is in a tuple, as noise,
        and anything else is passed on unchanged.
    """

    function: Callable[[Array], Any]
    paired: bool = False

    def __call__(self, theta: Any, /) -> Any:
        """The log joint, with its gradient if ``paired``, at theta."""
        found = self.function(theta)
        if not isinstance(found, tuple):
            return found if self.paired else _rounded_if_numbers(found)
        parts = found[: 1 + self.paired]
        return (*(_rounded_if_numbers(x, rows=i > 0) for i, x in enumerate(parts)), *found[len(parts) :])


def _rounded_if_numbers(found: object, rows: bool = False) -> Any:
    """Real numbers rounded, a number as a number; anything else unchanged, for the caller to check."""
    if not isinstance(found, float | np.floating | np.ndarray) or np.asarray(found).dtype != np.float64:
        return found
    made = rounded(np.asarray(found), rows)
    return made if isinstance(found, np.ndarray) else float(made)


def rounded(numbers: np.ndarray, rows: bool = False) -> np.ndarray:
    """Numbers (...) rounded, each in its own units or, with ``rows``, in those of the row's largest entry."""
    sizes = np.abs(numbers)
    if rows:
        sizes = np.where(np.isfinite(sizes), sizes, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):
        units = np.ldexp(1.0, np.frexp(np.maximum(sizes, 1.0))[1] - 34)
        return np.where(np.isfinite(numbers / units), np.round(numbers / units) * units, numbers)


@dataclass(frozen=True, eq=False)
class TargetModel:
    """A log joint density of P unconstrained parameters, which the front doors accept.

    Attributes
    ----------
    log_joint : a function of theta (P,) -> a number; if ``vectorised``, (n, P) -> (n,). It contains the
        Jacobians of the transforms.
    names : the names of the P parameters; or P, for x0, x1, ...
    log_joint_and_gradient : the log joint with its gradient, (P,) -> (a number, (P,)); if ``vectorised``,
        (n, P) -> ((n,), (n, P)); None where there is no gradient.
    vectorised : whether both functions take many points at once.
    start : the point (P,) where a run begins; by default the middle of the plausible box.
    plausible_lower, plausible_upper : the ends of a box, (P,) or a number, that is likely to contain most of
        the posterior; by default ``prior_box``, or 2 to either side of ``start`` where that is None.
    to_named : a function (n, P) -> name -> array (n, ...), the variables of the model; by default the
        parameters.
    from_named : a function of name -> array (...) that returns theta (P,); None where it is not known.
    coords : dimension -> labels. dims : variable -> names of the dimensions of ``to_named`` after the first.
    observed, constants : name -> array, the data, for files.
    package : the name and version of the package of the model, for files.
    prior_box : the ends (P,) and (P,) of the central 95 % of the prior; None where it is not known.
    boxed : whether the plausible box may be used as it is and is no guess; by default, whether one of its
        ends was given.

    Examples
    --------
    >>> import bqvi
    >>> model = bqvi.adapters.TargetModel(lambda t: -0.5 * t @ t, ("a", "b"), lambda t: (-0.5 * t @ t, -t))
    >>> fit = bqvi.fit(model, method="bq", budget=20, seed=0)
    >>> print(f"{fit.log_evidence:.2f}")  # exactly ln 2 pi = 1.84
    1.84
    """

    log_joint: Callable[[Array], Array]
    names: tuple[str, ...] | Any
    log_joint_and_gradient: Callable[[Array], Array] | None = None
    vectorised: bool = False
    start: np.ndarray | None = None
    plausible_lower: np.ndarray | None = None
    plausible_upper: np.ndarray | None = None
    to_named: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    from_named: Callable[[Mapping[str, Any]], np.ndarray] | None = None
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    observed: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    package: str = ""
    prior_box: tuple[np.ndarray, np.ndarray] | None = None
    boxed: bool | None = None

    def __post_init__(self) -> None:
        for name in ("log_joint", "log_joint_and_gradient", "to_named", "from_named"):
            given = getattr(self, name)
            if not (callable(given) or (given is None and name != "log_joint")):
                raise TypeError(f"{name} is {shown(given)}; it must be a function")
        if isinstance(self.names, str):
            raise TypeError(f"names is {self.names!r}; it must be a sequence of names, or their number")
        count = self.names if isinstance(self.names, int) else len(self.names)
        if count < 1:
            raise ValueError("names is empty; a model needs at least one parameter")
        object.__setattr__(self, "names", names_of(None if self.names is count else self.names, count))
        if self.boxed is None:
            given = self.plausible_lower is not None or self.plausible_upper is not None
            object.__setattr__(self, "boxed", given)
        low = vector_of("plausible_lower", self.plausible_lower, count, np.nan)
        high = vector_of("plausible_upper", self.plausible_upper, count, np.nan)
        middle = np.where(np.isfinite(low + high), 0.5 * (low + high), 0.0)
        start = middle if self.start is None else vector_of("start", self.start, count, np.nan)
        usual = box_around(start[None]) if self.prior_box is None else self.prior_box
        ends = zip((low, high), usual, strict=True)
        low, high = (np.where(np.isnan(end), other, end) for end, other in ends)
        if not np.isfinite(np.stack([start, low, high])).all():
            raise ValueError("start, plausible_lower or plausible_upper has entries that are not finite")
        if not (low < high).all():
            i = int(np.argmin(low < high))
            raise ValueError(
                f"{self.names[i]} has plausible_lower = {low[i]:.6g} and plausible_upper = {high[i]:.6g}; "
                "plausible_lower must be below plausible_upper"
            )
        for name, value in (("start", start), ("plausible_lower", low), ("plausible_upper", high)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        package = f" of {self.package}" if self.package else ""
        listed = ", ".join(self.names[:6]) + (", ..." if self.dimension > 6 else "")
        return f"TargetModel({self.dimension} parameters{package}: {listed})"

    @property
    def dimension(self) -> int:
        """The number P of parameters, all of them free."""
        return len(self.names)

    @property
    def has_gradient(self) -> bool:
        """Whether there is a gradient."""
        return self.log_joint_and_gradient is not None

    def without_gradient(self) -> TargetModel:
        """The model without its gradient."""
        return dataclasses.replace(self, log_joint_and_gradient=None)

    def value(self, theta: Array) -> Any:
        """The log joint, a number at theta (P,), or (n,) at (n, P)."""
        points, one = self._points(theta)
        found = self.log_joint(points) if self.vectorised else [self.log_joint(point) for point in points]
        values = np.asarray(found, float)
        return float(values[0]) if one else values

    def value_and_gradient(self, theta: Array) -> tuple[Any, np.ndarray]:
        """The log joint and its gradient: a number and (P,) at theta (P,), or (n,) and (n, P) at (n, P)."""
        points, one = self._points(theta)
        both = self.log_joint_and_gradient
        if both is None:
            raise ValueError("the model has no gradient; `value` gives its log joint")
        pairs = both(points) if self.vectorised else zip(*map(both, points), strict=True)
        values, gradients = (np.asarray(part, float) for part in pairs)
        return (float(values[0]), gradients[0]) if one else (values, gradients)

    def constrain(self, theta: Array) -> dict[str, np.ndarray]:
        """The model's variables at theta (P,) or (n, P), by name: arrays (...) or (n, ...)."""
        points, one = self._points(theta)
        if self.to_named is None:
            found: Mapping[str, np.ndarray] = dict(zip(self.names, points.T, strict=True))
        else:
            found = self.to_named(points)
        return {name: np.asarray(x)[0] if one else np.asarray(x) for name, x in found.items()}

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """The parameters theta (P,) of the model's free variables, given by name in ``values``."""
        if self.from_named is None and self.to_named is not None:
            raise ValueError("this model does not say how its variables are unconstrained (from_named)")
        try:
            if self.from_named is None:
                return np.array([float(values[name]) for name in self.names])
            return np.asarray(self.from_named(values), float)
        except KeyError as error:
            raise ValueError(f"values has {', '.join(values)}; it lacks {error.args[0]}") from None

    def box(self, lower: object, upper: object) -> tuple[Any, Any]:
        """The plausible box: ``lower`` and ``upper`` where they are given, the model's own otherwise."""
        return (
            self.plausible_lower if lower is None else lower,
            self.plausible_upper if upper is None else upper,
        )

    def function(self, errors: str = "numerical") -> Function:
        """The log joint rounded, for engines; ``errors`` as in `bqvi.calls.Function`."""
        both = self.log_joint_and_gradient
        gradient = None if both is None else GradientWithValue(Rounded(both, paired=True))
        value = Rounded(self.log_joint)
        return Function(value, gradient, self.vectorised, errors=errors, names=self.names, model=self)

    def _points(self, theta: Array) -> tuple[np.ndarray, bool]:
        """The argument theta as an array (n, P), and whether it was one point (P,)."""
        array = np.asarray(theta, float)
        if array.ndim not in (1, 2) or array.shape[-1] != self.dimension:
            count = self.dimension
            raise ValueError(f"theta has shape {array.shape}; it must be ({count},) or (n, {count})")
        return np.atleast_2d(array), array.ndim == 1


def require_alone(model: TargetModel, **others: Any) -> None:
    """Raise ValueError where one of the ``others`` was given, which are part of the model.

    Parameters
    ----------
    model : the model that was given instead of a log joint.
    others : arguments of the front door by name; None or empty where they were not given.
    """
    for name, value in others.items():
        if value is not None and not (np.ndim(value) and np.size(value) == 0):
            message = f"{name} is given beside a {type(model).__name__}, which has its own"
            if name == "gradient":
                message += "; to do without, give model.without_gradient()"
            elif name in ("lower", "upper", "periodic"):
                message += ": its parameters are unconstrained, by the model's own transforms"
            raise ValueError(message)


def box_around(start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The default plausible box, with ends (P,), (P,), around points (m, P)."""
    return start.min(0) - INTERVALS.half_width, start.max(0) + INTERVALS.half_width
