"""Warnings that point at the user's line, however deep in these packages they are raised."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable

_OURS = ("acquisition", "bqvi", "gp")
_BETWEEN = ("contextlib", "functools")
"""Modules of the standard library whose decorators are called between functions of these packages."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with the place of the innermost call that is not in these packages.

    Parameters
    ----------
    message : the warning. category : its class.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] in (*_OURS, *_BETWEEN):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_user_of_each(messages: Iterable[str]) -> None:
    """Raise a `warn_user` for each of the messages."""
    for message in messages:
        warn_user(message)
