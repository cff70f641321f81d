"""Parameters by name: named arrays in one vector, arguments given by name, and functions of the names.

A function is called by name, ``f(rate=..., shape=...)``, where the names of the parameters are its arguments
and it needs no others, or it is an f(**names); with one array (P,), or (n, P), everywhere else. By name it
gets numbers, or arrays (n,) where it takes many points; of a vector, arrays (k,) or (n, k).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np

from gp.arrays import shown
from gp.checks import require_shape

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY_NAME = inspect.Parameter.VAR_KEYWORD
_ENTRY = re.compile(r"(.+)\[([\d,]+)\]")


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
    arguments : by their own names; dicts of parameters' names, or anything else, which is left as it is.
    layout : the parameters where they are known; otherwise those of the first dict, in its order, which are
        vectors where one of the bounds has a vector.
    usual : vectors (P,) by argument, for an argument that is not given and for names that a dict leaves out.
    """
    dicts = {name: given for name, given in arguments.items() if isinstance(given, Mapping)}
    if layout is None and dicts:
        first = next(iter(dicts.values()))
        bounds = [given for name, given in dicts.items() if name != "start"] or [first]
        vectors = {
            n: at for one in bounds[::-1] for n, x in one.items() if (at := np.asarray(x, object).shape)
        }
        layout = VectorLayout({name: vectors.get(name, ()) for name in first})
    found = dict(arguments)
    for argument, given in arguments.items():
        if isinstance(given, Mapping):
            assert layout is not None  # of the first dict, if it was not known
            found[argument] = layout.vector(argument, given, usual.get(argument))
        elif given is None:
            found[argument] = usual.get(argument)
    return None if layout is None else layout.names, found


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
