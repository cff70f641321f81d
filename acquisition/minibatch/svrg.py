"""SVRG: a snapshot of all gradients as control variate (Johnson and Zhang 2013).

    estimate = sum_n a_n + sum_i w_i (g_i - a_i),      a_n the gradient of datum n at the snapshot

At a snapshot the mini-batch is *all* the data: that step has the exact gradient, and its N gradients are
kept, so the steps that follow cost S evaluations and not 2 S. There is a new snapshot every ``epochs``
epochs.

The estimate is unbiased over the draw of ``base``, given the past. Cost N evaluations for each snapshot, and
O(S P) a step beyond the gradients. Memory N x P.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from acquisition.minibatch.strategy import Correcting, Selection, Strategy, require_base, require_between


@dataclass(frozen=True)
class SvrgState:
    """A snapshot, and the number of data drawn since it was made."""

    below: Any
    """State of the strategy that draws."""
    n: int
    snapshot: np.ndarray = field(metadata={"grows": True})
    """(N P,) row by row."""
    total: np.ndarray = field(metadata={"grows": True})
    """(P,) its sum."""
    drawn: int = -1
    """Data drawn since the snapshot; -1 before the first snapshot."""


@dataclass(frozen=True)
class Svrg(Correcting):
    """A snapshot of all gradients corrects the estimate of another strategy's mini-batch.

    Parameters
    ----------
    base : the strategy that draws, such as ``Reshuffled(10)``
    epochs : the number of epochs between two snapshots, > 0
    """

    base: Strategy
    epochs: float = 2.0

    def __post_init__(self) -> None:
        require_base(self.base)
        require_between("epochs", self.epochs, np.finfo(float).tiny, np.inf)

    def start(self, n: int, rng: np.random.Generator) -> SvrgState:
        return SvrgState(self.base.start(n, rng), n, np.zeros(0), np.zeros(0))

    def next_size(self, state: SvrgState) -> int:
        """The number of data of the next draw after ``state``: S, or N at a snapshot."""
        return state.n if state.drawn < 0 or state.drawn >= self.epochs * state.n else self.size

    def draw(self, state: SvrgState, rng: np.random.Generator) -> tuple[Selection, SvrgState]:
        if state.drawn < 0 or state.drawn >= self.epochs * state.n:
            return Selection(np.arange(state.n), np.ones(state.n)), replace(state, drawn=-1)
        selection, below = self.base.draw(state.below, rng)
        return selection, replace(state, below=below, drawn=state.drawn + len(selection.indices))

    def estimate(self, state: SvrgState, selection: Selection, gradients: np.ndarray) -> np.ndarray:
        """The corrected sum; at a snapshot the exact sum."""
        if state.drawn < 0:
            return np.asarray(gradients.sum(axis=0))
        anchors = state.snapshot.reshape(state.n, -1)[selection.indices]
        return np.asarray(state.total + selection.weights @ (gradients - anchors))

    def observe(self, state: SvrgState, selection: Selection, gradients: np.ndarray) -> SvrgState:
        if state.drawn >= 0:
            return state
        return replace(state, snapshot=gradients.ravel(), total=gradients.sum(axis=0), drawn=0)
