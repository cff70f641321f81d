"""The exceptions that end a run early, and what they hold for their handler.

Each of the exceptions has the state with every evaluation that returned, can write it to a file, and is taken
by ``resume``. It has the kind of the exception that ended the run, which is its ``__cause__``:

    an error of the user's function or of the run itself    RunError        a RuntimeError
    Ctrl-C                                                  RunInterrupted  a KeyboardInterrupt
    SystemExit, as of a signal's handler                    RunExit         a SystemExit of the same code
    any other BaseException                                 RunStopped      a BaseException
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bqvi.calls.errors import message_of
from bqvi.runs.checkpoint import Checkpoint


class Ended:
    """What the exceptions below have in common.

    Attributes
    ----------
    checkpoint : of the run when it ended.
    """

    checkpoint: Checkpoint
    _result: Callable[[], Any] | None = None

    @property
    def state(self) -> Any:
        """The state, with every evaluation that returned."""
        return self.checkpoint.state

    @property
    def n_evaluations(self) -> int:
        """How many evaluations there were."""
        return self.checkpoint.n_evaluations

    def save(self, path: str | Path) -> None:
        """Write the run to an .npz file at ``path`` that ``resume`` takes."""
        self.checkpoint.save(path)

    def result(self) -> Any:
        """The result from the evaluations so far.

        Raises
        ------
        ValueError
            Too little was evaluated, or the exception comes from another process: resume it there.
        """
        if self._result is None:
            raise ValueError("this exception was copied from another process: pass it as resume instead")
        return self._result()

    def __reduce__(self) -> Any:
        """A process that ends: the exception holds the state."""
        return _remade, (type(self), self.args, self.checkpoint)  # type: ignore[attr-defined]


class RunError(Ended, RuntimeError):
    """A run that failed: its cause is ``__cause__``. See `Ended`."""


class RunInterrupted(Ended, KeyboardInterrupt):
    """A run that was interrupted. See `Ended`."""


class RunExit(Ended, SystemExit):
    """A run ended by SystemExit; ``code`` is the original's. See `Ended`."""


class RunStopped(Ended, BaseException):
    """A run that another kind of exception stopped, its ``__cause__``. See `Ended`."""


def exit_of(
    error: BaseException, checkpoint: Checkpoint, place: str, result: Callable[[], Any] | None
) -> RunError | RunInterrupted | RunExit | RunStopped:
    """The exception that replaces ``error`` and holds ``checkpoint``.

    Parameters
    ----------
    place : where it happened, as "after 12 evaluations".
    result : makes the result from the evaluations so far.
    """
    keeps = "this exception has what was reached: pass it as resume to go on, or save it"
    ended: RunError | RunInterrupted | RunExit | RunStopped
    if isinstance(error, Exception):
        ended = RunError(f"failed {place}: {type(error).__name__}: {message_of(error)}; {keeps}")
    elif isinstance(error, KeyboardInterrupt):
        ended = RunInterrupted(f"interrupted {place}; {keeps}")
    elif isinstance(error, SystemExit):
        ended = RunExit(error.code)
    else:
        ended = RunStopped(f"stopped {place} by {type(error).__name__}: {message_of(error)}; {keeps}")
    ended.checkpoint = checkpoint
    ended._result = result
    return ended


def _remade(kind: type, arguments: tuple[Any, ...], checkpoint: Checkpoint) -> Any:
    ended = kind(*arguments)
    ended.checkpoint = checkpoint
    return ended
