"""The user's function: its value, gradient, noise, kind of arrays, and the values that it may return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.arguments import Such, instead
from bqvi.calls.bounds import names_of
from bqvi.calls.parameters import by_name
from gp.arrays import Array, as_like, is_torch, shown
from gp.checks import require_above, require_boolean

if TYPE_CHECKING:
    from bqvi.calls.target_model import TargetModel

AUTODIFF = "autodiff"
UNKNOWN = "unknown"
_LEAST_NOISE = 1e-150
"""The least standard deviation of noise; its square and that of its inverse are representable."""
_MANY, _SHOWN = 20, 8
"""The number of parameters up to which messages name all of them, and how many are named beyond."""
LARGEST = 1e100
"""Log densities beyond this are treated as overflows, or as a user's code for a density of zero."""


@dataclass(frozen=True)
class Range:
    """The values that a function may return, and its name in messages.

    Attributes
    ----------
    title : the name: "log joint", "integrand", ...
    density : whether it is a log density: -inf and values below -1e100 are an infeasible point, and values
        of 1e100 and above an error, or with ``errors="infeasible"`` an infeasible point, too.
    logarithmic : whether values are logarithms, for which -inf is allowed.
    non_negative : the reason why negative values are an error, for messages; "" where they are allowed.
    outputs : whether it may return several numbers at a point.
    everywhere : the reason why a value is needed at each point, and advice, for messages; "" where points
        without a value are allowed, or the user has excluded them by ``errors="raise"``.
    beside : the log prior (n,) at theta (n, P), which values have beside what the user's function returned.
    prior : what tells this prior from others.
    """

    title: str
    density: bool = False
    logarithmic: bool = False
    non_negative: str = ""
    outputs: bool = False
    everywhere: str = ""
    beside: Callable[[np.ndarray], np.ndarray] | None = None
    prior: str = ""

    @property
    def missing(self) -> float:
        """The value of a failed row."""
        return -np.inf if self.density else np.nan


LOG_JOINT = Range("log joint", density=True)
CHEAP_MODEL = Range("cheap model", density=True)

STATED = Such(
    lambda given: not isinstance(given, str),
    "a number or a function of theta; where it is not known, bqvi.vbmc fits it",
    error=ValueError,
)
"""The noise of values that a door cannot learn."""


def named_point(names: Sequence[str], point: np.ndarray) -> str:
    """The text by which messages name a point (P,); without names its entries are x0, x1, ...

    Of many entries the first are shown.
    """
    shown = names_of(names or None, len(point))[: _SHOWN if len(point) > _MANY else None]
    text = ", ".join(f"{name} = {x:.6g}" for name, x in zip(shown, point, strict=False))
    return text if len(shown) == len(point) else f"{text}, ... ({len(point)} parameters)"


@dataclass(frozen=True)
class GradientWithValue:
    """A gradient that is computed together with the value, in one call.

    Attributes
    ----------
    both : a function (P,) -> (a number, (P,)), or if vectorised (n, P) -> ((n,), (n, P)).
    """

    both: Callable[[Array], Array]

    def __call__(self, theta: Array, /) -> Any:
        """The gradient alone."""
        return self.both(theta)[1]


@dataclass(frozen=True, eq=False)
class Function:
    """A function of points theta in P dimensions, and how it is called.

    Attributes
    ----------
    value : a function (P,) -> a number, or (o,) where the range allows several; if ``vectorised``, (n, P) ->
        (n,) or (n, o). A log joint may return (value, standard deviation of its noise). A function of one
        point may append a dict of numbers, text and arrays, which is kept with the evaluation.
    gradient : None; "autodiff", with which ``value`` takes and returns torch tensors; or a function (P,) ->
        (P,) or (o, P), if ``vectorised`` (n, P) -> (n, P) or (n, o, P). A `GradientWithValue` is called
        instead of ``value``.
    vectorised : whether ``value``, ``gradient`` and ``noise_sd`` take many points at once.
    noise_sd : the standard deviation of the values' noise: None, where values are exact unless ``value``
        returns a standard deviation; a number; "unknown"; or a function (P,) -> a number, if ``vectorised``
        (n, P) -> (n,), called once at each point.
    gradient_noise_sd : the standard deviation of the noise of the gradient's entries, () or (P,); None where
        they are exact.
    log_weight : a function (n, P) -> (n,), the logarithm of a factor by which values are multiplied; or None.
    like : an array of the kind, dtype and device that points are passed in; None for float64 arrays of NumPy,
        or of torch with "autodiff".
    range : the values that may be returned.
    errors : "raise", "infeasible" or "numerical": see :mod:`bqvi.calls.faults`.
    names : the names of the P parameters, for messages and for functions that take them as arguments.
    model : the `bqvi.calls.TargetModel` whose log joint this is; None if there is none.
    """

    value: Callable[..., Any]
    gradient: Callable[..., Any] | str | None = None
    vectorised: bool = False
    noise_sd: float | str | Callable[..., Any] | None = None
    gradient_noise_sd: np.ndarray | None = None
    log_weight: Callable[..., Any] | None = None
    like: Array | None = None
    range: Range = LOG_JOINT
    errors: str = "numerical"
    names: tuple[str, ...] = ()
    model: TargetModel | None = None

    def __post_init__(self) -> None:
        for name in ("value", "gradient", "noise_sd"):
            object.__setattr__(self, name, by_name(getattr(self, name), self.names))
        value: object = self.value
        if not callable(value):
            name = self.range.title.replace(" ", "_")
            raise TypeError(f"{name} is {shown(value)}; it must be a function of points{instead(value)}")
        require_boolean("vectorised", self.vectorised)
        named = isinstance(self.gradient, str) and self.gradient == AUTODIFF
        if not (self.gradient is None or callable(self.gradient) or named):
            raise ValueError(f'gradient is {self.gradient!r}; it must be None, "autodiff" or a function')
        if isinstance(self.noise_sd, str):
            if self.noise_sd != UNKNOWN:
                raise ValueError(
                    f'noise_sd is {self.noise_sd!r}; it must be None, a number, "unknown" or a function of '
                    "the points"
                )
        elif self.noise_sd is not None and not callable(self.noise_sd):
            require_above("noise_sd", self.noise_sd, 0.0)
            if not _LEAST_NOISE < float(self.noise_sd) < 1.0 / _LEAST_NOISE:
                raise ValueError(
                    f"noise_sd is {self.noise_sd}; its square is out of the range of numbers: change the "
                    "units, or leave it out where the values are exact"
                )
            object.__setattr__(self, "noise_sd", float(self.noise_sd))

    @property
    def logarithmic(self) -> bool:
        """Whether values are logarithms, for which -inf is allowed."""
        return self.range.logarithmic

    def many(self, points: np.ndarray) -> Array:
        """The points (n, P) in the user's kind of array; a copy, which the user's function may change."""
        return as_like(points, self.like) if is_torch(self.like) else points.copy()

    def given(self, points: np.ndarray) -> Array:
        """The points (n, P) as `value` takes them, or the first of them alone."""
        return self.many(points) if self.vectorised else self.many(points)[0]

    def place(self, point: np.ndarray) -> str:
        """The text by which messages name a point (P,)."""
        return named_point(self.names, point)

    def places(self, points: np.ndarray) -> str:
        """The text by which messages name points (n, P)."""
        first = self.place(points[0])
        return first if len(points) == 1 else f"one of {len(points)} points, the first of which is {first}"
