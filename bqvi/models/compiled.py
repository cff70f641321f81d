"""Loops that numba compiles where it is installed (``pip install "bqvi[compiled]"``).

Importing numba takes a second, and compiling takes half a minute once for an installation. Loops are
therefore in separate modules, which are imported only when data are large enough. Without numba such a module
runs as plain Python with the same results. Only tests use this; models then use their array code.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

_ENTRIES = 1 << 14
"""The number of entries of a table, read in each pass, from which compiled loops are used: importing numba
takes as long as some hundred passes over such a table."""

Loop = TypeVar("Loop", bound=Callable[..., Any])


@cache
def is_available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def worth_compiling(entries: int) -> bool:
    """Whether numba is installed, and the number of ``entries`` read in a pass is large enough."""
    return entries >= _ENTRIES and is_available()


def compiled(loop: Loop) -> Loop:
    """The ``loop``, compiled at its first call; unchanged where numba is not installed.

    Sums may be taken in any order, so that they can be vectorised; NaN and infinities keep their meaning.
    """
    return _compiled(loop, {"reassoc", "contract", "arcp", "nsz"})


def compiled_in_order(loop: Loop) -> Loop:
    """As `compiled`, for a ``loop`` whose result depends on the order of its operations."""
    return _compiled(loop, {"contract", "nsz"})


def _compiled(loop: Loop, flags: set[str]) -> Loop:
    if not is_available():
        return loop
    import numba

    return cast(Loop, numba.njit(cache=True, fastmath=flags, error_model="numpy")(loop))
