"""The one place where code of the user is run.

An engine's limit on threads (:mod:`gp.threads`) is lifted here. `Caller` lifts it for a whole batch, so that
derivatives by torch and the threads of an executor are not limited either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gp.threads import users_threads


def run_user_code(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, with the number of threads that the user has set."""
    with users_threads():
        return function(*arguments)
