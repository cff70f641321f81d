"""The one place where code of the user is run.

What an engine sets for itself is undone here: the limit on threads (:mod:`gp.threads`). `Caller` undoes it
for a whole batch, so that derivatives by torch and the threads of an executor are not limited either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gp.threads import as_the_user_has_it


def run_user_code(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, with the threads that the user has."""
    with as_the_user_has_it():
        return function(*arguments)
