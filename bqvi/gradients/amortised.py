"""Gradients for a model whose local posteriors are a network's output: pathwise, score, IWAE and DReG.

With z ~ q(z_n), L draws for each datum, and ln w = ln p(x_n | z) + beta (ln p(z) - ln q(z)),

    pathwise   E[ln p(x_n | z)] - beta KL(q(z_n) || p(z)), the divergence in closed form ('analytic'); or
               E[ln w] through the path and q ('sampled'), or the path only ('sticking-the-landing')
    score      (r_l - b_l) d ln q(z_l) / d omega for the encoder, r the part of ln w that is sampled and b the
               mean of the other draws of the same datum; the decoder's gradient needs no score
    IWAE       ln (1/L) sum_l w_l
    DReG       the same bound. Its direct derivative in omega is a score, which is reparameterised once more
               (Tucker et al. 2019): with v the normalised weights the path of draw l then counts
               v_l (1 - beta (1 - v_l)), v_l^2 for beta = 1. The decoder's gradient is IWAE's

Each is a sum over data of terms that a mini-batch weights; KL(q(theta) || p(theta)) is subtracted from the
sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bqvi.arrays import Values
from bqvi.calls.draws import called, require_finite_terms
from bqvi.families import DiagonalGaussian, Product
from bqvi.gradients.black_box import by_strategy, cost, spending, torch_posterior
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.models.contracts import AmortisedModel
from bqvi.models.data import Data
from gp.arrays import LOG_2PI, to_numpy

_ROWS = 512
"""The number of data that are evaluated at once for a record."""


class Terms(NamedTuple):
    """One number for each datum of a mini-batch, (S,) each."""

    objective: Tensor
    """The function that is differentiated."""
    bound: Tensor
    """The value of the bound."""
    elbo: Tensor
    """The value of the ELBO, from the same draws."""


@dataclass(frozen=True)
class Local:
    """The local part of a model at a mini-batch."""

    model: AmortisedModel
    parameters: Product
    """The parameters of q, in the graph."""
    rows: Tensor
    samples: int
    rng: np.random.Generator

    @cached_property
    def q(self) -> DiagonalGaussian:
        """q(z_n), a batch of S."""
        found: DiagonalGaussian = called(
            self._title("local_posterior"), str, self.model.local_posterior, self.parameters, self.rows
        )
        return found

    @property
    def stopped(self) -> DiagonalGaussian:
        """The distribution with its parameters held fixed."""
        return self.q.from_unconstrained(tuple(u.detach() for u in self.q.unconstrained))

    def draw(self) -> Tensor:
        """Reparameterised draws of z, (L, S, latent)."""
        return self.q.rsample(self.samples, self.rng)

    def log_likelihood(self, z: Tensor) -> Tensor:
        """ln p(x_n | z_ln), (L, S)."""
        model = self.model
        values: Tensor = called(
            self._title("conditional_terms"),
            str,
            model.conditional_terms,
            self.parameters,
            z,
            self.rows,
            self.rng,
        )
        return values

    def _title(self, name: str) -> str:
        """The name by which messages call a method of the model."""
        return f"{name} of the {type(self.model).__name__}"

    def log_ratio(self, z: Tensor, q: DiagonalGaussian) -> Tensor:
        """beta (ln p(z) - ln q(z)), (L, S)."""
        log_prior = -0.5 * (z.square() + LOG_2PI).sum(-1)
        return self.model.beta * (log_prior - q.log_prob(z))

    @cached_property
    def divergence(self) -> Tensor:
        """beta KL(q(z_n) || N(0, I)), (S,)."""
        mean, variance = self.q.mean, self.q.variance
        return 0.5 * self.model.beta * (mean * mean + variance - 1.0 - self.q.log_variance).sum(-1)


LocalBound = Callable[[Local], Terms]


def pathwise_terms(local: Local, entropy: str) -> Terms:
    """Terms of the pathwise estimator, with ``entropy`` as of `Pathwise`."""
    z = local.draw()
    values = local.log_likelihood(z)
    if entropy == "analytic":
        objective = values.mean(0) - local.divergence
    else:
        q = local.q if entropy == "sampled" else local.stopped
        objective = (values + local.log_ratio(z, q)).mean(0)
    return Terms(objective, objective, objective)


def score_terms(local: Local, baseline: bool, entropy: str) -> Terms:
    """Terms of the score function, with the mean of the other draws as a ``baseline``.

    Parameters
    ----------
    local : the model at a mini-batch of S data, with L draws of z for each. baseline : whether the mean of
        the other L - 1 draws of the same datum is subtracted from a reward.
    entropy : 'sampled' or 'analytic'; 'sampled' for ln p(z) - ln q(z) at the draws, otherwise the divergence
        is in closed form.
    """
    z = local.stopped.sample(local.samples, local.rng)
    values = local.log_likelihood(z)
    reward, rest = values.detach(), -local.divergence
    if entropy == "sampled":
        reward, rest = reward + local.log_ratio(z, local.stopped), 0.0 * rest
    n = local.samples
    advantage = (reward - reward.mean(0)) * (n / (n - 1)) if baseline else reward
    objective = (values + advantage * local.q.log_prob(z)).mean(0) + rest
    bound = reward.mean(0) + rest
    return Terms(objective, bound, bound)


def iwae_terms(local: Local) -> Terms:
    """Terms of the importance-weighted bound, differentiated directly (IWAE)."""
    z = local.draw()
    log_weights = local.log_likelihood(z) + local.log_ratio(z, local.q)
    bound = torch.logsumexp(log_weights, 0) - math.log(local.samples)
    return Terms(bound, bound, log_weights.mean(0))


def dreg_terms(local: Local) -> Terms:
    """Terms of the importance-weighted bound, with its score reparameterised (DReG)."""
    z = local.draw()
    log_weights = local.log_likelihood(z) + local.log_ratio(z, local.stopped)
    v = torch.softmax(log_weights.detach(), 0)
    # the hook multiplies the gradients that pass through z; those of the decoder are unchanged
    if z.requires_grad:
        factor = (1.0 - local.model.beta * (1.0 - v))[..., None]
        z.register_hook(lambda slopes: slopes * factor)  # type: ignore[no-untyped-call]
    bound = torch.logsumexp(log_weights.detach(), 0) - math.log(local.samples)
    return Terms((v * log_weights).sum(0), bound, log_weights.mean(0))


def local_gradient(
    model: AmortisedModel,
    q: Product,
    batch: Batch,
    rng: np.random.Generator,
    samples: int,
    bound: LocalBound,
) -> Gradient:
    """The gradient in u of sum_n w_n L_n - KL(q(theta) || p(theta)), with ``bound`` the terms L_n.

    The values of the gradient are tensors on the model's device.

    Parameters
    ----------
    model : a model whose encoder gives q(z | x). q : the distribution of its parameters.
    batch : S rows, their weights (S,), and the account. rng : draws z. samples : L, draws of z for each
        datum.
    bound : a function of the local part that returns the terms, (S,) each.
    """
    posterior = torch_posterior(q, model.reference)
    rows = model.rows(batch.rows)
    with spending(model, batch, range(samples)):
        terms = bound(Local(model, posterior.q, rows, samples, rng))
    require_finite_terms(f"the bound of the {type(model).__name__}", terms.objective)
    rest = -model.global_kl(posterior.q)
    weights = None if batch.weights is None else rows.new_tensor(to_numpy(batch.weights))
    objective = _weighed(terms.objective, weights) + rest
    rows_each = None if batch.combination is None else posterior.each(terms.objective)
    values: Values = posterior.slopes(objective)
    if rows_each is not None:
        values = by_strategy(values, rows_each, batch)
    if terms.bound is terms.objective:
        value = float(objective.detach())
    else:
        value = float(_weighed(terms.bound.detach(), weights) + rest.detach())
    same = terms.elbo is terms.bound
    return Gradient(
        values,
        natural=False,
        n_evaluations=cost(model, batch, samples),
        samples=samples,
        bound=value,
        elbo=value if same else float(_weighed(terms.elbo.detach(), weights) + rest.detach()),
    )


def require_plain(estimator: object, **settings: object) -> None:
    """Raise ValueError where one of an estimator's ``settings`` without an amortised form is set."""
    for name, value in settings.items():
        if value is not None and value is not False:
            raise ValueError(
                f"{type(estimator).__name__} has {name} = {value!r}, which it does not take where an encoder "
                "gives q(z | x); leave it out"
            )


def require_one_theta(model: AmortisedModel, samples: int) -> None:
    """Raise ValueError where the draws of an importance-weighted bound do not share the decoder's weights."""
    if samples > 1 and not model.one_theta:
        raise ValueError(
            f"samples is {samples} for an importance-weighted bound, and weights are drawn anew for each of "
            "them; use WeightPrior(reparameterisation='global')"
        )


@torch.no_grad()
def elbo_draws(model: AmortisedModel, q: Product, data: Data, samples: int, seed: int) -> np.ndarray:
    """Independent estimates (L,) of the ELBO over all ``data``, the divergences in closed form.

    Parameters
    ----------
    model : a model whose encoder gives q(z | x). q : the distribution of its parameters. data : N rows.
    samples : L, draws of z for each datum. seed : of these draws.
    """
    rng = np.random.default_rng(seed)
    total = np.zeros(samples)
    n = len(data[0]) if isinstance(data, tuple) else len(data)
    for start in range(0, n, _ROWS):
        local = Local(model, q, model.rows(data[start : start + _ROWS]), samples, rng)
        total += to_numpy((local.log_likelihood(local.draw()) - local.divergence).sum(1)).astype(float)
    return total - float(model.global_kl(q))


def _weighed(terms: Tensor, weights: Tensor | None) -> Tensor:
    return terms.sum() if weights is None else terms @ weights
