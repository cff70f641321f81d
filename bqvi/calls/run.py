"""The records that front doors take: how a run is carried out (`Run`), and where it evaluates (`Design`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from bqvi.arguments import Above, Apart, AtLeast, Checked, Such, instead
from bqvi.calls.target_model import TargetModel
from gp.arrays import shown
from gp.checks import require_integer
from gp.files import unwritable


class Maps(Protocol):
    """An executor that has a `map`."""

    def map(self, function: Callable[[Any], Any], items: Any, /) -> Any:
        """``function`` of each of the ``items``, in order."""


class Submits(Protocol):
    """An executor that returns futures."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """A future of ``function(*arguments)``: an object with ``result()``."""


Executor = Submits | Maps
"""An object with a `submit`, or else a `map`; where it has both, `submit` is used."""


def _executor(name: str, executor: Any) -> Any:
    """The executor; of a client of Dask its own, to which two equal calls of a noisy function are two."""
    if callable(getattr(executor, "get_executor", None)):
        executor = executor.get_executor(pure=False)
    named = any(callable(getattr(executor, method, None)) for method in ("submit", "map"))
    if isinstance(executor, type) or not named:
        must = f"it must have a method submit(function, item) or map(...){instead(executor)}"
        raise TypeError(f"{name} is {shown(executor)}; {must}")
    return executor


def _processes(name: str, count: Any) -> int:
    if isinstance(count, int) and count < 0:
        raise ValueError(f"{name} is {count}; it must be at least 1, and os.cpu_count() for all processors")
    if require_integer(name, count, 1) > 1 and importlib.util.find_spec("joblib") is None:
        raise ValueError(f"{name} is {count}, which needs joblib: pip install joblib, or give executor")
    return int(count)


def _require_path(name: str, checkpoint: object) -> None:
    if not isinstance(checkpoint, str | Path):
        raise TypeError(f"{name} is {shown(checkpoint)}; it must be the path of a file to write")
    path = Path(checkpoint)
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{name} is {path}, in a folder that does not exist")
    if path.is_dir():
        raise ValueError(f"{name} is {path}, a folder; it must be the path of a file to write")
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced by the file
        raise ValueError(f"{name} is {path}, which exists and is no file; give another path")
    if why := unwritable(path.absolute().parent):
        raise ValueError(
            f"{name} is {path}, in a folder that cannot be written ({why}); it must be in one that can"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Run(Checked):
    """How a run is carried out: where calls are made, for how long, and what is shown and written meanwhile.

    Every front door takes one as ``run``. It changes no result, except that evaluations in parallel return in
    another order with ``workers``, and that a run is shorter with a time limit.

    Parameters
    ----------
    executor : an object that makes the calls of the user's function, through its ``submit`` or else its
        ``map``. At an interrupt all results that have returned are kept, but with `map` alone only those
        before the first point that has not returned. Of `bqvi.fit`, for a `LogJoint`.
    n_jobs : the number of processes of joblib that make the calls, where there is no executor.
    workers : for an executor that has ``submit``: the number of evaluations that are kept under way. Each is
        used as it returns, and further points are chosen given those under way. None: a step waits for all
        evaluations of its batch. For `bqvi.vbmc`, `bqvi.integrate`, and 'bq' of `bqvi.fit` from one start,
        whose q takes a step whenever as many have returned as a step evaluates.
    max_seconds : seconds of the whole run, calls and records included; not for 'monte-carlo' and 'qmc', nor
        for `bqvi.evidence_bounds`. The first step that ends later is the last (a fit by 'bq' tests its last q
        from 95 % of it on). `bqvi.vbmc` begins no step that would end later if it took as long as the latest
        one, its thorough last estimate included; its first design is always evaluated.
    call_seconds : for an executor that has ``submit``: the longest time in which none of the calls under way
        returns, longer than the longest call. They are then given up, as failed evaluations, and the run goes
        on. By default ``max_seconds``, or no limit: calls whose workers are lost are waited for.
    callback : a function that is called with the state after each step.
    progress : whether a line on standard error shows evaluations and the present estimate.
    checkpoint : path of a file that is written as evaluations return, for ``resume``. One that has
        evaluations has to be given as ``resume`` too.
    verify : with ``resume`` or ``evaluations``: the number of these that are repeated before the first step,
        within the budget, from the highest value down; a difference of more than the noise is an error. None:
        one of ``evaluations`` where the budget has room and their noise is known. 0: whether the function is
        the same is not checked. For methods that keep evaluations: `bqvi.vbmc`, 'bq' and 'wsabi'; and for
        `bqvi.evidence_bounds` with exact values, as far as the budget exceeds the evaluations to come.
    errors : how an exception of the user's function is treated. "raise", of `bqvi.integrate` by default: it
        stops the run, with every evaluation that returned, and so does a value that is not finite (of a log
        density -inf is allowed). "numerical", the default of log joints: a numerical error (ArithmeticError,
        ValueError, RuntimeError, LinAlgError) makes the point infeasible, and an integrand counts as zero
        there; an error of its code or of the system (NameError, TypeError, MemoryError, OSError, ...) stops
        the run. "infeasible": no exception stops the run. An integral has a warning then, and after an error
        of the code or of the system it has not converged; one with ``gradient`` takes "raise" only. Of
        `bqvi.fit`, for a `LogJoint`: methods that average over draws of q have no place for one without a
        value; any of these, and an infinite value or gradient, stops such a run, or the one of its starts.

    Raises
    ------
    TypeError, ValueError
        An argument is of another kind or out of its range, or excludes another, or the checkpoint's folder
        does not exist or cannot be written.
    """

    executor: Annotated[Executor | None, _executor] = None
    n_jobs: Annotated[int, _processes, Apart("executor", "give one of the two")] = 1
    workers: Annotated[int | None, AtLeast(1)] = None
    max_seconds: Annotated[float | None, Above(0.0)] = None
    call_seconds: Annotated[float | None, Above(0.0)] = None
    callback: Annotated[Callable[[Any], None] | None, Such(callable, "a function of a state")] = None
    progress: bool = False
    checkpoint: Annotated[str | Path | None, _require_path] = None
    verify: Annotated[int | None, AtLeast(0)] = None
    errors: Literal["raise", "numerical", "infeasible"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("workers", "call_seconds"):
            if getattr(self, name) is not None and not self.submits:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, which needs an executor with submit, such as "
                    f"concurrent.futures.ProcessPoolExecutor(4); executor is {shown(self.executor)}"
                )

    def __repr__(self) -> str:
        return f"Run({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    @property
    def _given(self) -> dict[str, Any]:
        """The fields that have other values than the default."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, usual) in values.items() if value is not usual}

    @property
    def submits(self) -> bool:
        """Whether the executor has ``submit``."""
        return callable(getattr(self.executor, "submit", None))

    @property
    def longest_call(self) -> float | None:
        """The seconds after which calls are given up of which none has returned; None for no limit."""
        return self.max_seconds if self.call_seconds is None else self.call_seconds

    def refuse(self, whose: str, *names: str) -> None:
        """ValueError where one of the ``names`` was given, which the door or method ``whose`` cannot use."""
        for name, value in self._given.items():
            if name in names:
                raise ValueError(f"run.{name} is {shown(value)}, which {whose} cannot use; leave it out")


HERE = Run()
"""Calls one after the other in this thread, to the end of the run, with no line and no file."""

CALLED = Such(
    lambda given: callable(given) or isinstance(given, TargetModel),
    "a function of points, or a TargetModel of bqvi.adapters",
)
"""What may be given to a front door to be evaluated."""
_CHEAP = Such(
    lambda given: CALLED.test(given[0] if isinstance(given, tuple) and len(given) == 2 else given),
    f"{CALLED.what}, or (such, evaluations)",
)


@dataclass(frozen=True, kw_only=True)
class Design(Checked):
    """Where a run evaluates the user's function: `bqvi.vbmc` and `bqvi.integrate` take one as ``design``.

    Parameters
    ----------
    initial : evaluations of the first design. By default of `bqvi.vbmc` 10, or D + 1 where that is more, and
        with gradients 3, before a climb to the mode; of `bqvi.integrate` 2 D + 4, and at least 8.
    batch : evaluations in each step, chosen together. By default of `bqvi.vbmc` 5 (3 with gradients), and 2
        (1) in the first steps; of `bqvi.integrate` 30 % of those so far.
    acquisition : the criterion for the next points. Of `bqvi.vbmc` the interquantile range of the density
        that would remain, integrated under the tempered surrogate ("imiqr", the default) or under the
        variational posterior ("viqr"; Acerbi 2020, Eqs 7 and 8), with which no points outside the current
        posterior are chosen. Of `bqvi.integrate` a criterion of :mod:`acquisition.pointwise`, by default the
        reduction of the integral's variance (7.17).
    cheap : of `bqvi.vbmc`: an approximate log joint of the same parameters that costs little, for example
        with a coarser solver or fewer data. VBMC runs on it first, in this process. The log joint is
        evaluated first where the posterior of ``cheap`` has mass, and the prior mean of its surrogate
        contains the surrogate of ``cheap`` times a scale that is fitted (Kennedy and O'Hagan 2000). Its
        values are exact; a `TargetModel` may have a gradient. Of (that, a number) the number, by default
        50 (D + 2), is of its evaluations, which are all made and do not count in the budget
        (``result.n_cheap_evaluations``).
    """

    initial: Annotated[int | None, AtLeast(2)] = None
    batch: Annotated[int | None, AtLeast(1)] = None
    acquisition: Any = None
    cheap: Annotated[Callable[..., Any] | TargetModel | tuple[Any, int] | None, _CHEAP] = None

    def first(self, usual: int, budget: int) -> int:
        """Evaluations of the first design, which are ``usual`` ones by default; at most the ``budget``."""
        if self.initial is None:
            return min(usual, budget)
        if self.initial > budget:
            raise ValueError(
                f"budget is {budget}, below initial, {self.initial}: raise one or lower the other"
            )
        return self.initial


USUAL = Design()
"""The defaults of the front doors."""
