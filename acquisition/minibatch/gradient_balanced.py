"""Mini-batches that are balanced in the gradients seen last.

The features are the per-datum gradients themselves. The first epoch is random reshuffling, in which each
datum's last gradient is kept. Then the data are split into batches whose sums of those gradients are alike
(`partition`), and split again after 1, 2, 4, 8, ... epochs, as q moves less from epoch to epoch. The strategy
takes no evaluation beyond those of the steps, no kernel and no features of the data.

Unbiased over the random split given the gradients kept. Cost O(S P) a step; O(N P^2 + N M B_block) at a
split, of which there are log2 of the number of epochs. Memory N x P for gradients, and N x min(P, M) at a
split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from acquisition.minibatch.balanced import with_others, with_rest
from acquisition.minibatch.features import principal
from acquisition.minibatch.partition import by_assignment
from acquisition.minibatch.settings import FEATURES
from acquisition.minibatch.strategy import Selection, Summing, equally, require_size
from acquisition.minibatch.table import GradientTable, distinct

__all__ = ["GradientBalanced", "GradientBalancedState"]


@dataclass(frozen=True)
class GradientBalancedState:
    """A partition, and the gradients from which the next one is made."""

    rows: np.ndarray
    """(N,): S rows for each batch, then those left over."""
    order: np.ndarray
    """(B,) batches in the order of this epoch."""
    table: GradientTable
    position: int = 0
    epoch: int = 0

    def fork(self) -> GradientBalancedState:
        """A state that shares nothing with this one."""
        return replace(self, table=self.table.fork())


@dataclass(frozen=True)
class GradientBalanced(Summing):
    """Partitions balanced in the gradients last seen.

    Parameters
    ----------
    size : S, between 1 and N
    rank : the largest number of principal axes of the gradients that are balanced
    """

    size: int
    rank: int = FEATURES.rank

    def start(self, n: int, rng: np.random.Generator) -> GradientBalancedState:
        """State before the first draw: a random partition."""
        require_size(self.size, n)
        return GradientBalancedState(
            rng.permutation(n), rng.permutation(n // self.size), GradientTable.empty(n)
        )

    def draw(
        self, state: GradientBalancedState, rng: np.random.Generator
    ) -> tuple[Selection, GradientBalancedState]:
        """The next mini-batch."""
        if state.position == len(state.order):
            state = self._next_epoch(state, rng)
        first = int(state.order[state.position]) * self.size
        selection = equally(state.rows[first : first + self.size], len(state.rows))
        return selection, replace(state, position=state.position + 1)

    def observe(
        self, state: GradientBalancedState, selection: Selection, gradients: np.ndarray
    ) -> GradientBalancedState:
        """Keep the gradients."""
        return replace(state, table=state.table.with_rows(*distinct(selection.indices, gradients)))

    def _next_epoch(self, state: GradientBalancedState, rng: np.random.Generator) -> GradientBalancedState:
        epoch = state.epoch + 1
        used = len(state.order) * self.size
        if epoch & (epoch - 1) == 0 and state.table.started:
            phi = _known(state.table, self.rank)
            rows = with_rest(by_assignment(phi, self.size, rng), len(state.rows))
        else:
            rows = with_others(state.rows, used, rng)
        return replace(state, rows=rows, order=rng.permutation(len(state.order)), position=0, epoch=epoch)


def _known(table: GradientTable, rank: int) -> np.ndarray:
    """Features (N, <= rank) of the gradients seen; the mean, which is 0, for data not yet seen."""
    rows = table.all()
    phi = np.zeros((len(rows), min(rank, rows.shape[1])))
    phi[table.known] = principal(rows[table.known], rank)
    return phi
