"""Partitions of the data into mini-batches that each resemble the whole.

Random S B of the N rows are split into B batches of S, so that the mean feature of each batch is close to the
mean over the data, mean phi. Over the random split the marginal distribution of each batch is that of a
uniformly random set, so equal weights N / S are unbiased.

S strata of B random rows are made; every batch takes one row of each stratum, by linear assignment on
<residual of the batch, phi_i - mean phi>: the choice that lowers the sum of squared residuals most. In
further sweeps each stratum is removed and assigned again. Assignment is in blocks of B_block, about eighty,
batches, O(N M B_block) a sweep.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from acquisition.minibatch.settings import PARTITION


def by_assignment(phi: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Partition by linear assignment; see the module's docstring.

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
    for count, rows in _blocks(order, size, _block_sizes(len(phi) // size)):
        block = phi[rows].astype(np.float64) - centre
        chosen = _assigned(block.reshape(size, count, -1))
        parts.append(rows.reshape(size, count)[np.arange(size)[:, None], chosen].T)
    return np.concatenate(parts)


def _block_sizes(batches: int) -> list[int]:
    """Numbers of batches in the blocks: about PARTITION.block, and as equal as possible."""
    blocks = max(1, round(batches / PARTITION.block))
    return [batches // blocks + (i < batches % blocks) for i in range(blocks)]


def _blocks(order: np.ndarray, size: int, counts: list[int]) -> list[tuple[int, np.ndarray]]:
    """Consecutive pieces of ``order``, count * size rows each."""
    edges = np.cumsum([0, *(count * size for count in counts)])
    return [(count, order[a:b]) for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True)]


def _assigned(strata: np.ndarray) -> np.ndarray:
    """Which row of each stratum (S, B, M) each batch takes, (S, B)."""
    size, count, _ = strata.shape
    chosen = np.tile(np.arange(count), (size, 1))
    residual = np.zeros(strata.shape[1:])
    for sweep in range(PARTITION.sweeps):
        for h in range(size):
            if sweep:
                residual -= strata[h, chosen[h]]
            chosen[h] = linear_sum_assignment(residual @ strata[h].T)[1]
            residual += strata[h, chosen[h]]
    return chosen
