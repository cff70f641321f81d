"""Latent Dirichlet allocation (Blei, Ng and Jordan 2003, smoothed), by coordinate ascent and by SVI.

    beta_k ~ Dir(eta),  k = 1..K           topics, over V words
    pi_d ~ Dir(alpha),  z_dn | pi_d ~ Cat(pi_d),  x_dn | z_dn = k ~ Cat(beta_k)

The topics are the global variables; pi_d and z_d are the local variables of document d (`document_step`). The
data add sum_d n_dw q(z = k | d, w) to the natural parameter of beta_k. Data are counts, so ln h(x_d) is the
logarithm of the multinomial coefficient; the probability of words in their order is the bound less
``log_base_measure``.

Learnt hyperparameters are points in q (`families.Concentration`). The update of alpha is the maximum of the
ELBO given gamma. eta is symmetric; its update uses E[ln beta] of the topics after the same local step, so
that coordinate ascent updates z, beta and eta in turn:

    E[ln p(beta | eta)] - E[ln p(beta | eta_0)]   joins the bound,   eta - eta_0   the topics' statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import scipy.sparse

from bqvi.arrays import Values, add
from bqvi.families import Dirichlet, PointMass, Product
from bqvi.families.dirichlet import Concentration
from bqvi.models.components import cluster_means, sample_rows, scatter, starting_centres
from bqvi.models.contracts import LocalStep
from bqvi.models.data import Data, n_rows, take
from bqvi.models.document_step import (
    DocumentSums,
    check_counts,
    document_step,
    log_multinomial_coefficients,
    split_words,
    word_totals,
)
from bqvi.models.settings import CENTRES, TOPIC_STARTS
from gp.arrays import Array
from gp.checks import Seed, positive_vector, require_integer, require_one_of

_LEARNT = ("symmetric", "asymmetric")


class LatentDirichletAllocation:
    """Topics of documents; data are whole counts (N, V), dense or SciPy sparse.

    Parameters
    ----------
    n_topics : K >= 1
    n_words : V >= 1, size of the vocabulary
    concentration : alpha > 0, a number or (K,); default 1 / K. Where it is learnt, its start
    word_concentration : eta > 0, a number or (V,); default 0.1. Where it is learnt, its start
    learn_concentration : 'symmetric', 'asymmetric', or None to keep alpha
    learn_word_concentration : whether eta is learnt, as one number
    fractional : whether counts may be weights of words that are not whole numbers, such as tf-idf
    """

    def __init__(
        self,
        n_topics: int,
        n_words: int,
        *,
        concentration: float | np.ndarray | None = None,
        word_concentration: float | np.ndarray = 0.1,
        learn_concentration: str | None = None,
        learn_word_concentration: bool = False,
        fractional: bool = False,
    ) -> None:
        self.n_topics = require_integer("n_topics", n_topics, 1)
        self.n_words = require_integer("n_words", n_words, 1)
        alpha = 1.0 / self.n_topics if concentration is None else concentration
        self.concentration = positive_vector("concentration", alpha, self.n_topics)
        self.word_concentration = positive_vector("word_concentration", word_concentration, self.n_words)
        if learn_concentration is not None:
            require_one_of("learn_concentration", learn_concentration, _LEARNT)
        if learn_word_concentration and np.ptp(self.word_concentration) > 0.0:
            raise ValueError("word_concentration differs between words; only one number can be learnt")
        self.fractional = bool(fractional)
        self.learn_concentration = learn_concentration
        self.learn_word_concentration = bool(learn_word_concentration)

    @property
    def local_size(self) -> int:
        """The number of values at the end of a document's local step: gamma has K."""
        return self.n_topics

    @cached_property
    def prior(self) -> Product:
        """prod_k Dir(eta), and flat over what is learnt."""
        return self._with_learnt(Dirichlet(np.tile(self.word_concentration, (self.n_topics, 1))), 0.0, 0.0)

    def _with_learnt(self, topics: Dirichlet, documents: float, draws: float) -> Product:
        """The factors of q, with learnt hyperparameters at their start, and their numbers of terms."""
        factors: dict[str, Dirichlet | Concentration] = {"topics": topics}
        if self.learn_concentration is not None:
            symmetric = self.learn_concentration == "symmetric"
            factors["concentration"] = Concentration(self.concentration, documents, symmetric)
        if self.learn_word_concentration:
            factors["word_concentration"] = Concentration(self.word_concentration, draws, symmetric=True)
        return Product(factors)

    def check(self, data: Data) -> scipy.sparse.csr_array:
        """(N, V) counts, as CSR."""
        return check_counts(data, self.n_words, self.fractional)

    def initial(
        self, data: Data, how: str, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> Product:
        """A start with topics of noise ('random'), or near the words of K clusters ('k-means++').

        ``how`` is one of the two; ``rng`` makes the noise. Documents of ``data`` have ``weights`` (N,),
        default 1.
        """
        part = np.ones(n_rows(data)) if weights is None else weights
        totals = word_totals(data, part)
        words = float(totals.sum()) / self.n_topics
        starts = TOPIC_STARTS
        noise = rng.gamma(100.0, 0.01, (self.n_topics, self.n_words))  # of mean 1: topics start apart
        if how == "random":
            lean = noise / self.n_words
        else:
            most = max(starts.documents * self.n_topics, starts.entries // self.n_words)
            chosen = sample_rows(n_rows(data), rng, min(CENTRES.rows, most))
            sampled = take(data, chosen).toarray()
            overall = totals + 1.0
            smoothed = sampled + 10.0 * overall / overall.sum()  # ten words of the average document
            frequencies = smoothed / smoothed.sum(1, keepdims=True)
            own = None if weights is None else weights[chosen]
            centres = self._clusters(frequencies, how, rng, own)
            lean = noise * (0.5 * centres + 0.5 * overall / overall.sum())
        topics = Dirichlet(self.word_concentration + words * lean + 1e-3 * noise)
        return self._with_learnt(topics, float(part.sum()), float(self.n_topics))

    def _clusters(
        self, frequencies: np.ndarray, how: str, rng: np.random.Generator, weights: np.ndarray | None
    ) -> np.ndarray:
        """Mean ``frequencies`` (n, V) of K clusters of documents, (K, V), by square roots (Hellinger)."""
        roots, found = np.sqrt(frequencies), []
        for _ in range(TOPIC_STARTS.clusterings):
            centres = starting_centres(roots, self.n_topics, how, rng, weights, unit=True)
            for _ in range(4):
                centres = cluster_means(roots, roots, centres, weights, centres, unit=True)
            found.append((scatter(roots, centres, weights, unit=True), centres))
        centres = min(found, key=lambda one: one[0])[1]
        every = np.broadcast_to(frequencies.mean(axis=0), centres.shape)
        return cluster_means(frequencies, roots, centres, weights, every, unit=True)

    def local_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        return self._with_shared(q, self.own_step(q, rows, weights))

    def refined_step(
        self, q: Product, rows: Data, local: np.ndarray, weights: Array | None = None
    ) -> LocalStep:
        """As `local_step` of ``rows`` under ``q``, also from gamma = ``local``; the better result is kept.

        Documents have ``weights`` (S,), default 1.
        """
        sums = document_step(rows, _log_topics(q), self._alpha(q), weights, local)
        return self._with_shared(q, self._own(sums))

    def own_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        """The part of `local_step` that is a sum over documents: without `shared_step`."""
        return self._own(document_step(rows, _log_topics(q), self._alpha(q), weights))

    def _own(self, sums: DocumentSums) -> LocalStep:
        statistics: list[Array] = [sums.words]
        if self.learn_concentration is not None:
            statistics += [sums.log_proportions, np.asarray(sums.count)]
        if self.learn_word_concentration:
            statistics += [np.zeros(self.n_words), np.zeros(())]
        return LocalStep(tuple(statistics), sums.bound, sums.proportions)

    def _with_shared(self, q: Product, own: LocalStep) -> LocalStep:
        shared = self.shared_step(q, own.statistics)
        return LocalStep(add(own.statistics, shared.statistics), own.bound + shared.bound, own.local)

    def shared_step(self, q: Product, statistics: Values) -> LocalStep:
        """The addition of a learnt eta to ``statistics`` of `own_step` under ``q``, and to the bound."""
        nothing = tuple(np.zeros(np.shape(part)) for part in statistics)
        if not self.learn_word_concentration:
            return LocalStep(nothing, 0.0)
        eta, eta_0 = q["word_concentration"].mode, self.word_concentration
        here, before = Dirichlet(eta), Dirichlet(eta_0)
        gain = self.n_topics * float(before.log_normaliser - here.log_normaliser)
        gain += float(((eta - eta_0) * _log_topics(q)).sum())
        next_topics = q["topics"].from_natural((statistics[0] + eta,))
        log_topics = np.maximum(next_topics.expected_statistics[0], -1e30).sum(axis=0)
        if log_topics.min() <= -1e30:
            raise ArithmeticError(f"a word has probability 0 in a topic {_NO_CONCENTRATION}")
        following = q["word_concentration"].from_natural((log_topics, np.asarray(float(self.n_topics))))
        if isinstance(q["topics"], PointMass) and following.unbounded:
            raise ArithmeticError(f"all words have the same probability in each topic {_NO_CONCENTRATION}")
        topics = np.broadcast_to(eta - eta_0, nothing[0].shape)
        return LocalStep((topics, *nothing[1:-2], log_topics, np.asarray(float(self.n_topics))), gain)

    def _alpha(self, q: Product) -> np.ndarray:
        """(K,)."""
        if self.learn_concentration is None:
            return self.concentration
        return q["concentration"].mode

    def log_base_measure(self, data: Data) -> float:
        """sum_d of the log multinomial coefficients."""
        return float(self.log_base_measures(data).sum())

    def log_base_measures(self, data: Data) -> np.ndarray:
        """The log multinomial coefficient of each document of ``data``, (N,)."""
        return log_multinomial_coefficients(data)

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: square roots of counts, whose noise is alike everywhere."""
        return np.asarray(np.sqrt(data.toarray()))

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """A lower bound of ln p(X | beta), nats, for theta = {'topics': (K, V), ...}.

        A bound is returned as the integral over pi has no closed form. A probability of zero counts as
        1e-300, as in `MultinomialMixture`.
        """
        log_topics = np.log(np.maximum(theta["topics"], 1e-300))
        alpha = np.asarray(theta.get("concentration", self.concentration))
        counts = self.check(data)
        return document_step(counts, log_topics, alpha).bound + self.log_base_measure(counts)

    def proportions(self, q: Product, data: Data) -> np.ndarray:
        """gamma, (N, K): q(pi_d) = Dir(gamma_d) of each document; its mean is `transform`."""
        return document_step(self.check(data), _log_topics(q), self._alpha(q)).proportions

    def transform(self, q: Product, data: Data) -> np.ndarray:
        """E[pi], (N, K): the topics' proportions of each document, given the topics in ``q``."""
        gamma = self.proportions(q, data)
        return gamma / gamma.sum(axis=1, keepdims=True)

    def log_predictive(self, q: Product, observed: Data, held_out: Data) -> float:
        """The sum of ln p(word | observed words of its document) over ``held_out`` (N, V), nats.

        pi and beta are at their means; as q(beta) and q(pi_d) are independent, this is q's predictive
        probability of a word.
        """
        held = self.check(held_out)
        words = q["topics"].mean
        if n_rows(held) != n_rows(observed):
            raise ValueError(
                f"held_out has {n_rows(held)} rows, observed {n_rows(observed)}; "
                "they must be the same documents"
            )
        shares = self.transform(q, observed)
        entries = held.tocoo()
        probabilities = np.einsum("ik,ki->i", shares[entries.row], words[:, entries.col])
        return float(entries.data @ np.log(np.maximum(probabilities, 1e-300)))

    def perplexity(self, q: Product, data: Data, *, share: float = 0.5, seed: Seed = 0) -> float:
        """exp of minus the mean log predictive probability of a word, by document completion.

        Parameters
        ----------
        data : (N, V), documents that q has not seen
        share : of each document's words that is observed; the others are predicted
        seed : seed of the choice of words
        """
        observed, held = split_words(self.check(data), share, seed)
        total = float(held.sum())
        if total == 0.0:
            raise ValueError("data has no word left to predict; give more documents or a smaller share")
        return float(np.exp(-self.log_predictive(q, observed, held) / total))

    def top_words(self, q: Product, count: int = 10) -> np.ndarray:
        """The columns (K, ``count``) of the most probable words of each topic under ``q``."""
        order = np.argsort(-q["topics"].mean, axis=1)
        return np.asarray(order[:, : require_integer("count", count, 1)])


_NO_CONCENTRATION = (
    "at a point estimate, where a learnt word_concentration has no maximum; give it as a number of at least "
    "1, or family 'full'"
)


def _log_topics(q: Product) -> np.ndarray:
    """E[ln beta], (K, V); -1e30 in the place of -infinity, which is multiplied by a count of 0."""
    topics: Dirichlet | PointMass = q["topics"]
    return np.asarray(np.maximum(topics.expected_statistics[0], -1e30))
