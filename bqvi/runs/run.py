"""The one driver: a run under way, whatever it is of.

    while finished(state) is None:  state = step(state)         and then  result(state)

Whatever ends a step before its time, the evaluations that returned are in the engine's ledger; they are added
to the state from before the step, and the exception that leaves the run has both. With ``checkpoint`` the
same is written to a file each time that an evaluation returns, so that a killed process loses no more than
the evaluations under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from bqvi.runs.engine import Engine
from bqvi.runs.exits import RunError, RunExit, RunInterrupted, RunStopped, exit_of
from bqvi.runs.progress import ProgressLine
from gp.threads import as_the_user_has_it, single_threaded

S = TypeVar("S")
R = TypeVar("R")

_SECONDS = 2.0
"""Between two checkpoints of steps that call no function of the user's."""
UNFINISHED, FAILED, INTERRUPTED = "unfinished", "failed", "interrupted"
"""Why a result of a run is not final: the run is under way, or an error or an interrupt ended it."""


@dataclass(frozen=True)
class Watch:
    """Who looks on: the arguments that every front door has.

    Attributes
    ----------
    callback : told of the state after each step.
    progress : whether a line on standard error shows how far the run has come.
    checkpoint : path of a file that is written as evaluations return, for ``resume``.

    Raises
    ------
    TypeError, ValueError
        One of them is something else, or the checkpoint's folder does not exist.
    """

    callback: Callable[[Any], None] | None = None
    progress: bool = False
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback is {self.callback!r}; it must be a function of a state")
        if self.checkpoint is None:
            return
        if not isinstance(self.checkpoint, str | Path):
            raise TypeError(f"checkpoint is {self.checkpoint!r}; it must be the path of a file to write")
        if not Path(self.checkpoint).absolute().parent.is_dir():
            raise ValueError(f"checkpoint is {self.checkpoint}, in a folder that does not exist")


class Run(Generic[S, R]):
    """A run under way: an iterator over its states, of which each step gives one.

    Its input has been checked, and nothing is evaluated before the first state is asked for.

    Parameters
    ----------
    engine : what is run. state : where it begins; by default the engine's own beginning.
    watch : who looks on.

    Raises
    ------
    RunError, RunInterrupted, RunExit, RunStopped
        From a step: the function or the run failed, Ctrl-C, SystemExit, another BaseException. Each has the
        state with every evaluation that returned.
    """

    def __init__(self, engine: Engine[S, R], state: S | None, watch: Watch) -> None:
        self._engine = engine
        self._watch = watch
        self._held = (engine.init() if state is None else state, False)
        """The state, and whether what is in the ledger is in it."""
        self._line: ProgressLine | None = None
        self._saved_at = -float("inf")
        if watch.progress or watch.checkpoint is not None:
            engine.ledger.on_return = self._on_return

    def __repr__(self) -> str:
        checkpoint = self._engine.checkpoint(self.state)
        return f"Run(bqvi.{checkpoint.door}, {self._engine.place(self.state)})"

    @property
    def state(self) -> S:
        """The latest state, with every evaluation that returned."""
        return self._held[0]

    @property
    def n_evaluations(self) -> int:
        """How many evaluations have been made."""
        return self._engine.checkpoint(self.state).n_evaluations

    @property
    def stopped(self) -> str | None:
        """Why there is no further step; None if there is one."""
        return self._engine.finished(self.state)

    def result(self) -> R:
        """The result of what has been reached, at any time.

        Raises
        ------
        ValueError
            Too little has been evaluated.
        """
        with self._threads():
            return self._engine.result(self.state, self.stopped or UNFINISHED)

    def save(self, path: str | Path) -> None:
        """Write the run to an .npz file that ``resume`` takes."""
        self._engine.checkpoint(self.state).save(path)

    def __iter__(self) -> Iterator[S]:
        return self

    def __next__(self) -> S:
        with self._handing_over():
            reason = self._engine.finished(self.state)
            if reason is None:
                self._step()
            else:
                self._end(reason)
        if reason is not None:
            raise StopIteration
        return self.state

    def finish(self) -> R:
        """Step to the end, and return the result."""
        with self._handing_over():
            while (reason := self._engine.finished(self.state)) is None:
                self._step()
            result = self._engine.result(self.state, reason)
            self._end(reason)
        return result

    def _step(self) -> None:
        engine = self._engine
        if self._line is None:
            self._line = ProgressLine(self._watch.progress, engine.standing(self.state))
        reached = engine.step(self.state)
        self._held = (reached, True)  # one assignment: an interrupt finds the evaluations once, here or there
        made = engine.ledger.take()
        self._held = (reached, False)
        self._line.show(engine.standing(reached))
        if len(made) or time.monotonic() - self._saved_at > _SECONDS:
            self._autosave(reached)
        if self._watch.callback is not None:
            with as_the_user_has_it():
                self._watch.callback(reached)

    def _end(self, reason: str) -> None:
        if self._line is not None:
            self._line.end(self._engine.standing(self.state), reason)
            self._autosave(self.state)
        self._line = None

    def _collected(self) -> S:
        """The state with what a step that is under way, or was cut short, has evaluated so far."""
        state, whole = self._held
        made = self._engine.ledger.entries()
        return state if whole or not made.n_evaluations else self._engine.with_evaluations(state, made)

    def _on_return(self) -> None:
        reached = self._collected()
        self._autosave(reached)
        if self._line is not None:
            self._line.show(self._engine.standing(reached))

    def _autosave(self, state: S) -> None:
        if self._watch.checkpoint is not None:
            self._engine.checkpoint(state).save(self._watch.checkpoint, compressed=False)
            self._saved_at = time.monotonic()

    def _threads(self) -> AbstractContextManager[Any]:
        return single_threaded() if self._engine.small else nullcontext()

    @contextmanager
    def _handing_over(self) -> Iterator[None]:
        with self._threads():
            try:
                yield
            except BaseException as error:
                raise self._ended(error) from error

    def _ended(self, error: BaseException) -> RunError | RunInterrupted | RunExit | RunStopped:
        """The exception to raise in the place of ``error``, once its evaluations are in the state."""
        reached = self._collected()
        self._held = (reached, True)
        self._engine.ledger.take()
        self._held = (reached, False)
        if self._line is not None:
            self._line.end(self._engine.standing(reached), type(error).__name__)
            self._line = None
        if not isinstance(error, OSError):  # the checkpoint itself may be what failed
            self._autosave(reached)
        checkpoint = self._engine.checkpoint(reached)
        why = FAILED if isinstance(error, Exception) else INTERRUPTED
        result = partial(self._engine.result, reached, why)
        return exit_of(error, checkpoint, self._engine.place(reached), result)
