"""The local step of latent Dirichlet allocation: the proportions of topics of each document.

Given E[ln beta] and the concentration alpha, each document has (Blei, Ng and Jordan 2003; Hoffman et al.
2010)

    q(pi_d) = Dir(gamma_d),   q(z = k | d, w) = exp(E[ln pi_dk] + E[ln beta_kw]) / p_dw,
    p_dw    = sum_k exp(E[ln pi_dk] + E[ln beta_kw]),
    gamma_dk <- alpha_k + sum_w n_dw q(z = k | d, w),

repeated until gamma_d converges. q(z) is always optimal given gamma_d, so that at *any* gamma

    bound_d = sum_w n_dw ln p_dw - KL(Dir(gamma_d) || Dir(alpha))

is exact. The sweeps are extrapolated (Varadhan and Roland 2008, their third step length, row by row), which
takes a third of the sweeps, and are made in single precision where that suffices.

bound_d has several maxima. Sweeps from the gamma of the previous iteration remain in the maximum found for
the first topics, which are noise; sweeps from a new start may end in a lower maximum. With ``start`` both are
tried and the better result is kept for each document, so that no document's bound falls.

A corpus is a SciPy CSR array (N, V) of counts, also with memory-mapped arrays of files, read in parts of
`_PART` documents. Array code works on blocks of documents with about the same number of distinct words, as
padded tables (b, L) of words and counts, so small that a block's table of topics stays in the processor's
cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from bqvi.arrays import digamma, gammaln
from bqvi.models.data import Data, as_numbers, is_sparse, require_counts
from gp.arrays import Array, to_numpy
from gp.checks import Seed, generator, require_above, require_shape

_PART = 1 << 14
"""The number of documents that are read at once."""
_TOGETHER = 32
"""The number of documents in a block from which those that converge late are put into new blocks."""
_BLOCK_ENTRIES = 1 << 18
"""The entries of a block's table (b, L, K): in single precision 1 MiB, a core's second-level cache."""


def check_counts(data: Data, n_words: int, fractional: bool = False) -> scipy.sparse.csr_array:
    """The counts (N, V), whole or ``fractional``, as CSR, without stored zeros or repeated entries.

    A CSR array that already has this form is returned without a copy.

    Parameters
    ----------
    data : (N, V), dense or sparse. n_words : V. fractional : whether counts may have fractions.
    """
    x = data if is_sparse(data) else to_numpy(as_numbers("data", data))
    require_shape("data", x, ("N", n_words))
    if x.dtype == np.float16:  # SciPy has no sparse arrays of float16
        x = x.astype(np.float32)
    counts: Any = scipy.sparse.csr_array(x)
    if not counts.has_canonical_format or any((part.data == 0).any() for part in parts(counts)):
        counts = scipy.sparse.csr_array(x, dtype=float, copy=True)
        counts.sum_duplicates()
        counts.eliminate_zeros()
    for i, part in enumerate(parts(counts)):
        require_counts(part, fractional, i * _PART)
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


def blocks(
    counts: scipy.sparse.csr_array, documents: np.ndarray, n_topics: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The ``documents``, those with few distinct words first, in blocks of about the same number of them.

    Each block has the indices (b,) of its documents, and the positions (b, L) of their counts among the
    stored numbers; where it is padded, the position behind these.
    """
    lengths = np.diff(counts.indptr)[documents]
    order = np.argsort(lengths, kind="stable")
    documents, lengths = documents[order], lengths[order]
    start = 0
    while start < len(lengths):
        # A block ends where one more document would make its table too large, or more than a quarter padding.
        sizes = np.arange(1, len(lengths) - start + 1) * lengths[start:] * n_topics
        longest = (lengths[start] + 8) / 0.75
        within = (sizes <= _BLOCK_ENTRIES) & (lengths[start:] <= longest)
        stop = start + max(1, int(within.sum()))
        rows, own = documents[start:stop], lengths[start:stop]
        place = np.arange(max(1, int(own[-1])))
        yield rows, np.where(place < own[:, None], counts.indptr[rows][:, None] + place, counts.nnz)
        start = stop


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


_FLOOR: dict[np.dtype, Any] = {
    np.dtype(np.float32): np.float32(-40.0),
    np.dtype(np.float64): np.float64(-340.0),
}
"""The least exponent by type: the square of its exponential is representable in that type."""


@dataclass(frozen=True)
class Sweeps:
    """The settings of the iteration for gamma."""

    tolerance: float = 1e-5
    """The mean change of gamma over topics, in words, below which a sweep is the last."""
    most: int = 1000
    """The most sweeps."""
    longest: float = 16.0
    """The longest step, in sweeps."""
    short: float = 1e-7
    """Single precision is used for documents whose words times this are below the tolerance."""


@dataclass(frozen=True)
class DocumentSums:
    """The sums of the local step, and the final proportions."""

    words: np.ndarray
    """sum_d w_d n_dw q(z = k | d, w), (K, V)."""
    log_proportions: np.ndarray
    """sum_d w_d E[ln pi_d], (K,)."""
    count: float
    """sum_d w_d."""
    bound: float
    """sum_d w_d bound_d, nats."""
    proportions: np.ndarray
    """gamma, (N, K)."""


def document_step(
    counts: scipy.sparse.csr_array,
    log_topics: np.ndarray,
    concentration: np.ndarray,
    weights: Array | None = None,
    start: np.ndarray | None = None,
    sweeps: Sweeps | None = None,
) -> DocumentSums:
    """The sums over documents of the statistics of the optimal q(pi, z).

    Parameters
    ----------
    counts : (N, V)
    log_topics : (K, V), E[ln beta]
    concentration : (K,), alpha
    weights : (N,), default one
    start : (N, K), gamma of the iteration before, to be improved on; default none
    """
    top = log_topics.max(axis=0)
    relative = log_topics - top
    table = _exponential(relative, np.dtype(float)).T.copy()
    single = _exponential(relative.astype(np.float32), np.dtype(np.float32)).T.copy()
    k, n = log_topics.shape[0], counts.shape[0]
    w = np.ones(n) if weights is None else np.asarray(to_numpy(weights), float)
    words, log_proportions, bound = np.zeros_like(table), np.zeros(k), 0.0
    gamma, first = np.empty((n, k)), 0
    for part in parts(counts):
        rows = slice(first, first + part.shape[0])
        begun = None if start is None else start[rows]
        own, ratios, bounds = _swept(part, concentration, (table, single, top), begun, sweeps or Sweeps())
        by_word = scipy.sparse.csr_array((ratios, part.indices, part.indptr), shape=part.shape)
        words += by_word.T @ (_relative(own) * w[rows, None])
        log_proportions += w[rows] @ (digamma(own) - digamma(own.sum(axis=1))[:, None])
        bound += float(w[rows] @ bounds)
        gamma[rows], first = own, rows.stop
    words *= table
    return DocumentSums(np.ascontiguousarray(words.T), log_proportions, float(w.sum()), bound, gamma)


def _swept(
    counts: scipy.sparse.csr_array,
    alpha: np.ndarray,
    topics: tuple[np.ndarray, np.ndarray, np.ndarray],
    start: np.ndarray | None,
    sweeps: Sweeps,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """gamma (n, K), n_dw / p_dw of each stored count, p relative, and the bounds (n,).

    Documents that converge late in their blocks are put together in new ones. Topics are (V, K), exp(E[ln
    beta]) relative to each word's largest, the same in single precision, and the logarithm of that (V,).
    """
    double, single, top = topics
    word, numbers = np.append(counts.indices, 0), np.append(counts.data, 0.0)  # and behind them padding
    (n, _), k, words = counts.shape, len(alpha), np.asarray(counts.sum(axis=1))
    gamma, ratios, bounds = alpha + words[:, None] / k, np.zeros(counts.nnz + 1), np.zeros(n)
    moving, left = np.arange(n), sweeps.most
    while len(moving) and left > 1:
        late, used = [], 0
        for rows, entries in blocks(counts, moving, k):
            short = words[rows].max() * sweeps.short < sweeps.tolerance
            tables, own = (single if short else double)[word[entries]], numbers[entries]
            gamma[rows], still, made = _settled(tables, own, alpha, gamma[rows], sweeps, left)
            late.append(rows[still])
            used = max(used, made)
        moving, left = np.concatenate(late), left - used
    for rows, entries in blocks(counts, np.arange(n), k):
        tables, own, level = double[word[entries]], numbers[entries], top[word[entries]]
        found = _evaluated(tables, own, level, alpha, gamma[rows])
        if start is not None:
            kept = _evaluated(tables, own, level, alpha, _sweep(tables, own, alpha, start[rows]))
            better = (kept[2] > found[2])[:, None]
            found = *(np.where(better, kept[i], found[i]) for i in (0, 1)), np.maximum(kept[2], found[2])
        gamma[rows], ratios[entries], bounds[rows] = found
    return gamma, ratios[:-1], bounds


def _sweep(tables: np.ndarray, counts: np.ndarray, alpha: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """gamma (b, K) after a sweep."""
    share = _relative(gamma)
    likelihood = np.matmul(tables, share[:, :, None])[:, :, 0]
    return alpha + share * np.matmul((counts / likelihood)[:, None, :], tables)[:, 0, :]


def _settled(
    tables: np.ndarray, counts: np.ndarray, alpha: np.ndarray, start: np.ndarray, sweeps: Sweeps, most: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """gamma (b, K) of a block, in double precision; which rows still move, and the sweeps made.

    Rows that have converged are removed from the sweeps, which end when few are left.
    """
    dtype = tables.dtype
    counts, alpha, gamma = (x.astype(dtype, copy=False) for x in (counts, alpha, start))
    settled, rows = start.copy(), np.arange(len(start))
    few = len(start) // 4 if len(start) >= _TOGETHER else 0
    tolerance = sweeps.tolerance * len(alpha)
    for made in range(2, most + 1, 2):
        once = _sweep(tables, counts, alpha, gamma)
        twice = _sweep(tables, counts, alpha, once)
        moving = np.abs(twice - once).sum(axis=1) > tolerance
        settled[rows] = twice
        if not moving.any():
            return settled, rows[moving], made
        gamma = _extrapolated(gamma, once, twice, alpha, sweeps.longest)
        if not moving.all():
            rows, gamma, tables, counts = rows[moving], gamma[moving], tables[moving], counts[moving]
            if len(rows) <= few and made + 2 <= most:
                settled[rows] = gamma
                return settled, rows, made
    return settled, rows[:0], most


def _extrapolated(
    gamma: np.ndarray, once: np.ndarray, twice: np.ndarray, alpha: np.ndarray, longest: float
) -> np.ndarray:
    """The extrapolation of two sweeps, row by row, with a tenth of the words of each topic at least.

    At gamma = alpha a topic is lost where alpha is small, as E[ln pi] is about -1 / alpha there, and sweeps
    end in a lower maximum.
    """
    first = once - gamma
    bend = twice - once - first
    tiny = np.finfo(gamma.dtype).tiny
    length = np.sqrt((first * first).sum(axis=1) / np.maximum((bend * bend).sum(axis=1), tiny))
    length = np.clip(length, 1.0, longest)[:, None]
    return np.maximum(gamma + 2.0 * length * first + length * length * bend, 0.9 * alpha + 0.1 * twice)


def _relative(gamma: np.ndarray) -> np.ndarray:
    """exp(E[ln pi]) relative to each row's largest."""
    log_share = digamma(gamma)
    log_share -= log_share.max(axis=1, keepdims=True)
    return _exponential(log_share, gamma.dtype)


def _exponential(relative: np.ndarray, dtype: np.dtype) -> np.ndarray:
    floored = np.maximum(relative, _FLOOR[dtype])
    return np.asarray(np.exp(floored, out=floored))


def _evaluated(
    tables: np.ndarray, counts: np.ndarray, level: np.ndarray, alpha: np.ndarray, gamma: np.ndarray
) -> tuple[np.ndarray, ...]:
    """``gamma``, n_dw / p_dw (b, L), p relative to exp(``level``), and the exact bounds (b,)."""
    total = gamma.sum(axis=1)
    log_share = digamma(gamma)
    largest = log_share.max(axis=1, keepdims=True)
    shift = largest[:, 0] - digamma(total)
    share = _exponential(log_share - largest, gamma.dtype)
    likelihood = np.matmul(tables, share[:, :, None])[:, :, 0]
    words = np.einsum("dl,dl->d", counts, np.log(likelihood) + level)
    words += counts.sum(axis=1) * shift
    divergence = ((gamma - alpha) * (log_share - digamma(total)[:, None])).sum(axis=1)
    divergence += gammaln(total) - gammaln(gamma).sum(axis=1) + gammaln(alpha).sum() - gammaln(alpha.sum())
    return gamma, counts / likelihood, words - divergence
