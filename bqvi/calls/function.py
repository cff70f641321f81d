"""The user's function: its value, gradient, noise, kind of arrays, parameters, and the values it may return.

A function is called by name, ``f(rate=..., shape=...)``, where the names of the parameters are its arguments
and it needs no others, or it is an f(**names); with one array (P,), or (n, P), everywhere else. By name it
gets numbers, or arrays (n,) where it takes many points; of a vector, arrays (k,) or (n, k). A digest of its
code tells it from other functions.
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from numbers import Real
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.arguments import Such, instead
from bqvi.records import fingerprint
from gp.arrays import Array, as_like, is_torch, shown
from gp.checks import require_above, require_boolean, require_shape

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
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY_NAME = inspect.Parameter.VAR_KEYWORD
_ENTRY = re.compile(r"(.+)\[([\d,]+)\]")


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
    counts_as : the value of a point without one, if it is no log density.
    everywhere : the reason why a value is needed at each point, and advice, for messages; "" where points
        without a value are allowed, or the user has excluded them by ``errors="raise"``.
    beside : the log density (n,) at theta (n, P), of the prior or of a measure, which values have beside what
        the user's function returned; it is refused where it is no logarithm.
    prior : what tells this prior from others.
    """

    title: str
    density: bool = False
    logarithmic: bool = False
    non_negative: str = ""
    outputs: bool = False
    counts_as: float = np.nan
    everywhere: str = ""
    beside: Callable[[np.ndarray], np.ndarray] | None = None
    prior: str = ""

    @property
    def missing(self) -> float:
        """The value of a failed row."""
        return -np.inf if self.density else self.counts_as


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
    digest : that of ``value`` before its first call (:mod:`bqvi.calls.function`).
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
    digest: str = field(default="", init=False)

    def __post_init__(self) -> None:
        for name in ("value", "gradient", "noise_sd"):
            object.__setattr__(self, name, by_name(getattr(self, name), self.names))
        value: object = self.value
        if not callable(value):
            name = self.range.title.replace(" ", "_")
            raise TypeError(f"{name} is {shown(value)}; it must be a function of points{instead(value)}")
        object.__setattr__(self, "digest", digest(value))
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


def names_of(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The P = ``count`` names, or x0, x1, ... by default; ValueError where two are equal."""
    titles = tuple(f"x{i}" for i in range(count)) if names is None else tuple(map(str, names))
    if len(set(titles)) < count:
        raise ValueError(f"names is {list(titles)}; the names must differ")
    return titles


@dataclass(frozen=True)
class VectorLayout:
    """Variables one after the other in a vector of P entries, each with its last index moving fastest.

    Attributes
    ----------
    shapes : name -> shape, in the order of the vector. titles : those that it was made of, or ().
    """

    shapes: Mapping[str, tuple[int, ...]]
    titles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if others := [name for name in self.shapes if type(name) not in (str, np.str_) or not name]:
            raise TypeError(f'parameters are named {shown(others)}; a name must be text, such as "rate"')

    @classmethod
    def of(cls, titles: Sequence[str]) -> VectorLayout:
        """The layout with these ``titles`` of entries."""
        shapes: dict[str, tuple[int, ...]] = {}
        for title in titles:
            entry = _ENTRY.fullmatch(title)
            name, index = (title, "") if entry is None else entry.groups()
            shapes[name] = tuple(int(i) + 1 for i in index.split(",") if i)
        return cls(shapes, tuple(titles))

    def require_order(self) -> None:
        """ValueError where the entries of an array are not one after the other, counted from 0."""
        if self.titles not in ((), self.names):
            raise ValueError(f"the parameters are {', '.join(self.titles)}: entries of one array must stand "
                             f"together and in order, as {', '.join(self.names)}")  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """The titles of the entries: "mu" for a number, "z[0]", "z[1]", ... for an array."""
        return tuple(title for name, shape in self.shapes.items() for title in _entries(name, shape))

    def parted(self, vectors: Any) -> dict[str, Any]:
        """The arrays (..., shape) of ``vectors`` (..., P), by name; views, of the same kind of array."""
        found, at = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            part = vectors[..., at : at + size]
            found[name] = part.reshape(vectors.shape[:-1] + shape) if shape else part[..., 0][()]
            at += size
        return found

    def joined(self, values: Mapping[str, Any]) -> np.ndarray:
        """The vector (P,) of arrays by name; KeyError where one is missing."""
        parts = [np.asarray(values[name], float) for name in self.shapes]
        for part, (name, shape) in zip(parts, self.shapes.items(), strict=True):
            require_shape(name, part, shape)
        return np.concatenate([part.reshape(-1) for part in parts])

    def vector(self, argument: str, given: Mapping[str, Any], usual: np.ndarray | None) -> np.ndarray:
        """The vector (P,) of an ``argument`` that is ``given`` by name, a number for all entries of one.

        Parameters
        ----------
        usual : (P,), used for names that are left out; None where none may be.
        """
        self.require_order()
        if others := ", ".join(str(name) for name in given if name not in self.shapes):
            raise ValueError(f"{argument} has {others}; the parameters are {', '.join(self.shapes)}")
        if usual is None and (absent := [name for name in self.shapes if name not in given]):
            raise ValueError(
                f"{argument} has {', '.join(map(str, given))}, and lacks {', '.join(absent)}: give each of "
                f"{', '.join(self.shapes)}, with None where there is none"
            )
        of_all = {} if usual is None else self.parted(usual)
        parts = [np.asarray(given.get(name, of_all.get(name)), object) for name in self.shapes]
        for part, (name, shape) in zip(parts, self.shapes.items(), strict=True):
            if part.shape not in ((), shape) or not all(x is None or isinstance(x, Real) for x in part.flat):
                raise ValueError(f"{argument} has {name} = {shown(given[name])}; it must be a number" + (
                    f" or an array {shape}" if shape else ""
                ))  # fmt: skip
        pairs = zip(parts, self.shapes.values(), strict=True)
        found = np.concatenate([np.broadcast_to(x, shape).reshape(-1) for x, shape in pairs])
        return found if any(x is None for x in found) else np.array(found.tolist())


def in_order(
    arguments: Mapping[str, Any], layout: VectorLayout | None = None, usual: Mapping[str, np.ndarray] = {}
) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """The names of the parameters, None where nothing names them, and the ``arguments`` as vectors.

    Parameters
    ----------
    arguments : by their own names; dicts or series of parameters' names, or anything else, which is left.
    layout : the parameters where they are known; otherwise those of the first dict, in its order, which are
        vectors where one of the bounds has a vector.
    usual : vectors (P,) by argument, for an argument that is not given and for names that a dict leaves out.
    """
    keyed = {name: given for name, given in arguments.items() if hasattr(given, "keys")}
    dicts = {name: dict(given) for name, given in keyed.items()
             if isinstance(given, Mapping) or isinstance([*given.keys(), 0][0], str)}  # fmt: skip
    if layout is None and dicts:
        first = next(iter(dicts.values()))
        bounds = [given for name, given in dicts.items() if name != "start"] or [first]
        vectors = {
            n: at for one in bounds[::-1] for n, x in one.items() if (at := np.asarray(x, object).shape)
        }
        layout = VectorLayout({name: vectors.get(name, ()) for name in first})
    found = {name: usual.get(name) if given is None else given for name, given in arguments.items()}
    if layout is None:
        return None, found
    return layout.names, found | {n: layout.vector(n, one, usual.get(n)) for n, one in dicts.items()}


@dataclass(frozen=True)
class ByName:
    """A function of parameters by name, as one of vectors (..., P)."""

    function: Callable[..., Any]
    layout: VectorLayout

    def __call__(self, theta: Any, /) -> Any:
        """The function's value."""
        return self.function(**self.layout.parted(theta))


def by_name(function: Any, titles: Sequence[str]) -> Any:
    """The ``function`` as one of vectors, if its arguments are the parameters with these ``titles``.

    Raises
    ------
    ValueError
        It needs several arguments, and they are not the names of the parameters.
    """
    if not callable(function) or not titles:
        return function
    try:
        taken = inspect.signature(getattr(function, "pyfunc", function)).parameters.values()
    except (TypeError, ValueError):  # of a function that is not written in Python
        return function
    layout = VectorLayout.of(titles)
    needed = [one.name for one in taken if one.default is one.empty and one.kind not in
              (one.VAR_POSITIONAL, one.VAR_KEYWORD)]  # fmt: skip
    named = {one.name for one in taken if one.kind in _BY_NAME}
    if set(needed) <= set(layout.shapes) <= named or [one.kind for one in taken] == [_ANY_NAME]:
        layout.require_order()
        return ByName(function, layout)
    if len(needed) > 1:
        raise ValueError(
            f"{getattr(function, '__name__', 'the function')} takes {', '.join(needed)}, and the parameters "
            f"are {', '.join(layout.shapes)}: it must take these by name, or one array"
        )
    return function


def _entries(name: str, shape: Sequence[int]) -> list[str]:
    """The titles of the entries of an array with this name and shape."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in product(*(range(n) for n in shape))]


_ASSIGN = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")


def digest(function: object) -> str:
    """The version of Python, and a checksum, by which a run that is resumed notices another function.

    It is of compiled code, of functions of its module that it calls, and of the numbers, text and arrays to
    which these refer. What a function may change itself (lists, dicts, what it assigns) is left out, and of
    other objects the class alone counts, so that another function may have the same digest; but the same
    script has the same in each process of a version of Python.
    """
    content = repr(_content(function, set()))
    return f"{sys.implementation.cache_tag} {zlib.crc32(content.encode(errors='replace')):08x}"


def _content(value: Any, seen: set[Any]) -> Any:
    """What tells a ``value`` from others, without functions that were ``seen`` before."""
    if isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if is_torch(value) or (isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc"):
        return fingerprint(value)
    if isinstance(value, CodeType):
        value = value.co_code, value.co_names, value.co_consts
    if isinstance(value, partial):
        value = value.func, value.args, *sorted(value.keywords.items())
    if isinstance(value, tuple | frozenset):
        parts = [_content(one, seen) for one in value]
        return parts if isinstance(value, tuple) else sorted(parts, key=repr)
    function, owner = _called(value)
    if not isinstance(function, FunctionType) or function in seen:
        return type(value).__name__
    seen.add(function)
    return _content((function.__code__, function.__defaults__, *_references(function, owner)), seen)


def _called(value: Any) -> tuple[Any, Any]:
    """The function of Python that a call of ``value`` runs, if any, and the object that it is of."""
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, FunctionType):
        return value, None
    bound = value if inspect.ismethod(value) else getattr(value, "__call__", None)  # noqa: B004
    return getattr(bound, "__func__", None), getattr(value, "__self__", value)


def _references(function: FunctionType, owner: Any) -> list[tuple[str, Any]]:
    """Names to which a function, those in it and its ``owner`` refer, with what they stand for, in order."""
    code, around = function.__code__, function.__globals__
    codes = [code]
    for one in codes:  # which grows by those within
        codes += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
    assigned = {step.argval for one in codes for step in dis.get_instructions(one) if step.opname in _ASSIGN}
    named = {name: around.get(name) for one in codes for name in one.co_names}
    named = {n: v for n, v in named.items() if getattr(_called(v)[0], "__globals__", around) is around}
    named |= function.__kwdefaults__ or {}
    named |= {f"self.{name}": part for name, part in getattr(owner, "__dict__", {}).items()}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    named |= {name: cell.cell_contents for name, cell in cells if cell != CellType()}  # not an empty one
    return sorted((n, v) for n, v in named.items() if n.removeprefix("self.") not in assigned)
