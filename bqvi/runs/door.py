"""The form of the front doors: a call runs to the end; `steps` returns the run, an iterator of states."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from bqvi.runs.keywords import require_known
from bqvi.runs.run import Run

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
S_co = TypeVar("S_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class Door(Protocol[P, S, R]):
    """A front door; its `steps` takes the same arguments."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run to the end."""

    def steps(self, *args: P.args, **kwargs: P.kwargs) -> Run[S, R]:
        """The run, an iterator over its states, with checked arguments and before any evaluation."""


def door(result: type[R]) -> Callable[[Callable[P, Run[S, R]]], Door[P, S, R]]:
    """Make a front door from a function that checks its arguments and returns the run.

    The function's name, signature and docstring are the door's; ``result`` is what the door returns.
    """

    def made(begin: Callable[P, Run[S, R]]) -> Door[P, S, R]:
        signature = inspect.signature(begin)
        known = tuple(signature.parameters)

        @functools.wraps(begin)
        def steps(*args: P.args, **kwargs: P.kwargs) -> Run[S, R]:
            require_known(begin.__name__, kwargs, known)
            return begin(*args, **kwargs)

        @functools.wraps(begin)
        def drive(*args: P.args, **kwargs: P.kwargs) -> R:
            return steps(*args, **kwargs).finish()

        found: Any = drive
        found.__annotations__ = {**begin.__annotations__, "return": result.__name__}
        found.__signature__ = signature.replace(return_annotation=result)
        found.steps = steps
        return cast(Door[P, S, R], found)

    return made
