"""Documents as counts of words: the check of what the user gave, blocks for array code, document completion.

A corpus is a SciPy CSR array (N, V) of whole counts, of any type of numbers, also with memory-mapped arrays
of files. It is read in parts of `_PART` documents, so that memory grows only by K numbers for each document.
As documents differ in length, array code works on *blocks*: documents with about the same number of distinct
words, as padded tables (b, L) of words and counts. They are so small that a block's table of topics (b, L, K)
stays in the processor's cache over all its sweeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from bqvi.arrays import Seed, generator
from bqvi.checks import require_above, require_columns
from bqvi.models.data import LARGEST_COUNT, Data, as_numbers, is_sparse
from gp.arrays import to_numpy

_PART = 1 << 14
"""The number of documents that are read at once."""
_BLOCK_ENTRIES = 1 << 18
"""The number of entries of a block's table (b, L, K), in single precision 1 MiB, a core's second-level cache.

2^15 to 2^20 tried on 2,000 documents of 100 words, K = 20: half as many take a fifth longer, and more save
little.
"""


@dataclass(frozen=True)
class Block:
    """Documents of about the same number of distinct words, padded with counts of zero."""

    rows: np.ndarray
    """The indices (b,) of the documents in the corpus."""
    words: np.ndarray
    """(b, L)."""
    counts: np.ndarray
    """(b, L)."""
    entries: np.ndarray
    """The positions (b, L) of the counts among the corpus' stored numbers."""
    shown: np.ndarray
    """(b, L), False where padded."""


def check_counts(data: Data, n_words: int, fractional: bool = False) -> scipy.sparse.csr_array:
    """The counts (N, V), whole or ``fractional``, as CSR, without stored zeros or repeated entries.

    A CSR array that already has this form is returned without a copy.

    Parameters
    ----------
    data : (N, V), dense or sparse. n_words : V. fractional : whether counts may have fractions.
    """
    x = data if is_sparse(data) else to_numpy(as_numbers("data", data))
    require_columns("data", x, n_words)
    if x.dtype == np.float16:  # SciPy has no sparse arrays of float16
        x = x.astype(np.float32)
    counts: Any = scipy.sparse.csr_array(x)
    if not counts.has_canonical_format or any((part.data == 0).any() for part in parts(counts)):
        counts = scipy.sparse.csr_array(x, dtype=float, copy=True)
        counts.sum_duplicates()
        counts.eliminate_zeros()
    start = 0
    for part in parts(counts):
        fits = fractional | (part.data == np.floor(part.data))
        bad = ~((part.data >= 0.0) & (part.data < LARGEST_COUNT) & fits)
        if bad.any():
            place = int(np.argmax(bad))
            row = start + int(np.searchsorted(part.indptr, place, side="right")) - 1
            whole = "" if fractional else "whole, "
            raise ValueError(
                f"data has a count of {part.data[place]:g} in row {row}, column {part.indices[place]}; "
                f"counts of words must be {whole}nonnegative and below {LARGEST_COUNT:g}"
            )
        start += part.shape[0]
    return counts


def parts(counts: scipy.sparse.csr_array) -> Iterator[scipy.sparse.csr_array]:
    """Consecutive parts of at most `_PART` documents, in float64."""
    for start in range(0, counts.shape[0], _PART):
        part = counts[start : start + _PART]
        yield part if part.dtype == float else part.astype(float)


def word_totals(counts: scipy.sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """sum_d w_d n_dv, (V,), of ``weights`` (N,)."""
    total, start = np.zeros(counts.shape[1]), 0
    for part in parts(counts):
        total += part.T @ weights[start : start + part.shape[0]]
        start += part.shape[0]
    return total


def blocks(counts: scipy.sparse.csr_array, n_topics: int) -> Iterator[Block]:
    """All documents, those with few distinct words first."""
    lengths = np.diff(counts.indptr)
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        # A block ends where one more document would make its table too large, or more than a quarter padding.
        while stop < len(order):
            longest = lengths[order[stop]]
            too_large = (stop + 1 - start) * longest * n_topics > _BLOCK_ENTRIES
            if too_large or lengths[order[start]] < 0.75 * longest - 8:
                break
            stop += 1
        yield _block(counts, order[start:stop], lengths)
        start = stop


def _block(counts: scipy.sparse.csr_array, rows: np.ndarray, lengths: np.ndarray) -> Block:
    within = np.arange(max(1, int(lengths[rows].max())))
    shown = within < lengths[rows][:, None]
    entries = np.where(shown, counts.indptr[rows][:, None] + within, 0)
    if not len(counts.data):
        zeros = np.zeros(entries.shape)
        return Block(rows, zeros.astype(np.intp), zeros, entries, shown)
    words = np.where(shown, counts.indices[entries], 0)
    return Block(rows, words, np.where(shown, counts.data[entries], 0.0), entries, shown)


def log_multinomial_coefficients(counts: scipy.sparse.csr_array) -> np.ndarray:
    """ln (n! / prod_w n_w!) of each document, nats, (N,)."""
    found = [np.zeros(0)]
    for part in parts(counts):
        logs = part.copy()
        logs.data = scipy.special.gammaln(part.data + 1.0)
        found.append(scipy.special.gammaln(part.sum(axis=1) + 1.0) - logs.sum(axis=1))
    return np.concatenate(found)


def split_words(
    counts: scipy.sparse.csr_array, share: float, seed: Seed
) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Divide the words of each document into two parts, the first with probability ``share``.

    Parameters
    ----------
    counts : whole counts (N, V)
    share : the probability, in (0, 1)
    """
    require_above("share", share, 0.0)
    if share >= 1.0:
        raise ValueError(f"share is {share}; it must be between 0 and 1")
    first = counts.copy()
    first.data = generator(seed).binomial(counts.data.astype(int), share).astype(float)
    second = scipy.sparse.csr_array(counts - first)
    first.eliminate_zeros()
    second.eliminate_zeros()
    return first, second
