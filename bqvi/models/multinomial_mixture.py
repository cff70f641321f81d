"""Multinomial components over counts, and their mixture (notes on stochastic variational inference).

    pi ~ Dir(alpha_0),   beta_k ~ Dir(gamma_0),   z_n ~ Cat(pi),   x_n | z_n = k ~ Mult(beta_k)

ln h(x_n) is the logarithm of the multinomial coefficient. The notes' stochastic algorithm is `sngd`; they
write the parameters less one.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse

from bqvi.arrays import Values
from bqvi.families import Dirichlet
from bqvi.models.component_mixture import Mixture
from bqvi.models.components import Components, Start, sample, starting_centres
from bqvi.models.data import Data, as_numbers, as_table, is_sparse, require_counts
from bqvi.models.document_step import log_multinomial_coefficients
from bqvi.models.mixing import DirichletWeights
from bqvi.models.mixture import AffineLogJoint
from gp.arrays import Array, is_torch, to_numpy
from gp.checks import positive_vector, require_finite, require_integer, require_shape

_TINY = 1e-300
"""Rates below this count as this: their logarithm has to be a number."""


class Multinomial(Components):
    """Mult(beta_k) with a Dirichlet prior; data are counts (N, V), dense or SciPy CSR.

    Parameters
    ----------
    n_words : V >= 1, size of the vocabulary
    concentration : gamma_0 > 0, a number or (V,); default 0.1
    """

    name = "words"

    def __init__(self, n_words: int, concentration: float | np.ndarray = 0.1) -> None:
        self.n_words = require_integer("n_words", n_words, 1)
        self.concentration = positive_vector("word_concentration", concentration, self.n_words)

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        return self

    def check(self, data: Data) -> Data:
        """(N, V) counts: finite and nonnegative (need not be integers); other sparse forms become CSR."""
        x: Data = scipy.sparse.csr_array(data) if is_sparse(data) else as_numbers("data", data)
        require_shape("data", x, ("N", self.n_words))
        require_finite("data", x)
        require_counts(x if is_sparse(x) else to_numpy(x), fractional=True)
        return x

    def prior(self, n_components: int) -> Dirichlet:
        """prod_k Dir(gamma_0), k = 1 to ``n_components``."""
        return Dirichlet(np.tile(self.concentration, (n_components, 1)))

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(self.n_words)

    def expectations_at(self, theta: Array, n_components: int) -> Values:
        """ln beta, ``theta`` itself."""
        return (theta,)

    def affine(
        self, expected: Values, log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        # at a point mass with a flat prior an unseen word has ln beta = -inf, and a count of 0 times it is 0
        logs = expected[0] if is_torch(expected[0]) else np.maximum(expected[0], -1e30)
        return AffineLogJoint(logs, log_weights)

    def statistics(
        self, counts: np.ndarray, sums: np.ndarray, expected: Any = None, shown: np.ndarray | None = None
    ) -> Values:
        return (sums,)

    def log_base_measure(self, data: Data) -> np.ndarray:
        counts = data if is_sparse(data) else scipy.sparse.csr_array(as_table(data))
        return log_multinomial_coefficients(counts)

    def representation(self, data: Data) -> np.ndarray:
        return np.asarray(np.sqrt(as_table(data)))

    def start(self, data: Data, n_components: int, begin: Start) -> Dirichlet:
        """A start at the smoothed word frequencies of ``n_components`` documents."""
        sampled, part, total = sample(data, begin)
        counts = as_table(sampled)
        smoothed = counts + self.concentration / self.n_words
        frequencies = smoothed / smoothed.sum(1, keepdims=True)
        centres = starting_centres(frequencies, n_components, begin.how, begin.rng, part)
        words = total * np.average(counts.sum(1), weights=part) / n_components
        return Dirichlet(self.concentration + words * centres)


class MultinomialMixture(Mixture):
    """Mixture of multinomials; data are counts (N, V), dense or SciPy CSR.

    Parameters
    ----------
    n_components : K >= 1
    n_words : V >= 1, size of the vocabulary
    concentration : alpha_0 > 0, a number or (K,); default 1 / K
    word_concentration : gamma_0 > 0, a number or (V,); default 0.1
    """

    def __init__(
        self,
        n_components: int,
        n_words: int,
        *,
        concentration: float | np.ndarray | None = None,
        word_concentration: float | np.ndarray = 0.1,
    ) -> None:
        mixing = DirichletWeights(n_components, concentration)
        words = Multinomial(n_words, word_concentration)
        super().__init__(mixing, words)
        self.n_words, self.concentration, self.word_concentration = (
            words.n_words,
            mixing.concentration,
            words.concentration,
        )
