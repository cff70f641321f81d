"""Which data to evaluate next, and with what weights.

A strategy factorises a stochastic gradient's choice of data into two calls on an immutable state,

    selection, state = strategy.draw(state, rng)            indices i and weights w
    state            = strategy.observe(state, selection, gradients)

with sum_i w_i g_i standing for the sum over all N data. The state is what makes a run resumable: a
record of arrays and numbers, nothing else. ``observe`` gives back the per-datum gradients that a
selection caused; a strategy that learns nothing from them returns its state as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class Selection:
    """A mini-batch: which data, with what weights."""

    indices: np.ndarray
    """(S,) integers in [0, N)."""
    weights: np.ndarray
    """(S,); sum_i w_i g_i estimates sum_n g_n."""


@runtime_checkable
class Strategy(Protocol):
    """How mini-batches are drawn; see the module's docstring."""

    @property
    def size(self) -> int:
        """S, data in a mini-batch."""

    def start(self, n: int, rng: np.random.Generator) -> Any:
        """State before the first draw from ``n`` data; ValueError if S > n."""

    def draw(self, state: Any, rng: np.random.Generator) -> tuple[Selection, Any]:
        """The next mini-batch, and the state after it."""

    def observe(self, state: Any, selection: Selection, gradients: np.ndarray) -> Any:
        """The state after having seen the per-datum gradients (S, P) of ``selection``."""


def require_size(size: int, n: int) -> None:
    """1 <= S <= N, or a ValueError."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise TypeError(f"size is {size!r}; a mini-batch size is an integer of at least 1")
    if not 1 <= size <= n:
        raise ValueError(f"size is {size}; a mini-batch of {n} data must have between 1 and {n}")
