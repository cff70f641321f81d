"""The form of the front doors: a call runs to the end; `steps` returns the run, an iterator of states."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from bqvi.arguments import checked
from bqvi.calls import HERE, Run
from bqvi.runs.driver import Steps
from gp.arrays import shown
from gp.extras import needing

_P = ParamSpec("_P")
_S = TypeVar("_S")
_R = TypeVar("_R")

_ELSEWHERE = {
    "bounds": ("lower", "upper"),
    "plausible_bounds": ("plausible_lower", "plausible_upper"),
    "grad": ("gradient",),
    "jac": ("gradient",),
    "max_evaluations": ("budget",),
    "max_fun_evals": ("budget",),
    "max_iter": ("steps", "budget"),
    "n_evaluations": ("budget",),
    "n_steps": ("steps", "budget"),
    "noise": ("noise_sd",),
    "sigma": ("noise_sd",),
    "n_samples": ("samples", "budget"),
    "random_state": ("seed",),
    "rng": ("seed",),
    "verbose": ("progress",),
    "x0": ("start", "start_from"),
}
"""Arguments of other packages and the arguments here; the error suggests those that the door has."""


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
        known = tuple(signature.parameters)
        anything: Any = begin

        @functools.wraps(begin)
        def steps(*args: _P.args, **kwargs: _P.kwargs) -> Steps[_S, _R]:
            _require_known(begin.__name__, kwargs, known)
            if not isinstance(run := kwargs.get("run", HERE), Run):
                raise TypeError(f"run is {shown(run)}; it must be a bqvi.Run, as bqvi.Run(progress=True) is")
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return begin(*args, **kwargs)  # Python's own message, of what is missing or too much
            bound.apply_defaults()
            with needing():
                return anything(**checked(begin, bound.arguments))

        @functools.wraps(begin)
        def drive(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            return steps(*args, **kwargs).finish()

        found: Any = drive
        found.__annotations__ = {**begin.__annotations__, "return": result.__name__}
        found.__signature__ = signature.replace(return_annotation=result)
        found.steps = steps
        return cast(Door[_P, _S, _R], found)

    return made


def _require_known(door: str, given: Iterable[str], known: Sequence[str]) -> None:
    """TypeError where a keyword is no argument of the door; it suggests one, or lists all."""
    ways = [field.name for field in dataclasses.fields(Run)] if "run" in known else []
    for name in given:
        if name in known:
            continue
        options = (*known, *ways)
        meant = [other for other in (name, *_ELSEWHERE.get(name, ())) if other in options]
        meant = meant or difflib.get_close_matches(name, options, n=1)
        meant = [f"run=bqvi.Run({other}=...)" if other in ways else other for other in meant]
        raise TypeError(
            f"{name} is no argument of {door}; "
            + (f"it takes {' and '.join(meant)}" if meant else f"its arguments are {', '.join(known)}")
        )
