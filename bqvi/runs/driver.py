"""The driver of all engines: the form of a door, and a run under way.

A call of a door runs to the end; its `steps` returns the run, an iterator of states.

    while finished(state) is None:  state = step(state)         and then  result(state)

When a step is ended early, by any exception, the evaluations that returned are in the engine's ledger. They
are added to the state before the step, which the exception that leaves the run has. With ``checkpoint``
this state is written to a file each time that an evaluation returns, so that a killed process loses only
the evaluations under way.

With workers a step asks the engine for as many further points as workers are free, begins their evaluations,
and uses those that have returned. The points under way are part of the state, so that a run that was killed
begins with them again. `Steps.ask` and `Steps.tell` do the same for evaluations that the caller makes.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from bqvi.arguments import checked, ways
from bqvi.calls import HERE, Run
from bqvi.calls.executors import CallsUnderWay
from bqvi.calls.given import told
from bqvi.calls.returned import CallResult
from bqvi.calls.table import matched
from bqvi.runs.checkpoint import OtherFunctionError, compare, require_unused, require_verifiable
from bqvi.runs.engine import Asked, Engine, RunError, RunExit, RunInterrupted, RunStatus, RunStopped, exit_of
from gp.arrays import Array
from gp.checks import require_integer
from gp.names import needing, require_known
from gp.threads import single_threaded, users_threads

_P = ParamSpec("_P")
_S = TypeVar("_S")
_R = TypeVar("_R")

_SECONDS = 2.0
"""The fewest seconds between two checkpoints of steps that do not call a user's function."""
_UNFINISHED, FAILED, _INTERRUPTED = "unfinished", "failed", "interrupted"
"""Why a result of a run is not final: the run is under way, or an error or an interrupt ended it."""


@dataclass(frozen=True)
class _Exits:
    """A context, with the ``threads`` of a run, in which ``ended`` turns each exception into one of `engine`.

    A context made of a generator would let a StopIteration pass, which would silently end a loop over the
    run.
    """

    threads: AbstractContextManager[Any]
    ended: Callable[[BaseException], BaseException]

    def __enter__(self) -> None:
        self.threads.__enter__()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if error is not None:
                raise self.ended(error) from error
        finally:
            self.threads.__exit__(None, None, None)


class Steps(Generic[_S, _R]):
    """A run under way: an iterator over the states after its steps.

    Its arguments have been checked, and there is no evaluation before the first state is requested.

    Parameters
    ----------
    engine : the engine of the run. state : the first state; by default the engine's own.
    run : how the run is carried out, except for calls, which are the engine's.
    given : whether the user gave evaluations with which the run begins.

    Raises
    ------
    ValueError, TypeError
        When it is made: ``verify`` for a run that has no earlier evaluations, or no budget for any; workers
        for one that cannot be asked for points; or a checkpoint over the file of another run.
    RunError, RunInterrupted, RunExit, RunStopped
        From a step: the function or the run failed, Ctrl-C, SystemExit, another BaseException. Each has the
        state with every evaluation that returned.
    """

    def __init__(
        self, engine: Engine[_S, _R], state: _S | None, run: Run = HERE, given: bool = False
    ) -> None:
        self._run = run
        if run.checkpoint is not None:
            made = 0 if state is None else engine.checkpoint(state).n_all_evaluations
            require_unused(run.checkpoint, made)
        state = engine.init() if state is None and given else state
        self._asserted = run.verify is not None
        checks, self._given = run.verify or given, given
        self._verify = require_verifiable(run.verify, engine, state, given) if checks else 0
        self._engine = engine
        self._asked: list[np.ndarray] = []
        """Pending points under evaluation."""
        self._draining = False
        self._held = (engine.init() if state is None else state, False)
        """The state, and whether it contains the evaluations in the ledger."""
        self._line: ProgressLine | None = None
        self._stepped = False
        """Whether a step has begun whose state the end has not written yet."""
        self._saved_at = -float("inf")
        if run.progress or run.checkpoint is not None:
            engine.ledger.on_return = self._on_return
        self._calls = None if run.workers is None else CallsUnderWay(self._asking().caller.run)

    def __repr__(self) -> str:
        checkpoint = self._engine.checkpoint(self.state)
        return f"Steps(bqvi.{checkpoint.door}, {self._engine.status(self.state).place})"

    @property
    def engine(self) -> Engine[_S, _R]:
        """The engine of the run."""
        return self._engine

    @property
    def state(self) -> _S:
        """The latest state, with every evaluation that returned."""
        return self._held[0]

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations so far."""
        return self._engine.checkpoint(self.state).n_evaluations

    @property
    def stopped(self) -> str | None:
        """The reason why there is no further step; None if there is one."""
        return self._engine.finished(self.state)

    def result(self) -> _R:
        """The result from the evaluations so far, at any time.

        Raises
        ------
        ValueError
            There are too few evaluations.
        """
        with self._threads():
            return self._engine.result(self.state, self.stopped or _UNFINISHED)

    def save(self, path: str | Path) -> None:
        """Write the run to an .npz file at ``path`` that ``resume`` takes."""
        self._engine.checkpoint(self.state).save(path)

    def __iter__(self) -> Iterator[_S]:
        return self

    def __next__(self) -> _S:
        with self._exits():
            self._compare()
            reason = self._engine.finished(self.state)
            if reason is None:
                self._step()
            else:
                self._end(reason)
        if reason is not None:
            raise StopIteration
        return self.state

    def finish(self) -> _R:
        """Step to the end, and return the result."""
        with self._exits():
            self._compare()
            while (reason := self._engine.finished(self.state)) is None:
                self._step()
            result: Any = self._engine.result(self.state, reason)
            self._end(reason, result)
        return result

    def _step(self) -> None:
        engine: Any = self._engine
        if self._run.progress and self._line is None:
            self._line = ProgressLine(engine.status(self.state))
        before, self._stepped = self.state, True
        if self._calls is None or self._alone():
            reached = engine.step(self.state)
        else:
            self._use_workers(self._calls)
            reached = self._collected()
        # in one assignment, so that an interrupt finds the evaluations in one of the two places
        self._held = (reached, True)
        made = engine.ledger.take()
        self._held = (reached, False)
        self._returned(made.points)
        if made.n_evaluations and hasattr(engine, "require_consistent"):
            engine.require_consistent(before, reached)
        if self._line is not None:
            self._line.show(engine.status(reached))
        if len(made) or time.monotonic() - self._saved_at > _SECONDS:
            self._autosave(reached)
        if self._run.callback is not None:
            with users_threads():
                self._run.callback(reached)

    def _compare(self) -> None:
        """Before the first step, check that the function is that of earlier evaluations."""
        count, self._verify = self._verify, 0
        if count:
            engine: Any = self._engine
            compare(engine, self.state, count, self._given)
            self._held = (self._collected(), True)
            engine.ledger.take()
            self._held = (self.state, False)

    def _use_workers(self, calls: CallsUnderWay) -> None:
        """Begin evaluations on idle workers, and use those that have returned.

        Where the engine has no further point, the evaluations under way are awaited, and it is asked again.
        """
        free = (self._run.workers or 0) - len(calls)
        if free and not self._draining:
            points = self._next(free)
            self._asking().caller.begin(calls, points)
            self._draining = not len(points)
            if self._draining and not len(calls) and self._engine.finished(self.state) is None:
                raise RuntimeError("the run asks for no further point and has not finished: an error in bqvi")
        while len(calls):
            calls.take(self._enter)
            if not self._draining:
                return
        self._draining = False

    def _enter(self, place: tuple[np.ndarray, np.ndarray], result: CallResult) -> None:
        self._asking().caller.enter(self._engine.ledger, place, result)

    def _alone(self) -> bool:
        """Whether the engine has steps to make before it can be asked for points."""
        alone = getattr(self._engine, "alone", None)
        return alone is not None and bool(alone(self.state))

    def _next(self, count: int) -> np.ndarray:
        """Up to ``count`` pending points (n, D) that no worker evaluates, within the budget."""
        engine = self._asking()
        under_way = len(engine.pending(self.state)) - len(self._free())
        count = engine.budget_of(self.state).room(under_way + count) - under_way
        reached = engine.with_more(self.state, max(count - len(self._free()), 0))
        self._held = (reached, False)
        found: np.ndarray = engine.pending(reached)[self._free()[:count]]
        self._asked.extend(found)
        self._autosave(reached)
        return found

    def _free(self) -> np.ndarray:
        """Rows of the pending points that are not under evaluation."""
        return np.flatnonzero(matched(self._asking().pending(self.state), self._asked)[1])

    def _returned(self, points: np.ndarray) -> None:
        """Remove those of ``points`` (n, D) from what was asked for, of equal ones as many as returned."""
        left = matched(np.array(self._asked), points)[1]
        self._asked = [point for point, waits in zip(self._asked, left, strict=True) if waits]

    def ask(self, count: int = 1) -> np.ndarray:
        """Points at which to evaluate next, by the caller; `tell` takes the values.

        They are chosen given that all points asked for before will be evaluated too. The estimate is updated
        here, with the values given to `tell`.

        Parameters
        ----------
        count : the number of points.

        Returns
        -------
        (n, P), in the units of the user's function. There are fewer than ``count`` where the budget does not
        suffice for more, points without values included, and none where the run has ended (`stopped` is the
        reason) and all points have values. A resumed run returns points again that have no values.
        """
        require_integer("count", count, 1)
        if self._calls is not None:
            raise RuntimeError("ask was called on a run with workers, which evaluates by itself")
        engine = self._asking()
        with self._exits():
            if self._asserted:  # otherwise nothing is evaluated here
                self._compare()
            while self._alone():
                self._step()
            points = self._next(count)
        return engine.caller.to_user(points)

    def tell(self, theta: Array, values: Array, gradients: Array = None, noise_sd: Array = None) -> _S:
        """Add values at points that `ask` returned, in any order, all or some of them.

        Parameters
        ----------
        theta : (n, P), rows that `ask` returned.
        values : (n,), or (n, o) for several outputs; -inf or NaN where the function failed.
        gradients : (n, P), or (n, o, P); needed where the run has any.
        noise_sd : (n,), a number or None.

        Returns
        -------
        The state with these values.

        Raises
        ------
        ValueError, TypeError
            A point was never asked for, or has a value already; or an argument is no such array.
        """
        engine = self._asking()
        pending = engine.pending(self.state)
        theta = np.atleast_2d(np.asarray(theta, float))
        rows = matched(engine.caller.to_user(pending), theta)[0]
        if (rows < 0).any():
            i = int(np.argmax(rows < 0))
            raise ValueError(
                f"theta[{i}] is {theta[i].tolist()}, which was never asked for, or has a value already: tell "
                f"the points that ask() gave, to the last digit; {len(pending)} of them have no value yet"
            )
        made = told(engine.caller, pending[rows], values, gradients, noise_sd)
        reached = engine.with_evaluations(self.state, made)
        self._returned(made.points)
        self._held = (reached, False)
        self._autosave(reached)
        return reached

    def _asking(self) -> Asked[_S, _R]:
        """The engine, if it can be asked for points."""
        engine: Any = self._engine
        if not hasattr(engine, "with_more"):
            door = engine.checkpoint(self.state).door
            raise TypeError(
                f"this run of bqvi.{door} cannot be asked for points, nor have workers; those of vbmc, of "
                "integrate, and of fit with method='bq' from one start can"
            )
        engine.pending(self.state)  # raises an error where the engine's choices exclude it
        return engine

    def _end(self, reason: str, result: Any = None) -> None:
        if self._line is not None:
            self._line.end(self._engine.status(self.state), reason)
            self._line = None
        if self._stepped or result is not None:
            self._autosave(self.state, result)
            self._stepped = False

    def _collected(self) -> _S:
        """The state with the evaluations so far of a step that is under way or was cut short."""
        state, whole = self._held
        made = self._engine.ledger.entries()
        return state if whole or not made.n_evaluations else self._engine.with_evaluations(state, made)

    def _on_return(self) -> None:
        reached = self._collected()
        self._autosave(reached)
        if self._line is not None:
            self._line.show(self._engine.status(reached))

    def _autosave(self, state: _S, result: Any = None) -> None:
        if self._run.checkpoint is not None:
            answer = None if result is None else result.answer()
            self._engine.checkpoint(state).save(self._run.checkpoint, compressed=False, answer=answer)
            self._saved_at = time.monotonic()

    def _threads(self) -> AbstractContextManager[Any]:
        return single_threaded() if self._engine.small else nullcontext()

    def _exits(self) -> _Exits:
        return _Exits(self._threads(), self._ended)

    def _ended(self, error: BaseException) -> RunError | RunInterrupted | RunExit | RunStopped:
        """The exception that replaces ``error``, after its evaluations were added to the state."""
        if self._calls is not None:
            self._calls.end(self._enter, wait=isinstance(error, Exception))
        try:
            reached = self._collected()
        except Exception:  # the engine cannot use the evaluations of the failed step; those before are kept
            reached = self.state
        self._held = (reached, True)
        self._engine.ledger.take()
        self._held = (reached, False)
        if self._line is not None:
            self._line.end(self._engine.status(reached), type(error).__name__)
            self._line = None
        self._stepped = False
        written = None
        # the file is to remain that of the function with which the run was begun
        if not isinstance(error, OtherFunctionError):
            with suppress(OSError):  # the exception holds the state, even if it cannot be written
                self._autosave(reached)
                written = self._run.checkpoint
        checkpoint = self._engine.checkpoint(reached)
        why = FAILED if isinstance(error, Exception) else _INTERRUPTED
        result = functools.partial(self._engine.result, reached, why)
        return exit_of(error, checkpoint, self._engine.status(reached), result, written)


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


def _release_lock() -> None:
    """Release the lock of tqdm where an exception left this thread holding it."""
    from tqdm.auto import tqdm

    lock: Any = tqdm.get_lock()  # type: ignore[no-untyped-call]
    for each in getattr(lock, "locks", [lock]):
        with suppress(RuntimeError, AssertionError):  # raised where this thread does not hold it
            each.release()


class ProgressLine:
    """A line on standard error.

    Where standard error can no longer be written, as after a terminal was closed, the run continues without
    it.

    Parameters
    ----------
    status : the progress at the beginning.
    """

    def __init__(self, status: RunStatus) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = None
        with self._write_errors_ignored():
            self._bar = tqdm(total=status.total, initial=status.done, unit=f" {status.unit}")
        self.show(status)

    def show(self, status: RunStatus) -> None:
        """Show the progress of the run."""
        if self._bar is not None:
            with self._write_errors_ignored():
                self._bar.set_postfix_str(status.estimate, refresh=False)
                self._bar.update(status.done - self._bar.n)

    def end(self, status: RunStatus, why: str) -> None:
        """Show why the run ended, and end the line."""
        if self._bar is not None:
            self._bar.n = status.done
            with self._write_errors_ignored():
                self._bar.set_postfix_str(f"{status.estimate}; {why}" if status.estimate else why)
                self._bar.close()
            self._bar = None

    @contextmanager
    def _write_errors_ignored(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            _release_lock()
            if not isinstance(error, OSError | ValueError):  # ValueError is raised for a closed file
                raise
            if self._bar is not None:
                self._bar.disable = True  # tqdm would write once more when the bar is collected
            self._bar = None
