"""What the surrogate says, past q: importance weights, evidence, and how well all of it is known.

    draws u_s of g = (1 - a) q + a q widened,     log w_s = mean(u_s) - log g(u_s)
    log Z = log mean w_s,     P = normalised weights

No evaluation of the log joint is spent. The effective sample size and the shape of the weights' tail
(Vehtari et al. 2024, "Pareto smoothed importance sampling") say whether the draws stand for the surrogate.

What the surrogate does not know moves log Z by E_P[f - mean] to first order: a Gaussian with the variance

    var = P^T C P,     C the posterior covariance of f at the draws,

computed at ``_RESAMPLED`` draws that stand for the rest. The expectation of the density itself is that of a
log-normal, exp(mean + var / 2), and that is what a draw counts with, up to a variance of a nat squared. Beyond
it the surrogate knows nothing, and the draw counts less the more it varies, exp(mean + 1 - var / 2): mass is
not invented where nothing was evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp
from scipy.stats import qmc

from bqvi.quadrature.tails import pareto_shape
from bqvi.vbmc.surrogate import Surrogate
from bqvi.vbmc.variational import Mixture

Vector = np.ndarray

WIDE = 0.25
_WIDENING = 1.7
_RESAMPLED = 256


@dataclass(frozen=True, eq=False)
class Correction:
    """Draws with weights.

    Attributes
    ----------
    u : (M, D), in the frame. half : (N, M), C^-1 k(x, u).
    mean, variance : (M,), of f there. log_proposal : (M,), log g. log_q : (M,).
    log_weights : (M,), of the draws, normalised.
    log_evidence : in the frame's units. sd : of what the surrogate leaves open. monte_carlo_sd : of the draws.
    effective : effective sample size. shape : Pareto k of the weights.
    """

    u: Vector
    half: Vector
    mean: Vector
    variance: Vector
    log_proposal: Vector
    log_q: Vector
    log_weights: Vector
    log_evidence: float
    sd: float
    monte_carlo_sd: float
    effective: float
    shape: float

    @property
    def weights(self) -> Vector:
        """Normalised, (M,)."""
        found: Vector = np.exp(self.log_weights)
        return found


def proposal(q: Mixture, count: int, seed: int) -> tuple[Vector, Vector, Vector]:
    """Draws (M, D) of g, log g and log q there."""
    sobol = qmc.Sobol(q.means.shape[1] + 1, scramble=True, rng=np.random.default_rng(seed))
    cube = sobol.random_base2(int(np.ceil(np.log2(count))))[:count]
    wide = q.widened(_WIDENING)
    outside = cube[:, 0] < WIDE
    cube[:, 0] = np.where(outside, cube[:, 0] / WIDE, (cube[:, 0] - WIDE) / (1.0 - WIDE))
    u = np.where(outside[:, None], wide.carried(cube), q.carried(cube))
    log_q = q.log_density(u)
    log_g = np.logaddexp(np.log1p(-WIDE) + log_q, np.log(WIDE) + wide.log_density(u))
    return u, log_g, log_q


def cautious(mean: Vector, variance: Vector) -> Vector:
    """The log density that a draw counts with."""
    return mean + 0.5 * np.minimum(variance, 2.0 - variance)


def correct(surrogate: Surrogate, q: Mixture, count: int, seed: int) -> Correction:
    """Weigh ``count`` draws of q by the surrogate, and tell how well the surrogate knows the evidence."""
    found = weighed(surrogate, q, count, seed)
    return replace(found, sd=_sd(surrogate, found.u, found.half, found.weights, seed))


def weighed(surrogate: Surrogate, q: Mixture, count: int, seed: int) -> Correction:
    """Weigh ``count`` draws of q by the surrogate; ``sd`` is left out."""
    u, log_g, log_q = proposal(q, count, seed)
    half = surrogate.half(u)
    mean, variance = surrogate.moments(u, half)
    log_ratio = cautious(mean, variance) - log_g
    total = float(logsumexp(log_ratio))
    log_weights = log_ratio - total
    weights = np.exp(log_weights)
    effective = 1.0 / float(weights @ weights)
    return Correction(
        u=u,
        half=half,
        mean=mean,
        variance=variance,
        log_proposal=log_g,
        log_q=log_q,
        log_weights=log_weights,
        log_evidence=total - float(np.log(count)),
        sd=float("nan"),
        monte_carlo_sd=float(np.sqrt(max(1.0 / effective - 1.0 / count, 0.0))),
        effective=effective,
        shape=float(pareto_shape(weights)),
    )


def _sd(surrogate: Surrogate, u: Vector, half: Vector, weights: Vector, seed: int) -> float:
    """Of E_P[f]."""
    index = resampled(weights, _RESAMPLED, seed)
    at = u[index]
    prior = float(surrogate.kernel.cross(at, at).mean())
    explained = half[:, index].mean(1)
    return float(np.sqrt(max(prior - explained @ explained, 0.0)))


def resampled(weights: Vector, count: int, seed: int) -> Vector:
    """Indices (count,), systematically resampled."""
    start = np.random.default_rng(seed).random()
    edges = np.cumsum(weights) / weights.sum()
    found: Vector = np.searchsorted(edges, (np.arange(count) + start) / count)
    return np.minimum(found, len(weights) - 1)
