"""Random reshuffling: a new permutation in each epoch, used S data at a time.

With weights N / S each mini-batch is unbiased over the permutation. Within an epoch every datum is used at
most once; the N mod S data left over at its end, different ones in each epoch, are dropped. Cost O(S) a step
and O(N) an epoch; memory N integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.minibatch.strategy import Probable, Selection, Unlearning, equally, require_size


@dataclass(frozen=True)
class ReshuffledState:
    """The permutation, and the position in it."""

    order: np.ndarray
    """(N,) permutation of this epoch."""
    position: int
    """The number of its data already used."""


@dataclass(frozen=True)
class Reshuffled(Probable, Unlearning):
    """S data at a time from a random permutation, renewed each epoch.

    Parameters
    ----------
    size : S, between 1 and N
    """

    size: int

    def start(self, n: int, rng: np.random.Generator) -> ReshuffledState:
        require_size(self.size, n)
        return ReshuffledState(rng.permutation(n), 0)

    def draw(self, state: ReshuffledState, rng: np.random.Generator) -> tuple[Selection, ReshuffledState]:
        n = len(state.order)
        if state.position + self.size > n:
            state = ReshuffledState(rng.permutation(n), 0)
        stop = state.position + self.size
        indices = state.order[state.position : stop]
        return equally(indices, n), ReshuffledState(state.order, stop)
