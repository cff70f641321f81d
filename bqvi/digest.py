"""A digest of a user's function, by which a run that is resumed notices another one without a call.

It is of compiled code, of functions of its module that it calls, and of the numbers, text and arrays to which
these refer. What a function may change itself (lists, dicts, what it assigns) is left out, and of other
objects the class alone counts, so that another function may have the same digest; but the same script has the
same in each process of a version of Python.
"""

from __future__ import annotations

import dis
import inspect
import sys
import zlib
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from bqvi.records import fingerprint
from gp.arrays import is_torch

_ASSIGN = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")


def digest(function: object) -> str:
    """The version of Python, and a checksum."""
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
