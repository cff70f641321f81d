"""The signature of a door is the table of its arguments: what each may be is part of its annotation.

    method: Literal["smc", "ais"] = "smc"                                one of these texts
    particles: Annotated[int | None, AtLeast(1)] = None                  an integer of 1 or more, or None
    transitions: Annotated[Literal["hmc"] | None, of("smc")] = None      of this method only
    noise_sd: Annotated[Any, Apart("log", "that of ln f is another")]    not beside another argument

Checks and their messages are made from it. `bqvi.runs.door` checks the arguments of every call by `checked`,
before any work, and records that users make, which are `Checked`, do it when they are made.
Nothing inside of the package does it again.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from gp.arrays import shown
from gp.checks import require_above, require_boolean, require_integer, require_number, require_one_of
from gp.names import TRANSFORM


@dataclass(frozen=True)
class AtLeast:
    """An integer of ``least`` or more; a number, where that is no integer itself."""

    least: float

    def __call__(self, name: str, value: Any) -> int | None:
        if isinstance(self.least, int):
            return require_integer(name, value, self.least)
        require_number(name, value)
        if not self.least <= value < math.inf:
            raise ValueError(f"{name} is {value}; it must be at least {self.least} and finite")
        return None


@dataclass(frozen=True)
class Above:
    """A finite number above ``lower`` and, if there is one, below ``upper``."""

    lower: float
    upper: float | None = None

    def __call__(self, name: str, value: Any) -> None:
        require_above(name, value, self.lower)
        if self.upper is not None and not value < self.upper:
            raise ValueError(f"{name} is {value}; it must be between {self.lower:g} and {self.upper:g}")


@dataclass(frozen=True)
class Such:
    """What satisfies a ``test``; ``what`` that is in words, and the ``error`` for anything else."""

    test: Callable[[Any], bool]
    what: str
    error: type[Exception] = TypeError

    def __call__(self, name: str, value: Any) -> None:
        if not self.test(value):
            raise self.error(f"{name} is {shown(value)}; it must be {self.what}{instead(value)}")


_MODELS_OF = {"pymc": "pymc", "cmdstanpy": "stan", "httpstan": "stan", "bridgestan": "stan"}
"""Packages whose models `bqvi.adapters` takes."""


def instead(value: Any) -> str:
    """The end of a message about an object that has no place: what to make of it; "" if unknown."""
    if isinstance(value, type):
        return f": not the class, but {value.__name__}(...)"
    if isinstance(value, list | tuple):
        return f"; {TRANSFORM}"
    package = type(value).__module__.partition(".")[0]
    if package in _MODELS_OF:
        return f": give bqvi.adapters.from_{_MODELS_OF[package]}(...) of it"
    density = next((name for name in ("logpdf", "log_prob") if hasattr(value, name)), "")
    return f": of a distribution give the function .{density}, or .pdf for an integral" if density else ""


def one_of(allowed: Iterable[str]) -> Callable[[str, Any], None]:
    """One of the texts ``allowed``."""
    return partial(require_one_of, allowed=tuple(allowed))


@dataclass(frozen=True)
class Beside:
    """An argument that has a place beside some ``values`` of ``other`` only."""

    other: str
    values: tuple[Any, ...]

    def refuse(self, name: str, values: Mapping[str, Any], given: Iterable[str]) -> None:
        """ValueError where the other argument has another value."""
        value = values[self.other]
        if not any(value is one or (isinstance(value, str) and value == one) for one in self.values):
            those = " and ".join(repr(one) for one in self.values if one is not None)
            raise ValueError(f"{name} is given, and {self.other} is {shown(value)}: it is of {those} only")


def of(*methods: str) -> Beside:
    """An argument of some ``methods`` only."""
    return Beside("method", methods)


@dataclass(frozen=True)
class Apart:
    """An argument that has no place beside ``other``; ``why``, and what to do."""

    other: str
    why: str

    def refuse(self, name: str, values: Mapping[str, Any], given: Iterable[str]) -> None:
        """ValueError where the other argument is ``given``."""
        if self.other in given:
            raise ValueError(f"{name} is given, and {self.other} is {shown(values[self.other])}: {self.why}")


class Argument(NamedTuple):
    """A row of the table; an argument is given where its value is not the ``default``."""

    default: Any
    checks: tuple[Callable[[str, Any], Any], ...]
    """Functions of name and value that raise an error, and may return the value converted."""
    rules: tuple[Beside | Apart, ...]
    optional: bool
    """Whether it may be None."""


@cache
def table(function: Any) -> dict[str, Argument]:
    """The arguments of a function, or of a dataclass, by name and in order."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    return {name: _row(hints.get(name, Any), one.default) for name, one in parameters.items()}


def _row(hint: Any, default: Any) -> Argument:
    stated: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *stated = get_args(hint)
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = [option for option in options if option is not type(None)]
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        stated.append(one_of(get_args(kinds[0])))
    elif kinds == [bool]:
        stated.append(require_boolean)
    elif len(kinds) == 1 and _is_record(kinds[0]):
        stated.append(Such(lambda given: isinstance(given, kinds[0]), f"a bqvi.{kinds[0].__name__}"))
    rules = tuple(one for one in stated if isinstance(one, Beside | Apart))
    return Argument(
        default, tuple(one for one in stated if one not in rules), rules, len(kinds) < len(options)
    )


@cache
def ways(function: Any) -> dict[str, str]:
    """How the fields of records are given that a function takes as arguments, by the fields' names."""
    hints = typing.get_type_hints(function)
    records = [(name, one) for name, hint in hints.items() for one in (hint, *get_args(hint))
               if _is_record(one)]  # fmt: skip
    return {
        field: f"{name}=bqvi.{one.__name__}({field}=...)" for name, one in records for field in table(one)
    }


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Checked)


def checked(function: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call of a function, or a dataclass, with integers of NumPy as those of Python.

    Parameters
    ----------
    function : what is called. values : of all its arguments by name.

    Raises
    ------
    ValueError, TypeError
        An argument is not what it may be, or two of them exclude one another.
    """
    known, found = table(function), dict(values)
    for name, row in known.items():
        for check in () if found[name] is None and row.optional else row.checks:
            converted = check(name, found[name])
            found[name] = found[name] if converted is None else converted
    given = [name for name, row in known.items() if not _same(found[name], row.default)]
    for name in given:
        for rule in known[name].rules:
            rule.refuse(name, found, given)
    return found


def _same(value: Any, default: Any) -> bool:
    plain = isinstance(value, int | float | str) and isinstance(default, int | float | str)
    return value is default or (plain and value == default)


class Checked:
    """A dataclass whose fields are checked by their annotations."""

    def __post_init__(self) -> None:
        for name, value in checked(type(self), vars(self)).items():
            object.__setattr__(self, name, value)
