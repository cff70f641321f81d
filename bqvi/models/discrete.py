"""Two alternatives to the analytic E step for the discrete z of a mixture.

In a mixture model q(z) is optimal given q(theta). The two classes here convert the mixture into a
`LogJointModel` whose theta is structured:

    Marginal(mixture)   z summed out: ln p(x_n | theta) = logsumexp_k ln p(x_n, z_n = k | theta). A tighter
                        bound, since q(z | theta) is then exact; draws of theta cost per datum.
    Relaxed(mixture)    q(z) has parameters of its own, r_nk, learnt through Gumbel-softmax draws
                        (thesis Section 5.3.3, Eqs 5.27 to 5.29). Biased at temperature > 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from bqvi.arrays import Values
from bqvi.checks import require_above
from bqvi.families import Categorical, Product
from bqvi.models.conjugate import ConjugateModel
from bqvi.models.data import Data, is_sparse, n_rows
from bqvi.models.mixing import Mixing
from bqvi.models.mixture import AffineLogJoint
from gp.arrays import Array, to_numpy


class SummableMixture(ConjugateModel, Protocol):
    """The part of a mixture that the two classes use."""

    @property
    def prior(self) -> Product:
        """p(theta)."""

    @property
    def mixing(self) -> Mixing:
        """The prior of the weights."""

    def component_log_joint(self, theta: Mapping[str, Array], rows: Array) -> Array:
        """ln p(x_n, z_n = k | theta) - ln h(x_n), (L, S, K)."""

    def responsibilities(self, q: Product, data: Data) -> np.ndarray:
        """r, (N, K)."""

    def expected_affine(self, q: Product) -> AffineLogJoint:
        """rho_nk under q."""


class Marginal:
    """The mixture with z summed out.

    Parameters
    ----------
    mixture : a mixture model; one of a Dirichlet process must have a truncated tail

    Raises
    ------
    ValueError, TypeError
        The tail is tied, or ``mixture`` is no mixture.
    """

    def __init__(self, mixture: SummableMixture) -> None:
        _require_draws(mixture)
        self.mixture = mixture

    def check(self, data: Data) -> Data:
        """As the mixture, and as a torch tensor."""
        return _as_tensor(self.mixture.check(data))

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """The mixture's starting q(theta)."""
        return self.mixture.initial(to_numpy(data), how, rng)

    def log_prior(self, theta: Mapping[str, Array]) -> Array:
        """ln p(theta), (L,)."""
        return _prior_like(self.mixture, theta).log_prob(theta)

    def log_likelihood_terms(self, theta: Mapping[str, Array], rows: Data) -> Array:
        """ln p(x_n | theta) - ln h(x_n), (L, S)."""
        return self.mixture.component_log_joint(theta, rows).logsumexp(-1)

    def log_base_measure(self, data: Data) -> float:
        """sum_n ln h(x_n)."""
        return self.mixture.log_base_measure(to_numpy(data))


class Relaxed:
    """The mixture with explicit responsibilities, learnt by Gumbel-softmax; full batch only.

    Parameters
    ----------
    mixture, and errors : as of `Marginal`
    temperature : of the relaxation, > 0; lower is less biased and noisier
    """

    full_batch = True
    """Whether mini-batches are supported: they are not, as q(z) has parameters for each datum."""

    def __init__(self, mixture: SummableMixture, temperature: float = 0.5) -> None:
        _require_draws(mixture)
        require_above("temperature", temperature, 0.0)
        self.mixture = mixture
        self.temperature = temperature

    def check(self, data: Data) -> Data:
        """As the mixture, and as a torch tensor."""
        return _as_tensor(self.mixture.check(data))

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """The mixture's starting q(theta), and q(z) optimal under it."""
        host = to_numpy(data)
        start = self.mixture.initial(host, how, rng)
        r = self.mixture.responsibilities(start, host)
        logits = np.log(np.maximum(r, 1e-12))
        return Product({**start.factors, "assignments": Categorical(logits, self.temperature)})

    def log_prior(self, theta: Mapping[str, Array]) -> Array:
        """ln p(theta), (L,)."""
        return _prior_like(self.mixture, theta).log_prob(theta)

    def log_likelihood_terms(self, theta: Mapping[str, Array], rows: Data) -> Array:
        """sum_k z_nk (ln p(x_n, z_n = k | theta) - ln h(x_n)), (L, N)."""
        assignments = theta["assignments"]
        if assignments.shape[1] != n_rows(rows):
            raise ValueError(
                f"a mini-batch of {n_rows(rows)} data was given to a model with one assignment for each "
                f"of {assignments.shape[1]}; Relaxed works on all the data: leave minibatch out"
            )
        return (assignments * self.mixture.component_log_joint(theta, rows)).sum(-1)

    def log_base_measure(self, data: Data) -> float:
        """sum_n ln h(x_n)."""
        return self.mixture.log_base_measure(to_numpy(data))

    def elbo(self, q: Product, data: Data) -> float:
        """The exact ELBO of q(theta) q(z) for ``data``, not relaxed, nats."""
        host = to_numpy(data)
        rho = self.mixture.expected_affine(q).rho(host)
        assignments = q["assignments"]
        expected = float((to_numpy(assignments.probabilities) * rho).sum())
        parameters = Product({k: v for k, v in q.factors.items() if k != "assignments"})
        entropy = float(assignments.entropy.sum())
        prior_gap = float(parameters.kl(self.mixture.prior))
        return expected + entropy - prior_gap + self.mixture.log_base_measure(host)


def _require_draws(mixture: SummableMixture) -> None:
    """Raise an error unless all components of ``mixture`` have draws, which those of a tied tail do not."""
    if not hasattr(mixture, "mixing"):
        raise TypeError(f"mixture is a {type(mixture).__name__}; it must be a mixture of bqvi.models")
    if mixture.mixing.tied:
        raise ValueError("mixture has tail='tied', whose components have no draws; use tail='truncated'")


def _as_tensor(data: Data) -> Data:
    import torch

    if is_sparse(data):
        raise TypeError("data is sparse, which torch has no products for here; give data.toarray()")
    return data if isinstance(data, torch.Tensor) else torch.tensor(np.asarray(data, float))


def _prior_like(mixture: SummableMixture, theta: Mapping[str, Array]) -> Any:
    """The prior in the kind of arrays that theta has."""
    like = next(iter(theta.values()))
    natural: Values = tuple(like.new_tensor(e) for e in mixture.prior.natural)
    return mixture.prior.from_natural(natural)
