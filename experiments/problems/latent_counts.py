"""Counts whose logarithmic rate is a Gaussian process, D = 13, simulated.

    k_i ~ Poisson(exp(f(x_i))),   f ~ GP(0, alpha^2 exp(-(x - x')^2 / (2 rho^2))),   x_i = -10, -8, ..., 10,

with alpha half normal, sd 2, and rho ~ Gamma(25, rate 4), as in the model of Poisson counts in the
collection of reference posteriors of Magnusson et al. (posteriordb). f = L z with the Cholesky
factor of the covariance at the eleven places, and theta = (ln alpha, ln rho, z). The plausible box is that
of the prior: two sds of each z, alpha from .3 to 4 and rho from 4 to 9.

Evidence, moments and draws are those of a grid of (ln alpha, ln rho). Given these, z has a log-concave
posterior: Laplace's approximation with the same quasi-random normal points at each node, weighed.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from scipy.special import gammaln, logsumexp

from experiments.problems.known_posteriors import Problem, unbounded
from experiments.problems.torch_posteriors import TensorPosterior
from gp.low_discrepancy import normal_sobol

__all__ = [
    "DRAWS", "RATE", "SD", "SHAPE", "counts", "factor", "given_hyperparameters", "latent_counts",
    "log_hyperprior", "model",
]  # fmt: skip

_Array = np.ndarray

_PLACES = np.arange(-10.0, 11.0, 2.0)
SHAPE, RATE, SD = 25.0, 4.0, 2.0
"""Of the priors of rho and alpha."""
_JITTER = 1e-8
"""Of the variance of f, relative."""
_CORNERS = np.array([-2.5, math.log(2.2)]), np.array([2.2, math.log(16.0)])
_NODES = 40, 36
"""The grid's corners and nodes. With half of the spacing the log evidence differs by .0002 nats."""
DRAWS = 256
"""Points of z at each node; with 4,096 the log evidence differs by .003 nats."""
_NEWTON = 30
_LOG_2PI = math.log(2.0 * math.pi)
_SIMULATED = math.log(2.5), math.log(5.5)
"""ln alpha and ln rho."""


def factor(log_rho: torch.Tensor) -> torch.Tensor:
    """The Cholesky factors (L, 11, 11) of the correlations of f with ln rho (L,)."""
    x = torch.tensor(_PLACES)
    apart = (x[:, None] - x) ** 2
    correlation = torch.exp(-0.5 * apart * (-2.0 * log_rho).exp()[:, None, None])
    return torch.linalg.cholesky(correlation + _JITTER * torch.eye(len(x), dtype=x.dtype))


def log_hyperprior(log_alpha: torch.Tensor, log_rho: torch.Tensor) -> torch.Tensor:
    """The log prior density (L,) of ln alpha and ln rho, (L,) each."""
    alpha, rho = log_alpha.exp(), log_rho.exp()
    of_alpha = math.log(2.0) - 0.5 * (alpha / SD) ** 2 - math.log(SD) - 0.5 * _LOG_2PI + log_alpha
    constant = SHAPE * math.log(RATE) - float(gammaln(SHAPE))
    return of_alpha + constant + SHAPE * log_rho - RATE * rho


@cache
def counts() -> _Array:
    """The counts (11,), with the parameters with which they were drawn."""
    rng = np.random.default_rng(0)
    log_alpha, log_rho = _SIMULATED
    f = np.exp(log_alpha) * factor(torch.tensor([log_rho]))[0].numpy() @ rng.standard_normal(11)
    return rng.poisson(np.exp(f))


@cache
def model() -> TensorPosterior:
    """The posterior given the counts."""
    k = torch.tensor(counts(), dtype=torch.float64)
    constant = float(gammaln(counts() + 1.0).sum()) + 5.5 * _LOG_2PI

    def log_joint(theta: torch.Tensor) -> torch.Tensor:
        log_alpha, log_rho, z = theta[:, 0], theta[:, 1], theta[:, 2:]
        f = log_alpha.exp()[:, None] * (factor(log_rho) @ z[:, :, None])[:, :, 0]
        seen = (k * f - f.exp()).sum(1)
        return log_hyperprior(log_alpha, log_rho) + seen - 0.5 * (z * z).sum(1) - constant

    return TensorPosterior(np.array([*_SIMULATED, *np.zeros(11)]), log_joint)


def given_hyperparameters(log_alpha: _Array, log_rho: _Array) -> tuple[_Array, _Array]:
    """Points z and their log weights, whose mean is p(counts | alpha, rho).

    Parameters
    ----------
    log_alpha, log_rho : (m,) each.

    Returns
    -------
    points : (m, DRAWS, 11). log_weights : (m, DRAWS).
    """
    k = counts()
    scale = np.exp(log_alpha)[:, None, None] * factor(torch.tensor(log_rho)).numpy()
    # Newton's method on concave functions; steps of at most one keep the rates from exploding
    z = np.zeros((len(scale), 11))
    for _ in range(_NEWTON):
        rate = np.exp(np.einsum("mij,mj->mi", scale, z))
        precision = np.einsum("mji,mj,mjk->mik", scale, rate, scale) + np.eye(11)
        slope = np.einsum("mji,mj->mi", scale, k - rate) - z
        step = np.linalg.solve(precision, slope[:, :, None])[:, :, 0]
        z = z + step / np.maximum(1.0, np.linalg.norm(step, axis=1, keepdims=True))
    spread = np.linalg.cholesky(np.linalg.inv(precision))
    noise = normal_sobol(11, DRAWS, 0)
    points = z[:, None] + noise @ spread.transpose(0, 2, 1)
    f = points @ scale.transpose(0, 2, 1)
    log_joint = (k * f - np.exp(f) - gammaln(k + 1.0)).sum(2) - 0.5 * np.square(points).sum(2)
    log_det = np.log(np.diagonal(spread, axis1=1, axis2=2)).sum(1)
    return points, log_joint + 0.5 * np.square(noise).sum(1) + log_det[:, None]


@cache
def latent_counts() -> Problem:
    """The posterior of the simulated counts."""
    axes = [np.linspace(low, high, n) for low, high, n in zip(*_CORNERS, _NODES, strict=True)]
    pairs = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    points, log_weights = given_hyperparameters(*pairs.T)
    prior = log_hyperprior(torch.tensor(pairs[:, 0]), torch.tensor(pairs[:, 1])).numpy()
    logs = (prior[:, None] + log_weights).ravel() - math.log(DRAWS)
    step = np.array([axis[1] - axis[0] for axis in axes])
    total = float(logsumexp(logs))
    table = np.concatenate([np.repeat(pairs, DRAWS, axis=0), points.reshape(-1, 11)], axis=1)
    share = np.exp(logs - total)
    mean = share @ table
    centred = table - mean
    covariance = (centred.T * share) @ centred
    covariance[:2, :2] += np.diag(step**2) / 12.0  # of a cell

    def sample(n: int, rng: np.random.Generator) -> _Array:
        found = table[rng.choice(len(table), n, p=share / share.sum())]
        found[:, :2] += step * (rng.random((n, 2)) - 0.5)
        return found

    lower = np.array([math.log(0.3), math.log(4.0), *[-2.0] * 11])
    upper = np.array([math.log(4.0), math.log(9.0), *[2.0] * 11])
    posterior = model()
    return Problem(
        "latent counts 13", posterior.log_density, posterior.gradient, *unbounded(13), lower, upper,
        total + float(np.log(step).sum()), mean, covariance, sample,
    )  # fmt: skip
