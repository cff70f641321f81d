"""The exceptions that end a run early, with its state.

Each of the exceptions has the state with every evaluation that returned, can write it to a file, and may be
given as ``resume``. Its class derives from the kind of exception that ended the run, which is its
``__cause__`` (of Ctrl-C at a door its ``__context__``):

    an error of the user's function or of the run itself    RunError        a RuntimeError
    Ctrl-C                                                  RunInterrupted  a KeyboardInterrupt
    SystemExit, as of a signal's handler                    RunExit         a SystemExit of the same code
    any other BaseException                                 RunStopped      a BaseException
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bqvi.calls.faults import kind_and_message
from bqvi.runs.checkpoint import Checkpoint
from bqvi.runs.engine import RunStatus
from bqvi.runs.verified import OtherFunctionError


class Ended:
    """The base class of the exceptions below.

    Attributes
    ----------
    checkpoint : the checkpoint of the run when it ended.
    """

    checkpoint: Checkpoint
    _result: Callable[[], Any] | None = None

    @property
    def state(self) -> Any:
        """The state, with every evaluation that returned."""
        return self.checkpoint.state

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations."""
        return self.checkpoint.n_evaluations

    def save(self, path: str | Path) -> None:
        """Write the run to an .npz file at ``path`` that ``resume`` takes."""
        self.checkpoint.save(path)

    def result(self) -> Any:
        """The result from the evaluations so far.

        Raises
        ------
        ValueError
            There are too few evaluations, or the exception was copied from another process: resume the run.
        """
        if self._result is None:
            raise ValueError("this exception was copied from another process: pass it as resume instead")
        return self._result()

    def __reduce__(self) -> Any:
        """Pickle the exception with its checkpoint, for another process."""
        return _remade, (type(self), self.args, self.checkpoint)  # type: ignore[attr-defined]


class RunError(Ended, RuntimeError):
    """A run failed; the error is ``__cause__``. See `Ended`."""


class RunInterrupted(Ended, KeyboardInterrupt):
    """A run was interrupted by Ctrl-C. See `Ended`."""


class RunExit(Ended, SystemExit):
    """A run was ended by SystemExit, whose ``code`` this exception has. See `Ended`."""


class RunStopped(Ended, BaseException):
    """A run was stopped by another kind of exception, which is ``__cause__``. See `Ended`."""


def exit_of(
    error: BaseException,
    checkpoint: Checkpoint,
    status: RunStatus,
    result: Callable[[], Any] | None,
    written: str | Path | None = None,
) -> RunError | RunInterrupted | RunExit | RunStopped:
    """The exception that replaces ``error`` and holds ``checkpoint``.

    Parameters
    ----------
    status : that of the run when it ended. result : a function that returns the result from the evaluations
        so far.
    written : the path of the file that has the state, if there is one.
    """
    place, keeps = status.place, _kept(error, checkpoint, status, written)
    ended: RunError | RunInterrupted | RunExit | RunStopped
    if isinstance(error, Exception):
        ended = RunError(f"failed {place}: {kind_and_message(error)}{keeps}")
    elif isinstance(error, KeyboardInterrupt):
        ended = RunInterrupted(f"interrupted {place}{keeps}")
    elif isinstance(error, SystemExit):
        ended = RunExit(error.code)
    else:
        ended = RunStopped(f"stopped {place} by {kind_and_message(error)}{keeps}")
    ended.checkpoint = checkpoint
    ended._result = result
    return ended


def _kept(error: BaseException, checkpoint: Checkpoint, status: RunStatus, written: str | Path | None) -> str:
    """The end of a message: how the run is resumed; "" where there is nothing to resume."""
    if isinstance(error, OtherFunctionError) or not (checkpoint.n_evaluations or status.done):
        return ""
    if written is not None:
        return f"; what was reached is in {written}: resume={str(written)!r} goes on from there"
    return (
        "; this exception has what was reached: pass it as resume to go on, or write it with its save(path), "
        "for resume=path, as a run with bqvi.Run(checkpoint=path) does by itself"
    )


def _remade(kind: type, arguments: tuple[Any, ...], checkpoint: Checkpoint) -> Any:
    ended = kind(*arguments)
    ended.checkpoint = checkpoint
    return ended
