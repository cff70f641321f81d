"""The one place where code of the user is run.

What an engine sets for itself, such as a limit on threads, is to be undone here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def run_user_code(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``."""
    return function(*arguments)
