"""Uniform sampling, with or without replacement, and random reshuffling. Weights are N / S.

`Uniform` is unbiased over the draw; cost O(S) a step, no set-up and no memory. `Reshuffled` uses a new
permutation in each epoch, S data at a time: each mini-batch is unbiased over the permutation, and within an
epoch every datum is used at most once; the N mod S data left over at its end, different ones in each epoch,
are dropped. Cost O(S) a step and O(N) an epoch; memory N integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.minibatch.strategy import Probable, Selection, Unlearning, equally, require_size


@dataclass(frozen=True)
class UniformState:
    """The number of data, N."""

    n: int


@dataclass(frozen=True)
class Uniform(Probable, Unlearning):
    """S data uniformly at random, independently at each step.

    Parameters
    ----------
    size : S, between 1 and N
    replacement : whether a datum can occur twice in a mini-batch
    """

    size: int
    replacement: bool = False

    def corrections(self, weights: np.ndarray) -> np.ndarray:
        """1 - S / N, or 1 with replacement, for each of the ``weights`` (S,)."""
        return np.ones(len(weights)) if self.replacement else super().corrections(weights)

    def start(self, n: int, rng: np.random.Generator) -> UniformState:
        require_size(self.size, n)
        return UniformState(n)

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        if self.replacement:
            indices = rng.integers(state.n, size=self.size)
        else:
            indices = _distinct(state.n, self.size, rng)
        return equally(indices, state.n), state


def _distinct(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """``size`` distinct integers below ``n``, all sets equally likely: (size,).

    Where repeats are rare, drawing with replacement until there are none is several times faster than drawing
    without replacement.
    """
    if size * size > n:
        return rng.choice(n, size, replace=False, shuffle=False)
    while True:
        indices = rng.integers(n, size=size)
        if len(set(indices.tolist())) == size:
            return indices


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
