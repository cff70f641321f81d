"""The importance-weighted bound for q a mixture of Gaussians, stratified, and its two pathwise gradients.

With T draws z_kt in *every* component, so that the weights w_k keep a path (Morningstar, Vikram, Ham,
Gallagher and Dillon 2021, "Automatic differentiation variational inference with mixtures"),

    L_T = E[ln S],    S = sum_k (w_k / T) sum_t R(z_kt),    R = p(X, z) / q(z),    ELBO <= L_T <= ln p(X),

as E[S] = p(X); for K = 1 it is IWAE's. With normalised weights v_kt, the terms of S over S:

    IWAE   sum_kt v_kt d ln (w_k R(z_kt)) / du, through the paths, the weights and q's parameters in R

    DReG   the score in it, sum_kt v_kt d ln q(z_kt)/du, is of the whole q and not of the component k that
           was drawn, so it cannot be reparameterised where it stands. But with the responsibilities
           r_j = w_j N_j / q we have N_k r_j = (w_j / w_k) N_j r_k: the score of component j, met at a draw of
           component k, is that at a draw of j itself, put into the place of z_kt,

               E sum_kt v_kt r_j(z_kt) d ln N_j(z_kt)/du  =  E sum_kt (w_j / T) h_kt(z') d ln N_j(z')/du,
               h_kt(z') = R(z') r_k(z') / ((w_k / T) R(z') + S less the term of z_kt),      z' ~ N_j,

           which has a path: (w_j / T) sum_kt dh_kt/dz' dz'/du takes its place (as Tucker et al. 2018 for one
           Gaussian). z' has to be independent of the other draws, so each component has one more, T + 1 in
           all; each is z' in turn and the estimates are averaged. What remains are the scores of the weights,
           sum_t v_jt - sum_kt v_kt r_j(z_kt) for ln w_j. Where q is the posterior, R is constant and
           sum_k r_k = 1: paths cancel, and means and covariances have no variance left.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import torch

from bqvi.arrays import Values
from bqvi.families import GaussianMixture
from bqvi.gradients.black_box import TorchPosterior, differentiable, log_joint_function, of_bound
from bqvi.gradients.draws import of_left_out
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.stratified import require_still
from bqvi.models.log_joint import LogJointModel
from gp.arrays import to_numpy

_ALL = 1.0 - 1e-15
"""The largest normalised weight; larger ones are replaced by it."""


def stratified_iwae(
    model: LogJointModel,
    posterior: TorchPosterior,
    batch: Batch,
    rng: np.random.Generator,
    samples: int,
    errors: bool,
) -> Gradient:
    """d L_T / du at a mixture q; evaluations are those of all components.

    Raises
    ------
    TypeError
        The log joint changes with q.
    """
    q: GaussianMixture = posterior.q
    theta, log_joint = _drawn(model, q, batch, rng, samples)
    log_ratios = log_joint - q.log_prob(theta)
    terms = q.log_weights + log_ratios - log(samples)
    bound = torch.logsumexp(terms.flatten(), 0)
    found = _left_out(posterior, terms) if errors else None
    elbo = log_ratios.mean(0) @ q.weights
    return of_bound(posterior.gradient(bound), found, bound, elbo, model, batch, terms.numel())


def stratified_dreg(
    model: LogJointModel,
    posterior: TorchPosterior,
    batch: Batch,
    rng: np.random.Generator,
    samples: int,
    errors: bool,
) -> Gradient:
    """The doubly reparameterised d L_T / du at a mixture q, from one more draw in each component."""
    theta, log_joint = _drawn(model, posterior.q, batch, rng, samples + 1)
    held: GaussianMixture = posterior.stopped
    # (T + 1, K, K); the last is log q
    parts = held.log_weights + held.components.log_prob(theta[..., None, :])
    log_q = torch.logsumexp(parts, -1)
    draws = _ComponentDraws(
        log_joint - log_q, parts - log_q[..., None], held.log_weights, posterior.q.log_weights
    )
    whole = torch.arange(samples + 1)
    objective, bound = draws.averaged(whole[None])
    found = None
    if errors:
        found = of_left_out(posterior.each(draws.averaged(_without_each(whole[None])[0])[0]))
    values = posterior.gradient(objective.sum())
    elbo = draws.log_ratios.mean(0) @ held.weights
    return of_bound(values, found, bound, elbo, model, batch, theta.shape[0] * theta.shape[1])


@dataclass(frozen=True, eq=False)
class _ComponentDraws:
    """n draws in each component, log ratios and responsibilities; differentiable through the draws only."""

    log_ratios: torch.Tensor
    """ln R(z_kt), (n, K)."""
    log_shares: torch.Tensor
    """ln r_j(z_kt), (n, K, K)."""
    log_weights: torch.Tensor
    """ln w, held, (K,)."""
    moving: torch.Tensor
    """ln w with its path."""

    def averaged(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Objectives whose gradients are DReG's with draws ``rows`` (B, n), (B,), and the mean of ln S."""
        others = _without_each(rows)  # (B, n, T), in which z' is left out
        heights = self.log_weights - log(others.shape[-1])
        ratios = self.log_ratios[others]  # (B, n, T, K)
        log_terms = (heights + ratios).detach()
        total = torch.logsumexp(log_terms.flatten(-2), -1)
        v = torch.exp(log_terms - total[..., None, None])
        shares = self.log_shares.detach().exp()[others]
        scores = v.sum(-2) - torch.einsum("...tk,...tkj->...j", v, shares)
        rest = total[..., None, None] + torch.log1p(-v.clamp(max=_ALL))  # ln of S less a term
        placed = self.log_ratios[rows][..., None, None]  # [..., j, t, k]
        own = self.log_shares[rows][..., None, :]
        log_h = placed + own - torch.logaddexp(heights + placed, rest[..., None, :, :])
        swapped = torch.exp(log_h).sum((-2, -1)) @ self.log_weights.exp() / others.shape[-1]
        found = (v * ratios).sum((-2, -1)) - swapped + scores @ self.moving
        return found.mean(-1), total.mean()


def _without_each(rows: torch.Tensor) -> torch.Tensor:
    """(..., n) rows without each of them in turn, (..., n, n - 1)."""
    n = rows.shape[-1]
    kept = torch.arange(n - 1)[None] + (torch.arange(n - 1)[None] >= torch.arange(n)[:, None])
    return rows[..., kept]


def _drawn(
    model: LogJointModel, q: GaussianMixture, batch: Batch, rng: np.random.Generator, samples: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws (n, K, D), and the log joint there (n, K)."""
    require_still(model)
    theta = q.strata(rng.standard_normal((samples, *q.means.shape)))
    log_joint = log_joint_function(model, q, batch)
    return theta, differentiable(log_joint(theta.reshape(-1, q.dimension))).reshape(theta.shape[:2])


def _left_out(posterior: TorchPosterior, terms: torch.Tensor) -> Values:
    """Jackknife errors: without the t-th draw of every component, with weights normalised anew."""
    v = to_numpy(torch.softmax(terms.detach().flatten(), 0)).astype(float, copy=False).reshape(terms.shape)
    others = np.maximum(1.0 - v.sum(1), 1e-300)  # zero where the draws have all the weight
    found = []
    for slopes in posterior.each(terms.flatten()):
        each = np.einsum("tk,tk...->t...", v, slopes.reshape(*terms.shape, *slopes.shape[1:]))
        found.append((each.sum(0) - each) / others.reshape(-1, *[1] * (each.ndim - 1)))
    return of_left_out(tuple(found))
