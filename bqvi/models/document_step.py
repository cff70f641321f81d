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

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from bqvi.arrays import digamma, gammaln
from bqvi.models.data import Data, as_numbers, is_sparse, require_counts
from gp.arrays import Array, to_numpy
from gp.checks import Seed, generator, require_above, require_columns

_PART = 1 << 14
"""The number of documents that are read at once."""
_BLOCK_ENTRIES = 1 << 18
"""The entries of a block's table (b, L, K): in single precision 1 MiB, a core's second-level cache."""


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


_FLOOR: dict[np.dtype, Any] = {
    np.dtype(np.float32): np.float32(-40.0),
    np.dtype(np.float64): np.float64(-340.0),
}
"""The least exponent by type: the square of its exponential is representable in that type."""
_COMPILED_ENTRIES = 1 << 14
"""The number of entries of a table, read in each pass, from which compiled loops are used: importing numba
takes as long as some hundred passes over such a table."""


@cache
def is_available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def worth_compiling(entries: int) -> bool:
    """Whether numba is installed, and the number of ``entries`` read in a pass is large enough."""
    return entries >= _COMPILED_ENTRIES and is_available()


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
        corpus = _Corpus(part, concentration, table, top)
        own, ratios, bounds = _swept(
            corpus, single, None if start is None else start[rows], sweeps or Sweeps()
        )
        by_word = scipy.sparse.csr_array((ratios, part.indices, part.indptr), shape=part.shape)
        words += by_word.T @ (_relative(own) * w[rows, None])
        log_proportions += w[rows] @ (digamma(own) - digamma(own.sum(axis=1))[:, None])
        bound += float(w[rows] @ bounds)
        gamma[rows], first = own, rows.stop
    words *= table
    return DocumentSums(np.ascontiguousarray(words.T), log_proportions, float(w.sum()), bound, gamma)


def _swept(
    corpus: _Corpus, single: np.ndarray, start: np.ndarray | None, sweeps: Sweeps
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """gamma (n, K), n_dw / p_dw of each stored count, p relative, and the bounds (n,)."""
    counts, k = corpus.counts, len(corpus.concentration)
    gamma, ratios, bounds = np.empty((counts.shape[0], k)), np.zeros(counts.nnz), np.zeros(counts.shape[0])
    if worth_compiling(counts.nnz * k):
        from bqvi.models import compiled_documents

        compiled_documents.settle_documents(
            counts.indptr,
            counts.indices,
            counts.data,
            corpus.concentration,
            corpus.table,
            corpus.top,
            np.empty((0, k)) if start is None else start,
            sweeps.tolerance,
            sweeps.most,
            sweeps.longest,
            gamma,
            ratios,
            bounds,
        )
        return gamma, ratios, bounds
    for block in blocks(counts, k):
        found = _best(corpus, block, single, None if start is None else start[block.rows], sweeps)
        gamma[block.rows], bounds[block.rows] = found.gamma, found.bounds
        ratios[block.entries[block.shown]] = found.ratios[block.shown]
    return gamma, ratios, bounds


@dataclass(frozen=True)
class _Corpus:
    counts: scipy.sparse.csr_array
    concentration: np.ndarray
    table: np.ndarray
    """(V, K), exp(E[ln beta]) relative to each word's largest."""
    top: np.ndarray
    """(V,), the logarithm of that."""


@dataclass(frozen=True)
class _Found:
    gamma: np.ndarray
    ratios: np.ndarray
    """n_dw / p_dw, (b, L), p relative."""
    bounds: np.ndarray


def _best(
    corpus: _Corpus, block: Block, single: np.ndarray, start: np.ndarray | None, sweeps: Sweeps
) -> _Found:
    alpha, words = corpus.concentration, block.counts.sum(axis=1)
    tables = corpus.table[block.words]
    anew = alpha + np.repeat(words[:, None] / len(alpha), len(alpha), axis=1)
    short = words.max() * sweeps.short < sweeps.tolerance
    swept = single[block.words] if short else tables
    found = _evaluated(corpus, block, tables, _settled(swept, block.counts, alpha, anew, sweeps))
    if start is None:
        return found
    kept = _evaluated(corpus, block, tables, _sweep(tables, block.counts, alpha, start))
    better = (kept.bounds > found.bounds)[:, None]
    return _Found(
        np.where(better, kept.gamma, found.gamma),
        np.where(better, kept.ratios, found.ratios),
        np.maximum(kept.bounds, found.bounds),
    )


def _sweep(tables: np.ndarray, counts: np.ndarray, alpha: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """gamma (b, K) after a sweep."""
    share = _relative(gamma)
    likelihood = np.matmul(tables, share[:, :, None])[:, :, 0]
    return alpha + share * np.matmul((counts / likelihood)[:, None, :], tables)[:, 0, :]


def _settled(
    tables: np.ndarray, counts: np.ndarray, alpha: np.ndarray, start: np.ndarray, sweeps: Sweeps
) -> np.ndarray:
    """gamma (b, K) of a block, in double precision; rows that have converged are removed from the sweeps."""
    dtype = tables.dtype
    counts, alpha, gamma = (x.astype(dtype, copy=False) for x in (counts, alpha, start))
    settled, rows = start.copy(), np.arange(len(start))
    tolerance = sweeps.tolerance * len(alpha)
    for _ in range(sweeps.most // 2):
        once = _sweep(tables, counts, alpha, gamma)
        twice = _sweep(tables, counts, alpha, once)
        moving = np.abs(twice - once).sum(axis=1) > tolerance
        settled[rows] = twice
        if not moving.any():
            return settled
        gamma = _extrapolated(gamma, once, twice, alpha, sweeps.longest)
        if not moving.all():
            rows, gamma, tables, counts = rows[moving], gamma[moving], tables[moving], counts[moving]
    return settled


def _extrapolated(
    gamma: np.ndarray, once: np.ndarray, twice: np.ndarray, alpha: np.ndarray, longest: float
) -> np.ndarray:
    """The extrapolation of two sweeps, row by row, with gamma >= alpha."""
    first = once - gamma
    bend = twice - once - first
    tiny = np.finfo(gamma.dtype).tiny
    length = np.sqrt((first * first).sum(axis=1) / np.maximum((bend * bend).sum(axis=1), tiny))
    length = np.clip(length, 1.0, longest)[:, None]
    return np.maximum(gamma + 2.0 * length * first + length * length * bend, alpha)


def _relative(gamma: np.ndarray) -> np.ndarray:
    """exp(E[ln pi]) relative to each row's largest."""
    log_share = digamma(gamma)
    log_share -= log_share.max(axis=1, keepdims=True)
    return _exponential(log_share, gamma.dtype)


def _exponential(relative: np.ndarray, dtype: np.dtype) -> np.ndarray:
    floored = np.maximum(relative, _FLOOR[dtype])
    return np.asarray(np.exp(floored, out=floored))


def _evaluated(corpus: _Corpus, block: Block, tables: np.ndarray, gamma: np.ndarray) -> _Found:
    """Each document's exact bound at ``gamma``."""
    alpha, total = corpus.concentration, gamma.sum(axis=1)
    log_share = digamma(gamma)
    largest = log_share.max(axis=1, keepdims=True)
    shift = largest[:, 0] - digamma(total)
    share = _exponential(log_share - largest, gamma.dtype)
    likelihood = np.matmul(tables, share[:, :, None])[:, :, 0]
    words = np.einsum("dl,dl->d", block.counts, np.log(likelihood) + corpus.top[block.words])
    words += block.counts.sum(axis=1) * shift
    divergence = ((gamma - alpha) * (log_share - digamma(total)[:, None])).sum(axis=1)
    divergence += gammaln(total) - gammaln(gamma).sum(axis=1) + gammaln(alpha).sum() - gammaln(alpha.sum())
    return _Found(gamma, block.counts / likelihood, words - divergence)
