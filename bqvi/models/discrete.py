"""A mixture with its discrete z summed out, as a `LogJointModel` of a structured theta.

    ln p(x_n | theta) = logsumexp_k ln p(x_n, z_n = k | theta)

The bound is tighter than with an analytic E step, since q(z | theta) is exact; draws of theta cost per datum.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bqvi.families import Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.data import Data, is_sparse
from gp.arrays import Array, to_numpy


class Marginal:
    """The mixture with z summed out.

    Parameters
    ----------
    mixture : a mixture model; one of a Dirichlet process must have a truncated tail
    """

    def __init__(self, mixture: Mixture) -> None:
        if not hasattr(mixture, "mixing"):
            raise TypeError(f"mixture is a {type(mixture).__name__}; it must be a mixture of bqvi.models")
        if mixture.mixing.tied:
            raise ValueError("mixture has tail='tied', whose components have no draws; use tail='truncated'")
        self.mixture = mixture

    def check(self, data: Data) -> Data:
        """As the mixture, and as a torch tensor."""
        import torch

        data = self.mixture.check(data)
        if is_sparse(data):
            raise TypeError("data is sparse, which torch has no products for here; give data.toarray()")
        return data if isinstance(data, torch.Tensor) else torch.tensor(np.asarray(data, float))

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """The mixture's starting q(theta)."""
        return self.mixture.initial(to_numpy(data), how, rng)

    def log_prior(self, theta: Mapping[str, Array]) -> Array:
        """ln p(theta), (L,)."""
        like = next(iter(theta.values()))
        prior = self.mixture.prior
        return prior.from_natural(tuple(like.new_tensor(eta) for eta in prior.natural)).log_prob(theta)

    def log_likelihood_terms(self, theta: Mapping[str, Array], rows: Data) -> Array:
        """ln p(x_n | theta) - ln h(x_n), (L, S)."""
        return self.mixture.component_log_joint(theta, rows).logsumexp(-1)

    def log_base_measure(self, data: Data) -> float:
        """sum_n ln h(x_n)."""
        return self.mixture.log_base_measure(to_numpy(data))
