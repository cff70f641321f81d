"""The contract of the engine of a front door: how its runs begin, continue and end.

The contract test is tests/engine_contract.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger
from bqvi.runs.checkpoint import Checkpoint

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
    """An engine whose states keep evaluations, some of which can be repeated (:mod:`verified`)."""

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
