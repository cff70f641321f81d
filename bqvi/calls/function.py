"""The user's function: value, gradient, noise, kind of arrays, and what may be returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.calls.faults import ERRORS
from bqvi.checks import require_above, require_boolean, require_one_of
from gp.arrays import Array, as_like, is_torch, shown

if TYPE_CHECKING:
    from bqvi.calls.target_model import TargetModel

AUTODIFF = "autodiff"
UNKNOWN = "unknown"
_LEAST_NOISE = 1e-150
"""Least standard deviation of noise; its square and the square of its inverse are still representable."""
LARGEST = 1e100
"""No log density of data has such values; they are overflows, or stand for 'impossible'."""


@dataclass(frozen=True)
class Range:
    """Which values a function may return, and what its messages call it.

    Attributes
    ----------
    title : "log joint", "integrand", ...
    density : whether it is a log density: -inf, and what is below -1e100, is an infeasible point, and values
        of 1e100 and above are an error, or with ``errors="infeasible"`` such a point too.
    logarithmic : whether values are logarithms, of which -inf is one like others.
    non_negative : why negative values are an error, in words; "" where they are not.
    outputs : whether it may return several numbers a point.
    """

    title: str
    density: bool = False
    logarithmic: bool = False
    non_negative: str = ""
    outputs: bool = False

    @property
    def missing(self) -> float:
        """The value of a failed row."""
        return -np.inf if self.density else np.nan


LOG_JOINT = Range("log joint", density=True)
CHEAP_MODEL = Range("cheap model", density=True)


def require_noise(noise_sd: object) -> None:
    """A standard deviation, whose square is a number too."""
    require_above("noise_sd", noise_sd, 0.0)  # type: ignore[arg-type]
    if not _LEAST_NOISE < float(noise_sd) < 1.0 / _LEAST_NOISE:  # type: ignore[arg-type]
        raise ValueError(
            f"noise_sd is {noise_sd}; its square is out of the range of numbers: change the units, or "
            "leave it out where the values are exact"
        )


@dataclass(frozen=True)
class GradientWithValue:
    """A gradient that is computed together with the value, in one call.

    Attributes
    ----------
    both : (P,) -> (a number, (P,)); of a vectorised function, (n, P) -> ((n,), (n, P)).
    """

    both: Callable[[Any], Any]

    def __call__(self, theta: Array) -> Any:
        """The gradient alone."""
        return self.both(theta)[1]


@dataclass(frozen=True, eq=False)
class Function:
    """A function of points theta in P dimensions, and how it is called.

    Attributes
    ----------
    value : (P,) -> a number, or (o,) where the range allows several; if ``vectorised``, (n, P) -> (n,) or
        (n, o). A log joint may return (value, standard deviation of its noise). One of one point may return
        a dict after these, of numbers, text and arrays, which is kept with the evaluation.
    gradient : None; "autodiff": ``value`` takes and returns torch tensors; or a function (P,) -> (P,) or
        (o, P); if ``vectorised``, (n, P) -> (n, P) or (n, o, P). A `GradientWithValue` is called in the place
        of ``value``.
    vectorised : whether ``value`` and its like take many points at once.
    noise_sd : of the values: None, exact unless ``value`` returns a standard deviation; a number; "unknown";
        or a function (P,) -> a number, if ``vectorised`` (n, P) -> (n,). Called once at each point.
    gradient_noise_sd : None, exact; () or (P,): of the noise of the gradient's entries.
    log_weight : None; or a function (n, P) -> (n,), the logarithm of a factor of what is returned.
    like : an array of the kind, dtype and device that points are handed over in; None: NumPy, or for
        "autodiff" torch, float64.
    range : which values may be returned.
    errors : "raise", "infeasible" or None: see :mod:`bqvi.calls.faults`.
    names : of the P parameters, for messages.
    model : the `bqvi.calls.TargetModel` whose log joint it is, if it is one's.

    Raises
    ------
    TypeError, ValueError
        where an argument is none of these.
    """

    value: Callable[..., Any]
    gradient: Callable[..., Any] | str | None = None
    vectorised: bool = False
    noise_sd: float | str | Callable[..., Any] | None = None
    gradient_noise_sd: np.ndarray | None = None
    log_weight: Callable[..., Any] | None = None
    like: Array | None = None
    range: Range = LOG_JOINT
    errors: str | None = None
    names: tuple[str, ...] = ()
    model: TargetModel | None = None

    def __post_init__(self) -> None:
        value: object = self.value
        if not callable(value):
            name = self.range.title.replace(" ", "_")
            raise TypeError(f"{name} is {shown(value)}; it must be a function of points")
        require_boolean("vectorised", self.vectorised)
        named = isinstance(self.gradient, str) and self.gradient == AUTODIFF
        if not (self.gradient is None or callable(self.gradient) or named):
            raise ValueError(f'gradient is {self.gradient!r}; it must be None, "autodiff" or a function')
        if self.errors is not None:
            require_one_of("errors", self.errors, ERRORS)
        if isinstance(self.noise_sd, str):
            if self.noise_sd != UNKNOWN:
                raise ValueError(f'noise_sd is {self.noise_sd!r}; it must be None, a number or "unknown"')
        elif self.noise_sd is not None and not callable(self.noise_sd):
            require_noise(self.noise_sd)
            object.__setattr__(self, "noise_sd", float(self.noise_sd))

    @property
    def logarithmic(self) -> bool:
        """Whether values are logarithms of what is wanted, of which -inf is one like others."""
        return self.range.logarithmic

    def handed(self, points: np.ndarray) -> Array:
        """Points (n, P) as the user's function gets them; a copy, which it may change."""
        return as_like(points, self.like) if is_torch(self.like) else points.copy()

    def place(self, point: np.ndarray) -> str:
        """A point (P,) in words."""
        if not self.names:
            return f"x = {point.tolist()}"
        return ", ".join(f"{name} = {x:.6g}" for name, x in zip(self.names, point, strict=True))

    def places(self, points: np.ndarray) -> str:
        """Points (n, P) in words."""
        first = self.place(points[0])
        return first if len(points) == 1 else f"one of {len(points)} points, the first of which is {first}"
