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
from acquisition.minibatch.table import GradientTable, distinct


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
