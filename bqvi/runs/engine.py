"""The contract of the engine of a front door, and the exceptions that end a run early.

The contract test is tests/engine_contract.py.

An exception that ends a run early has the state with every evaluation that returned, can write it to a file,
and may be given as ``resume``. Its class derives from the kind of exception that ended the run, which is its
``__cause__`` (of Ctrl-C at a door its ``__context__``):

    an error of the user's function or of the run itself    RunError        a RuntimeError
    Ctrl-C                                                  RunInterrupted  a KeyboardInterrupt
    SystemExit, as of a signal's handler                    RunExit         a SystemExit of the same code
    any other BaseException                                 RunStopped      a BaseException
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger
from bqvi.calls.faults import kind_and_message
from bqvi.runs.checkpoint import Checkpoint, OtherFunctionError

_S = TypeVar("_S")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class RunStatus:
    """The progress of a run, for the progress line.

    Attributes
    ----------
    done, total : counted in ``unit``; a total of None is not known.
    estimate : the estimate, in words.
    where : the place of an exception in words, as "at iteration 12"; by default "after 12 evaluations".
    """

    done: int
    total: int | None
    unit: str
    estimate: str = ""
    where: str = ""

    @property
    def place(self) -> str:
        """The place at which an exception ended the run, in words."""
        return self.where or f"after {self.done} {self.unit}"


class Engine(Protocol[_S, R_co]):
    """A front door's run, whose states are records of arrays and numbers.

    A state does not change, except for its generators of random numbers: `step` returns a new state. The
    evaluations of a step are entered in ``ledger`` as they return, so that the driver can add those of a step
    that was cut short to the state before it (`with_evaluations`).
    """

    @property
    def ledger(self) -> Ledger:
        """The ledger in which evaluations are entered."""

    @property
    def small(self) -> bool:
        """Whether its linear algebra is on small matrices, which one thread does faster than several."""

    def init(self) -> _S:
        """The state before the first evaluation."""

    def step(self, state: _S) -> _S:
        """Evaluate the user's function, within the budget, and update the estimate."""

    def finished(self, state: _S) -> str | None:
        """The reason why there is no further step, or None."""

    def result(self, state: _S, reason: str) -> R_co:
        """The result of a run that ends at ``state`` for a ``reason``; ValueError for too few evaluations."""

    def with_evaluations(self, state: _S, evaluations: Evaluations) -> _S:
        """The state with the evaluations that the step after it had made when it was cut short."""

    def checkpoint(self, state: _S) -> Checkpoint:
        """The state in a form that is saved, and from which the run continues."""

    def status(self, state: _S) -> RunStatus:
        """The progress of the run."""


class VerifiableEngine(Engine[_S, R_co], Protocol[_S, R_co]):
    """An engine whose states keep evaluations, some of which can be repeated (:mod:`checkpoint`)."""

    @property
    def caller(self) -> Caller:
        """What evaluates the user's function."""

    def budget_of(self, state: _S) -> Budget:
        """What may be spent from ``state`` on."""

    def kept(self, state: _S) -> Evaluations | None:
        """The evaluations of ``state`` that have values to compare; None for none."""

    def require_consistent(self, before: _S, after: _S) -> None:
        """Raise an error where given gradients are not those of the values."""


class Asked(VerifiableEngine[_S, R_co], Protocol[_S, R_co]):
    """An engine that can be asked for points while others are being evaluated."""

    def pending(self, state: _S) -> np.ndarray:
        """Points (m, D) that were chosen and have no values yet.

        TypeError or ValueError where the choices of the run do not allow it to be asked.
        """

    def with_more(self, state: _S, count: int) -> _S:
        """The state with ``count`` further pending points, given that the pending ones will have values.

        Where a step is due, it is made first with the points that have values. There are fewer points, or
        none, where the run has finished.
        """


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
