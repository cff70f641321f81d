"""Latent semantic analysis, and its probabilistic version in both formulations (Hofmann 1999).

    pLSA 1   p(d, w) = sum_k p(k) p(d | k) p(w | k)        one distribution over all cells (d, w)
    pLSA 2   p(w | d) = sum_k p(k | d) p(w | k)            one for each document

The counts n_dw of a corpus (N, V) are multinomial, all together or document by document. Every word has its
own topic z, with q(z = k | d, w) = (term k) / p_dw, the terms at E[ln .] of the factors' Dirichlets and p_dw
their sum; the bound is sum n_dw ln p_dw. With ``family='point'`` and flat priors, the default, coordinate
ascent is EM. Tempering raises the terms to a power below 1: q(z) is then optimal for an entropy weighted with
1 / power. Each document has parameters, so that every step uses all data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import scipy.special

from bqvi.families import Dirichlet, Product
from bqvi.models.contracts import LocalStep, altered
from bqvi.models.data import Data, is_sparse
from bqvi.models.document_step import check_counts, log_multinomial_coefficients
from gp.arrays import Array, to_numpy
from gp.checks import positive_vector, require_above, require_integer


class ProbabilisticLatentSemanticAnalysis:
    """pLSA; data are whole counts (N, V), dense or SciPy sparse.

    Parameters
    ----------
    n_topics : K >= 1
    n_words : V >= 1
    kind : 1, symmetric in documents and words, or 2, topics' proportions in each document
    power : in (0, 1], of the tempered E step; 1 is EM
    concentration, word_concentration : > 0, of all Dirichlet priors over topics or documents, and over words;
        1 is flat
    """

    full_batch = True

    def __init__(
        self,
        n_topics: int,
        n_words: int,
        *,
        kind: int = 2,
        power: float = 1.0,
        concentration: float = 1.0,
        word_concentration: float = 1.0,
    ) -> None:
        self.n_topics = require_integer("n_topics", n_topics, 1)
        self.n_words = require_integer("n_words", n_words, 1)
        if kind not in (1, 2):
            raise ValueError(f"kind is {kind!r}; it must be 1 or 2")
        require_above("power", power, 0.0)
        if power > 1.0:
            raise ValueError(f"power is {power}; it must be in (0, 1]")
        self.kind, self.power = kind, float(power)
        self.concentration = float(positive_vector("concentration", concentration, 1)[0])
        self.word_concentration = float(positive_vector("word_concentration", word_concentration, 1)[0])
        self.n_documents: int | None = None

    def check(self, data: Data) -> scipy.sparse.csr_array:
        """(N, V) whole counts, as CSR."""
        return check_counts(data, self.n_words).astype(float, copy=False)

    def for_data(self, data: Data) -> Self:
        """The same model, with as many documents as ``data`` has; `fit` asks for it."""
        return altered(self, n_documents=int(self.check(data).shape[0]))

    @cached_property
    def prior(self) -> Product:
        """The Dirichlet priors of all factors."""
        if self.n_documents is None:
            raise ValueError("the number of documents is not known; use model.for_data(data), as fit does")
        k, n, a = self.n_topics, self.n_documents, self.concentration
        words = Dirichlet(np.full((k, self.n_words), self.word_concentration))
        if self.kind == 2:
            return Product({"proportions": Dirichlet(np.full((n, k), a)), "words": words})
        weights, documents = Dirichlet(np.full(k, a)), Dirichlet(np.full((k, n), a))
        return Product({"weights": weights, "documents": documents, "words": words})

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """All factors at the data's own frequencies; those of the words times noise."""
        by_word = np.asarray(data.sum(axis=0)) / self.n_topics
        by_document = np.asarray(data.sum(axis=1)) / self.n_topics
        noise = rng.standard_exponential((self.n_topics, self.n_words)) + 0.5
        k, a = self.n_topics, self.concentration
        words = Dirichlet(self.word_concentration + by_word * noise + 1e-3)
        shares = np.tile(by_document[:, None] + 1e-3, (1, k))
        if self.kind == 2:
            return Product({"proportions": Dirichlet(a + shares), "words": words})
        weights = Dirichlet(np.full(k, a + by_word.sum() + 1e-3))
        return Product({"weights": weights, "documents": Dirichlet(a + shares.T), "words": words})

    def local_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        """Topics of all words, and their statistics; ``weights`` (N,) of the documents."""
        logs = [np.maximum(part.expected_statistics[0], -1e30) for part in q.factors.values()]
        document = logs[0] if self.kind == 2 else (logs[0][:, None] + logs[1]).T
        if len(document) != rows.shape[0]:
            raise ValueError(
                "pLSA has parameters for each document and uses all at each step; use method 'cavi'"
            )
        counts = rows
        if weights is not None:
            counts = scipy.sparse.csr_array(rows.multiply(to_numpy(weights)[:, None]))
        left, right = self.power * document, self.power * logs[-1].T
        top = left.max(axis=1)
        peak = right.max(axis=1)
        a, b = np.exp(left - top[:, None]), np.exp(right - peak[:, None])
        cells = counts.tocoo()
        p = np.maximum(np.einsum("ik,ik->i", a[cells.row], b[cells.col]), 1e-300)
        bound = float(cells.data @ (np.log(p) + top[cells.row] + peak[cells.col])) / self.power
        ratios = scipy.sparse.csr_array((cells.data / p, (cells.row, cells.col)), shape=counts.shape)
        by_document, by_word = (ratios @ b) * a, (ratios.T @ a) * b
        if self.kind == 2:
            return LocalStep((by_document, by_word.T), bound)
        return LocalStep((by_document.sum(axis=0), by_document.T, by_word.T), bound)

    def log_base_measure(self, data: Data) -> float:
        """The log multinomial coefficient of all cells (kind 1), or the sum of the documents' (kind 2)."""
        if self.kind == 2:
            return float(log_multinomial_coefficients(data).sum())
        total = scipy.special.gammaln(data.sum() + 1.0)
        return float(total - scipy.special.gammaln(data.data + 1.0).sum())

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(counts | theta), nats; theta = ``q.mean``. A cell of probability zero counts as 1e-300."""
        counts = self.check(data)
        cells = counts.tocoo()
        if self.kind == 2:
            shares = np.asarray(theta["proportions"])
        else:
            shares = np.asarray(theta["weights"] * theta["documents"].T)
        p = np.einsum("ik,ki->i", shares[cells.row], np.asarray(theta["words"])[:, cells.col])
        return float(cells.data @ np.log(np.maximum(p, 1e-300))) + self.log_base_measure(counts)


def latent_semantic_analysis(counts: Any, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of documents (N, rank) and words (V, rank) whose products are the nearest of that rank.

    The truncated singular value decomposition U S V^T, as U S^1/2 and V S^1/2 (Deerwester et al. 1990),
    largest first.

    Parameters
    ----------
    counts : (N, V), dense or SciPy sparse
    rank : >= 1, at most min(N, V)
    """
    table: Any = counts.astype(float) if is_sparse(counts) else np.asarray(counts, float)
    most = min(table.shape)
    if require_integer("rank", rank, 1) > most:
        raise ValueError(f"rank is {rank}; it must be at most min(N, V) = {most}")
    if rank > most // 2 or most < 10:  # the iterative solver finds fewer vectors than that
        u, s, vt = np.linalg.svd(table.toarray() if is_sparse(table) else table, full_matrices=False)
    else:
        u, s, vt = scipy.sparse.linalg.svds(table, k=rank, rng=np.random.default_rng(0))
        order = np.argsort(-s)
        u, s, vt = u[:, order], s[order], vt[order]
    scale = np.sqrt(s[:rank])
    return u[:, :rank] * scale, vt[:rank].T * scale
