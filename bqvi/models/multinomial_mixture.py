"""Bayesian mixture of K multinomials over counts (notes on stochastic variational inference).

    pi ~ Dir(alpha_0),   beta_k ~ Dir(gamma_0),   z_n ~ Cat(pi),   x_n | z_n = k ~ Mult(beta_k)

    rho_nk = E[ln pi_k] + sum_w x_nw E[ln beta_kw],   ln h(x_n) = ln of the multinomial coefficient.

What the data add to the natural parameters: N_k to alpha_k, sum_n r_nk x_nw to gamma_kw. (The notes
write the parameters less one.) Batch VI is `cavi`, their stochastic algorithm is `sngd`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import scipy.sparse
import scipy.special

from bqvi.arrays import transpose
from bqvi.checks import positive_vector, require_columns, require_finite, require_integer
from bqvi.families import Dirichlet, Product
from bqvi.models.conjugate import LocalStep, LocalTerms
from bqvi.models.data import Data, as_numbers, is_sparse, n_rows, take
from bqvi.models.mixture import Affine, mixture_pass, responsibilities
from bqvi.models.mixture_terms import MixtureLimits, mixture_terms
from bqvi.models.starts import sample_rows, starting_centres
from gp.arrays import Array, is_torch, to_numpy


class MultinomialMixture:
    """Mixture of multinomials; data are counts (N, V), dense or SciPy CSR.

    Parameters
    ----------
    n_components : K >= 1
    n_words : V >= 1, size of the vocabulary
    concentration : alpha_0 > 0, a number or (K,); default 1 / K
    word_concentration : gamma_0 > 0, a number or (V,); default 0.1

    Raises
    ------
    ValueError
        Naming the argument, what was given and what is allowed.
    """

    def __init__(
        self,
        n_components: int,
        n_words: int,
        *,
        concentration: float | np.ndarray | None = None,
        word_concentration: float | np.ndarray = 0.1,
    ) -> None:
        self.n_components = require_integer("n_components", n_components, 1)
        self.n_words = require_integer("n_words", n_words, 1)
        alpha = 1.0 / self.n_components if concentration is None else concentration
        self.concentration = positive_vector("concentration", alpha, self.n_components)
        self.word_concentration = positive_vector("word_concentration", word_concentration, self.n_words)

    @cached_property
    def prior(self) -> Product:
        """Dir(alpha_0) prod_k Dir(gamma_0)."""
        words = np.tile(self.word_concentration, (self.n_components, 1))
        return Product({"weights": Dirichlet(self.concentration), "words": Dirichlet(words)})

    def check(self, data: Data) -> Data:
        """(N, V) counts: finite and nonnegative (need not be integers); other sparse forms become CSR."""
        x: Data = scipy.sparse.csr_array(data) if is_sparse(data) else as_numbers("data", data)
        require_columns("data", x, self.n_words)
        require_finite("data", x)
        smallest = x.min()
        if smallest < 0.0:
            raise ValueError(f"data has a count of {smallest:g}; counts must be nonnegative")
        return x

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """q centred on the smoothed word frequencies of K documents."""
        sampled = take(data, sample_rows(n_rows(data), rng))
        counts = to_numpy(sampled.toarray() if is_sparse(sampled) else sampled).astype(float)
        smoothed = counts + self.word_concentration / self.n_words
        frequencies = smoothed / smoothed.sum(1, keepdims=True)
        centres = starting_centres(frequencies, self.n_components, how, rng)
        words = n_rows(data) / len(counts) * counts.sum() / self.n_components
        share = n_rows(data) / self.n_components
        return Product(
            {
                "weights": Dirichlet(self.concentration + share),
                "words": Dirichlet(self.word_concentration + words * centres),
            }
        )

    def local_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        """Responsibilities of ``rows`` (S, V) and their statistics."""
        sums = mixture_pass(rows, self.expected_affine(q), weights)
        return LocalStep((sums.counts, sums.sums), sums.log_normaliser)

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: square roots of counts, whose noise is alike everywhere."""
        counts = to_numpy(data.toarray() if is_sparse(data) else data)
        return np.asarray(np.sqrt(counts.astype(float)))

    def local_terms(self, q: Product, rows: Data) -> LocalTerms:
        """(r_nk, r_nk x_n) of each row, (S, K + K V), and logsumexp_k rho_nk."""
        x = to_numpy(rows.toarray() if is_sparse(rows) else rows).astype(float, copy=False)
        return mixture_terms(x, self.expected_affine(q), np.zeros(self.n_words))

    def term_limits(self, data: Data) -> MixtureLimits:
        """N, and the range of each word's counts."""
        return MixtureLimits.of(data, np.zeros(self.n_words))

    def local_total(self, total: np.ndarray, bound: float, limits: MixtureLimits) -> LocalStep:
        """The local step whose terms sum to ``total`` (P,), or the nearest that data can give."""
        counts, sums = limits.feasible(total, self.n_components)
        return LocalStep((counts, sums), bound)

    def responsibilities(self, q: Product, data: Data) -> np.ndarray:
        """r, (N, K)."""
        return responsibilities(data if is_sparse(data) else to_numpy(data), self.expected_affine(q))

    def log_base_measure(self, data: Data) -> float:
        """sum_n of the log multinomial coefficients."""
        counts = data.data if is_sparse(data) else to_numpy(data)
        totals = to_numpy(data.sum(1))
        each = scipy.special.gammaln(counts + 1.0).sum()
        return float(scipy.special.gammaln(totals + 1.0).sum() - each)

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | pi, beta), nats; theta = {'weights': pi (K,), 'words': beta (K, V)}.

        A word of probability zero counts as 1e-300 of one: finite, and still impossible enough.
        """
        tiny = 1e-300
        log_weights = np.log(np.maximum(theta["weights"], tiny))
        affine = Affine(np.log(np.maximum(theta["words"], tiny)), log_weights)
        return mixture_pass(data, affine).log_normaliser + self.log_base_measure(data)

    def component_log_joint(self, theta: Mapping[str, Array], rows: Array) -> Array:
        """ln p(x_n, z_n = k | theta) - ln h(x_n) for draws of theta: (L, S, K).

        theta = {'weights': ln pi (L, K), 'words': ln beta (L, K, V)}.
        """
        counts = rows.to(theta["words"].dtype) if is_torch(rows) else rows
        return counts @ transpose(theta["words"]) + theta["weights"][:, None, :]

    def expected_affine(self, q: Product) -> Affine:
        """rho_nk under q, as a function of x_n."""
        # at a point mass with a flat prior an unseen word has ln beta = -inf, and 0 of it must count 0
        log_words = np.maximum(q["words"].expected_statistics[0], -1e30)
        return Affine(log_words, q["weights"].expected_statistics[0])
