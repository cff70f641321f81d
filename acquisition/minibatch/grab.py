"""GraB: an order of the data in which the gradients of the last epoch are balanced (Lu, Guo and De Sa 2022).

During an epoch each datum's gradient, less the mean of the epoch before, is given the sign that keeps a
running signed sum small. Data with a plus are first in the next epoch, in this order; those with a minus
are last, in reverse (Algorithm 4). Sums over the beginning of the next epoch are then small, and mini-batches
are consecutive parts of it.

*Biased* at a step: after the first epoch the order is not random. Over an epoch every datum comes exactly
once (the N mod S that a random start leaves over change places with others). Cost O(S P) a step, datum by
datum. Memory N integers and 3 P numbers: far less than a table of gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from acquisition.minibatch.balanced import with_others
from acquisition.minibatch.strategy import Selection, Summing, equally, require_size

__all__ = ["Grab", "GrabState"]


@dataclass(frozen=True)
class GrabState:
    """An epoch's order, and the signs given so far."""

    order: np.ndarray
    """(N,) rows of this epoch; the last N mod S of them are not used."""
    position: int = 0
    signs: np.ndarray = field(default_factory=lambda: np.zeros(0, bool), metadata={"grows": True})
    """True for plus, of the first data of ``order``."""
    running: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(P,) signed sum."""
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(P,) mean gradient of the last epoch; empty in the first."""
    total: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(P,) sum of the gradients of this epoch."""


@dataclass(frozen=True)
class Grab(Summing):
    """Gradient balancing of the order of the data.

    Parameters
    ----------
    size : S, between 1 and N
    """

    size: int

    def start(self, n: int, rng: np.random.Generator) -> GrabState:
        """State before the first draw: a random order."""
        require_size(self.size, n)
        return GrabState(rng.permutation(n))

    def draw(self, state: GrabState, rng: np.random.Generator) -> tuple[Selection, GrabState]:
        """The next mini-batch."""
        n = len(state.order)
        if state.position + self.size > n:
            state = self._next_epoch(state, rng)
        indices = state.order[state.position : state.position + self.size]
        return equally(indices, n), replace(state, position=state.position + self.size)

    def observe(self, state: GrabState, selection: Selection, gradients: np.ndarray) -> GrabState:
        """Give each datum of the mini-batch its sign."""
        running = state.running.copy() if len(state.running) else np.zeros(gradients.shape[1])
        total = state.total if len(state.total) else np.zeros(gradients.shape[1])
        mean = state.mean if len(state.mean) else gradients.mean(axis=0)
        signs = np.empty(len(gradients), bool)
        for i, row in enumerate(gradients - mean):
            signs[i] = running @ row <= 0.0  # |s + c| <= |s - c|
            running += row if signs[i] else -row
        return replace(
            state,
            signs=np.concatenate([state.signs, signs]),
            running=running,
            total=total + gradients.sum(axis=0),
        )

    def _next_epoch(self, state: GrabState, rng: np.random.Generator) -> GrabState:
        used = len(state.signs)
        if used == 0:  # no gradients were observed: reshuffle
            return GrabState(rng.permutation(len(state.order)))
        came, rest = state.order[:used], state.order[used:]
        order = np.concatenate([came[state.signs], came[~state.signs][::-1], rest])
        zero = np.zeros(len(state.total))
        return GrabState(with_others(order, used, rng), running=zero, mean=state.total / used, total=zero)
