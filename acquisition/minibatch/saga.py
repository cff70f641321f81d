"""SAGA: the last gradient of each datum as its control variate (Defazio, Bach and Lacoste-Julien 2014).

    estimate = sum_n t_n + sum_i w_i (g_i - t_i),      then t_i <- g_i for the data of the mini-batch

t is used once N data have been drawn; until then the estimate is sum_i w_i g_i. Data that have not been drawn
by then get the mean of the others.

The estimate is unbiased over the draw, given the past, where that of ``base`` is (`Uniform` at each step,
`Reshuffled` marginally). As the gradients approach those in the table, the error tends to zero.
Cost O(S P) a step and O(N P) an epoch, which recomputes the sum. Memory N x P: for models with few
parameters or few data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from acquisition.minibatch.strategy import Correcting, Selection, Strategy, require_base


@dataclass(frozen=True)
class SagaState:
    """The table and its sum."""

    below: Any
    """State of the strategy that draws."""
    table: GradientTable
    total: np.ndarray = field(metadata={"grows": True})
    """sum_n t_n, (P,); empty while the estimate has no correction."""
    drawn: int = 0
    """Data drawn since the sum was last computed anew."""

    def fork(self) -> SagaState:
        """A state that shares nothing with this one."""
        return replace(self, table=self.table.fork())


@dataclass(frozen=True)
class Saga(Correcting):
    """A table of all gradients corrects the estimate of another strategy's mini-batch.

    Parameters
    ----------
    base : the strategy that draws, such as ``Uniform(10)`` or ``Reshuffled(10)``
    """

    base: Strategy

    def __post_init__(self) -> None:
        require_base(self.base)

    def start(self, n: int, rng: np.random.Generator) -> SagaState:
        return SagaState(self.base.start(n, rng), GradientTable.empty(n), np.zeros(0))

    def draw(self, state: SagaState, rng: np.random.Generator) -> tuple[Selection, SagaState]:
        n = len(state.table.known)
        if state.drawn >= n:
            state = replace(state, total=_completed(state.table), drawn=0)
        selection, below = self.base.draw(state.below, rng)
        return selection, replace(state, below=below, drawn=state.drawn + len(selection.indices))

    def estimate(self, state: SagaState, selection: Selection, gradients: np.ndarray) -> np.ndarray:
        if len(state.total) == 0:
            return np.asarray(selection.weights @ gradients)
        gap = gradients - state.table.at(selection.indices)
        return np.asarray(state.total + selection.weights @ gap)

    def observe(self, state: SagaState, selection: Selection, gradients: np.ndarray) -> SagaState:
        indices, rows = distinct(selection.indices, gradients)
        total = state.total
        if len(total):
            total = total + (rows - state.table.at(indices)).sum(axis=0)
        return replace(state, table=state.table.with_rows(indices, rows), total=total)


def _completed(table: GradientTable) -> np.ndarray:
    """The sum of the table, whose unseen rows have become the mean of the others."""
    rows = table.all()
    if not table.known.all():
        rows[~table.known] = rows[table.known].mean(axis=0)
        table.known[:] = True
    return np.asarray(rows.sum(axis=0))


@dataclass(frozen=True)
class GradientTable:
    """The last gradient of every datum, N x P numbers, too many to copy at each step.

    The table is written to in place, one step late: the rows of the latest observation are *pending* and are
    written with the next one. The latest table therefore remains valid when a step fails in between (writing
    the same rows twice changes nothing). Earlier tables do not; `fork` makes a copy that shares no memory.
    """

    known: np.ndarray
    """(N,) whether a datum has been seen."""
    values: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(N P,) row by row; empty before the first observation."""
    indices: np.ndarray = field(default_factory=lambda: np.zeros(0, int), metadata={"grows": True})
    """(S,) data that are pending."""
    pending: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(S P,) the rows of the pending data."""

    @classmethod
    def empty(cls, n: int) -> GradientTable:
        """A table of ``n`` data before any observation."""
        return cls(np.zeros(n, bool))

    def fork(self) -> GradientTable:
        """A table that shares nothing with this one."""
        return replace(self, known=self.known.copy(), values=self.values.copy())

    @property
    def started(self) -> bool:
        """Whether any datum has been seen."""
        return len(self.values) > 0

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Rows of the data ``indices`` (S,), (S, P); zeros for data not yet seen."""
        rows: np.ndarray = self._rows[indices]
        match = self.indices[:, None] == indices[None, :]
        late, place = np.nonzero(match)
        rows[place] = self._pending[late]
        return rows

    def all(self) -> np.ndarray:
        """All rows (N, P), zeros for data not yet seen; not to be written to."""
        self._flush()
        return self._rows

    def with_rows(self, indices: np.ndarray, rows: np.ndarray) -> GradientTable:
        """The table after ``rows`` (S, P) of distinct data ``indices`` were seen."""
        values = self.values if self.started else np.zeros(len(self.known) * rows.shape[1])
        current = replace(self, values=values)
        current._flush()
        return GradientTable(self.known, values, indices, np.ascontiguousarray(rows, dtype=float).ravel())

    @property
    def _rows(self) -> np.ndarray:
        return np.reshape(self.values, (len(self.known), -1))

    @property
    def _pending(self) -> np.ndarray:
        return self.pending.reshape(len(self.indices), -1) if len(self.indices) else self._rows[:0]

    def _flush(self) -> None:
        if len(self.indices):
            self._rows[self.indices] = self._pending
            self.known[self.indices] = True


def distinct(indices: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The data and rows without repetitions, where a strategy has drawn a datum twice."""
    kept, first = np.unique(indices, return_index=True)
    return (indices, rows) if len(kept) == len(indices) else (kept, rows[first])
