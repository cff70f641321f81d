"""Bayesian mixture of K multinomials over counts (notes on stochastic variational inference).

    pi ~ Dir(alpha_0),   beta_k ~ Dir(gamma_0),   z_n ~ Cat(pi),   x_n | z_n = k ~ Mult(beta_k)

Batch VI is `cavi`, the notes' stochastic algorithm is `sngd`. (The notes write the parameters less one.)
"""

from __future__ import annotations

import numpy as np

from bqvi.models.component_mixture import Mixture
from bqvi.models.count_components import Multinomial
from bqvi.models.mixing import DirichletWeights


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
