"""Balanced mini-batches: a partition into batches that each resemble the whole (``minibatch="balanced"``).

The data are split once into B = N // S batches whose mean features are close to those of all the data
(`by_assignment`), and used in random order, each once an epoch, with weights N / S. Where the
kernel explains no part of the gradient, the method is random reshuffling.

The estimate is unbiased over the random split, as the marginal distribution of a batch is that of a uniformly
random set. Within an epoch, at a fixed q, the errors of the batches cancel. The N mod S rows that a split
leaves over are exchanged with random rows at the start of each epoch.

With ``replacement`` each step draws a batch independently of the earlier ones. The estimate is then unbiased
*given the past*, as control variates that learn from the past require (`GPControlVariate`), but errors
do not cancel within an epoch. With a suitable probability a left-over row replaces one of the batch, so that
every row has the inclusion probability S / N.

Cost O(S) a step. Once O(N M^2) for the features and O(N M B_block) for the assignment; per epoch O(B). Memory
N integers and the N x M features, of which a run needs only the integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from acquisition.minibatch.features import Featured, Features
from acquisition.minibatch.settings import PARTITION
from acquisition.minibatch.strategy import Selection, equally


@dataclass(frozen=True)
class BalancedState:
    """A partition, and the position in the epoch."""

    rows: np.ndarray
    """(N,): S rows for each batch, then those left over."""
    order: np.ndarray
    """(B,) batches in the order of this epoch."""
    position: int = 0
    """Batches of the epoch already used; 0 throughout with replacement."""


@dataclass(frozen=True)
class Balanced(Featured):
    """Balanced mini-batches, precomputed and used again.

    Parameters
    ----------
    size : S, between 1 and N
    features : features of the data
    replacement : whether a batch can be drawn again before all others have been
    """

    size: int
    features: Features
    replacement: bool = False

    def start(self, n: int, rng: np.random.Generator) -> BalancedState:
        super().start(n, rng)
        batches = by_assignment(self.features.phi, self.size, rng)
        rest = np.ones(n, bool)
        rest[batches] = False
        rows = np.concatenate([batches.ravel(), np.flatnonzero(rest)])
        return BalancedState(rows, rng.permutation(n // self.size))

    def draw(self, state: BalancedState, rng: np.random.Generator) -> tuple[Selection, BalancedState]:
        if self.replacement:
            return equally(self._any_batch(state.rows, rng), len(state.rows)), state
        if state.position == len(state.order):
            rows = _with_others(state.rows, len(state.order) * self.size, rng)
            state = BalancedState(rows, rng.permutation(len(state.order)))
        first = int(state.order[state.position]) * self.size
        selection = equally(state.rows[first : first + self.size], len(state.rows))
        return selection, replace(state, position=state.position + 1)

    def _any_batch(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A batch that contains each of the N rows, also those left over, with probability S / N."""
        n, batches = len(rows), len(rows) // self.size
        first = int(rng.integers(batches)) * self.size
        batch, rest = rows[first : first + self.size], rows[batches * self.size :]
        changed = int(rng.hypergeometric(self.size, n - self.size, len(rest))) if len(rest) else 0
        if changed:
            batch = batch.copy()
            slots = rng.choice(self.size, changed, replace=False)
            batch[slots] = rng.choice(rest, changed, replace=False)
        return batch


def _with_others(rows: np.ndarray, used: int, rng: np.random.Generator) -> np.ndarray:
    """``rows`` after those beyond the first ``used`` have been exchanged with random ones."""
    n_rest = len(rows) - used
    if n_rest == 0:
        return rows
    places = rng.choice(used, n_rest, replace=False)
    changed = rows.copy()
    changed[places], changed[used:] = rows[used:], rows[places]
    return changed


def by_assignment(phi: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Partition S B random rows into B batches of S, the mean feature of each close to that of the data.

    S strata of B random rows are made; every batch takes one row of each stratum, by linear assignment on
    <residual of the batch, phi_i - mean phi>: the choice that lowers the sum of squared residuals most. In
    further sweeps each stratum is removed and assigned again. Assignment is in blocks of about eighty
    batches, O(N M B_block) a sweep.

    Parameters
    ----------
    phi : (N, M)
    size : S
    rng : generator of the strata

    Returns
    -------
    (N // S, S) indices, each at most once
    """
    order = rng.permutation(len(phi))
    centre = phi.mean(axis=0, dtype=np.float64)
    parts = []
    for count, rows in _blocks(order, size):
        block = phi[rows].astype(np.float64) - centre
        chosen = _assigned(block.reshape(size, count, -1))
        parts.append(rows.reshape(size, count)[np.arange(size)[:, None], chosen].T)
    return np.concatenate(parts)


def _blocks(order: np.ndarray, size: int) -> list[tuple[int, np.ndarray]]:
    """Pieces of ``order``, count * size rows each; counts are about PARTITION.block, as equal as possible."""
    batches = len(order) // size
    blocks = max(1, round(batches / PARTITION.block))
    counts = [batches // blocks + (i < batches % blocks) for i in range(blocks)]
    edges = np.cumsum([0, *(count * size for count in counts)])
    return [(count, order[a:b]) for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True)]


def _assigned(strata: np.ndarray) -> np.ndarray:
    """Which row of each stratum (S, B, M) each batch takes, (S, B)."""
    size, count, _ = strata.shape
    chosen = np.tile(np.arange(count), (size, 1))
    residual = np.zeros(strata.shape[1:])
    for sweep in range(3):  # errors after six are 1.01 +- .02 times as large
        for h in range(size):
            if sweep:
                residual -= strata[h, chosen[h]]
            chosen[h] = linear_sum_assignment(residual @ strata[h].T)[1]
            residual += strata[h, chosen[h]]
    return chosen
