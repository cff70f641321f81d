"""The form of the front doors: a call runs to the end; `steps` returns the run, an iterator of states."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from bqvi.arguments import checked, ways
from bqvi.runs.driver import Steps
from bqvi.runs.exits import RunInterrupted
from gp.imports import needing
from gp.suggestions import require_known

_P = ParamSpec("_P")
_S = TypeVar("_S")
_R = TypeVar("_R")


class Door(Protocol[_P, _S, _R]):
    """A front door; its `steps` takes the same arguments."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run to the end."""

    def steps(self, *args: _P.args, **kwargs: _P.kwargs) -> Steps[_S, _R]:
        """The run, an iterator over its states, with checked arguments and before any evaluation."""


def door(result: type[_R]) -> Callable[[Callable[_P, Steps[_S, _R]]], Door[_P, _S, _R]]:
    """Make a front door from a function that checks its arguments and returns the run.

    The function's name, signature and docstring are the door's; ``result`` is what the door returns.
    """

    def made(begin: Callable[_P, Steps[_S, _R]]) -> Door[_P, _S, _R]:
        signature = inspect.signature(begin)
        anything: Any = begin

        @functools.wraps(begin)
        def steps(*args: _P.args, **kwargs: _P.kwargs) -> Steps[_S, _R]:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                require_known(begin.__name__, kwargs, tuple(signature.parameters), ways(begin))
                return begin(*args, **kwargs)  # Python's own message, of what is missing or too much
            bound.apply_defaults()
            with needing():
                return anything(**checked(begin, bound.arguments))

        @functools.wraps(begin)
        def drive(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            run = steps(*args, **kwargs)
            try:
                return run.finish()
            except RunInterrupted as ended:  # a script that is interrupted ends in this message alone
                raise ended.with_traceback(None) from None

        found: Any = drive
        found.__annotations__ = {**begin.__annotations__, "return": result.__name__}
        found.__signature__ = signature.replace(return_annotation=result)
        found.steps = steps
        return cast(Door[_P, _S, _R], found)

    return made
