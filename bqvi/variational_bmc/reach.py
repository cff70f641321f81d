"""Draws beyond the reach of q, where the posterior may go on.

    q and q widened           the draws of the correction
    q widened four times      draws further away
    Gaussians at some         further draws, where f is high or little known
      of all these
    pool                      the draws of all three, weighed by the mixture of the three proposals

Draws of q end where its components do. For a thin curved posterior they do not reach beyond the evaluations
made so far, although the surrogate predicts how the posterior continues, and the next evaluations have to be
made there. The acquisition is integrated over the pool (:mod:`next_points`), and q is given components where
the pool has mass that q lacks (:mod:`learning`). Draws at which the standard deviation of f exceeds
``ReachSettings.known`` nats are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import resampled
from bqvi.variational_bmc.correction import Correction, bounded, proposal_of
from bqvi.variational_bmc.feasibility import Feasibility
from bqvi.variational_bmc.settings import NODES, REACH, WEIGHTS
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture


@dataclass(frozen=True, eq=False)
class PooledDraws:
    """Draws of several proposals.

    Attributes
    ----------
    u : (M, D), in the frame. whitened : (N, M), W k of f there.
    mean, variance : (M,), of f there; the excess of the mean over the highest value is bounded.
    log_proposal : (M,), of the mixture of all proposals. log_plain : (M,), of q and q widened. log_q : (M,).
    feasible : (M,), the probability that the log joint can be evaluated there.
    count : number of all draws, including those that were not kept.
    """

    u: np.ndarray
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_proposal: np.ndarray
    log_plain: np.ndarray
    log_q: np.ndarray
    feasible: np.ndarray
    count: int

    def of_q(self) -> PooledDraws:
        """The draws of q and q widened alone."""
        n = self.count - 2 * REACH.draws
        return replace(
            self, u=self.u[:n], whitened=self.whitened[:, :n], mean=self.mean[:n], variance=self.variance[:n],
            log_proposal=self.log_plain[:n], log_plain=self.log_plain[:n], log_q=self.log_q[:n],
            feasible=self.feasible[:n], count=n,
        )  # fmt: skip

    def left_open(self, log_evidence: float, top: float) -> float:
        """Nats by which the log evidence would be larger, were f one sd higher where its sd exceeds one nat.

        Parameters
        ----------
        log_evidence : in the frame's units. top : the highest value that was evaluated.
        """
        sd = np.sqrt(self.variance)
        unsure = (sd > REACH.unsure) & (self.feasible > REACH.feasible)
        high = np.minimum(self.mean + sd, top) - self.log_proposal - log_evidence
        return float(np.log1p(np.exp(np.minimum(high[unsure], REACH.highest)).sum() / self.count))


@dataclass(frozen=True, eq=False)
class _Draws:
    """Points u (m, D) with W k (N, m), mean and variance (m,) of f there."""

    u: np.ndarray
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def known(cls, surrogate: Surrogate, u: np.ndarray) -> _Draws:
        """Those of the points (m, D) at which the sd of f is below `ReachSettings.known`."""
        whitened = surrogate.whitened(u)
        mean, variance = surrogate.moments(u, whitened)
        known = variance < REACH.known**2
        return cls(u[known], whitened[:, known], mean[known], variance[known])

    def joined(self, other: _Draws) -> _Draws:
        """The draws of both."""
        return _Draws(
            np.concatenate([self.u, other.u]),
            np.concatenate([self.whitened, other.whitened], axis=1),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.variance, other.variance]),
        )


def pool_of(
    surrogate: Surrogate, q: DiagonalMixture, found: Correction, seed: int, feasible: Feasibility
) -> PooledDraws:
    """Return the draws of a correction by q's proposal, and draws beyond the reach of q.

    Parameters
    ----------
    surrogate : of the log joint. q : in its frame.
    found : with draws of `proposal_of` (q).
    seed : seed of the further draws.
    feasible : the probability that the log joint can be evaluated at points.
    """
    top, count = surrogate.data.top, len(found.u)
    plain = q.joined(q.widened(WEIGHTS.widening), WEIGHTS.wide)
    wide = q.widened(REACH.wider)
    draws = _Draws(found.u, found.whitened, found.mean, found.variance)
    draws = draws.joined(_Draws.known(surrogate, proposal_of(wide, 0.0).draws(REACH.draws, seed)))
    local = _local(q, plain, draws, top, seed)
    draws = draws.joined(_Draws.known(surrogate, proposal_of(local, 0.0).draws(REACH.draws, seed + 1)))
    total = count + 2 * REACH.draws
    shares = np.array([count, REACH.draws, REACH.draws]) / total
    logs = np.stack([one.log_density(draws.u) for one in (plain, wide, local)])
    return PooledDraws(
        u=draws.u,
        whitened=draws.whitened,
        mean=bounded(draws.mean, draws.variance, top),
        variance=draws.variance,
        log_proposal=logsumexp(logs + np.log(shares)[:, None], axis=0),
        log_plain=logs[0],
        log_q=q.log_density(draws.u),
        feasible=np.concatenate([found.feasible, feasible(draws.u[count:])]),
        count=total,
    )


def _local(
    q: DiagonalMixture, plain: DiagonalMixture, draws: _Draws, top: float, seed: int
) -> DiagonalMixture:
    """Gaussians of the scales of q's components, at some of the draws where f is high or little known.

    They are chosen by the integrand of the interquantile range (:mod:`next_points`).
    """
    parts = q.widened(REACH.wider).log_parts(draws.u)
    log_g = np.logaddexp(plain.log_density(draws.u), logsumexp(parts, axis=1))
    spread = np.minimum(np.sqrt(draws.variance), NODES.most)
    mean = bounded(draws.mean, draws.variance, top)
    log_share = REACH.temper * (mean - top) - log_g + np.log(np.sinh(spread))
    chosen = np.unique(resampled(np.exp(log_share - log_share.max()), REACH.places, seed))
    weights = np.full(len(chosen), 1.0 / len(chosen))
    return DiagonalMixture(weights, draws.u[chosen], q.scales[parts[chosen].argmax(1)])
