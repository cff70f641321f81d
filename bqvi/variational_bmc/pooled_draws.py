"""Draws beyond those of q, where the posterior may have further mass.

    q and q widened           the draws of the correction
    q widened four times      draws further away
    Gaussians at some         further draws, where f is high or little known
      of all these
    pool                      the draws of all three, weighed by the mixture of the three proposals

For a thin curved posterior draws of q do not extend beyond the evaluations. The acquisition is integrated
over the pool (:mod:`next_points`). Draws at which the sd of f exceeds ``PooledSettings.known`` nats are left
out. q is given components where draws or evaluations show mass that it lacks: with n evaluations at most
n^(2/3), and ``ComponentSettings.longer`` times as many where evaluations show it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import WIDE, WIDER, resampled
from bqvi.variational_bmc.correction import Correction, bounded, proposal_of, weighed
from bqvi.variational_bmc.feasibility import Feasibility
from bqvi.variational_bmc.settings import COMPONENTS, NODES, POOLED
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture, grown


@dataclass(frozen=True, eq=False)
class PooledDraws:
    """Draws of several proposals.

    Attributes
    ----------
    u : the draws (M, D), in the frame. whitened : W k of f there, (N, M).
    mean, variance : the moments of f there, (M,); the excess of the mean over the highest value is bounded.
    log_proposal, log_plain, log_q : the log densities (M,) of the mixture of all proposals, of q and q
        widened, and of q.
    feasible : the probability (M,) that the log joint can be evaluated there.
    count : the number of all draws, including those that were not kept.
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
        n = self.count - 2 * POOLED.draws
        return replace(
            self, u=self.u[:n], whitened=self.whitened[:, :n], mean=self.mean[:n], variance=self.variance[:n],
            log_proposal=self.log_plain[:n], log_plain=self.log_plain[:n], log_q=self.log_q[:n],
            feasible=self.feasible[:n], count=n,
        )  # fmt: skip

    def possible_rise(self, log_evidence: float, top: float) -> float:
        """The rise of the log evidence, nats, if f were one sd higher where its sd exceeds one nat.

        Parameters
        ----------
        log_evidence : the log evidence, in the frame's units. top : the highest evaluated value.
        """
        sd = np.sqrt(self.variance)
        uncertain = (sd > 1.0) & (self.feasible > 0.5)
        high = np.minimum(self.mean + sd, top) - self.log_proposal - log_evidence
        # an exponential that does not overflow
        return float(np.log1p(np.exp(np.minimum(high[uncertain], 50.0)).sum() / self.count))


@dataclass(frozen=True, eq=False)
class PointMoments:
    """Points u (m, D), with W k (N, m), the mean and the variance (m,) of f there."""

    u: np.ndarray
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def at(cls, surrogate: Surrogate, u: np.ndarray) -> PointMoments:
        """The points u (m, D) with the moments of the surrogate."""
        whitened = surrogate.whitened(u)
        return cls(u, whitened, *surrogate.moments(u, whitened))

    @classmethod
    def among(cls, draws: PooledDraws | PointMoments, index: np.ndarray) -> PointMoments:
        """Those of the draws at an index, or at a mask."""
        return cls(draws.u[index], draws.whitened[:, index], draws.mean[index], draws.variance[index])

    def joined(self, *others: PointMoments) -> PointMoments:
        """These points and others, in order."""
        parts = (self, *others)
        return PointMoments(
            np.concatenate([part.u for part in parts]),
            np.concatenate([part.whitened for part in parts], axis=1),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.variance for part in parts]),
        )


def pool_of(
    surrogate: Surrogate, q: DiagonalMixture, found: Correction, seed: int, feasible: Feasibility
) -> PooledDraws:
    """The draws of a correction by q's proposal together with draws beyond those of q.

    Parameters
    ----------
    surrogate : the surrogate of the log joint. q : the mixture, in the surrogate's frame.
    found : the correction with draws of `proposal_of` (q).
    seed : seed of the further draws.
    feasible : the probability that the log joint can be evaluated at points.
    """
    top, count = surrogate.data.top, len(found.u)
    plain = q.joined(q.widened(WIDER), WIDE)
    wide = q.widened(POOLED.wider)
    first = PointMoments(found.u, found.whitened, found.mean, found.variance)
    further = _known(surrogate, proposal_of(wide, 0.0).draws(POOLED.draws, seed))
    local = _local(q, plain, (first, further), top, seed)
    draws = first.joined(further, _known(surrogate, proposal_of(local, 0.0).draws(POOLED.draws, seed + 1)))
    total = count + 2 * POOLED.draws
    shares = np.array([count, POOLED.draws, POOLED.draws]) / total
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


def _known(surrogate: Surrogate, u: np.ndarray) -> PointMoments:
    """The points among u (m, D) at which the sd of f is below `PooledSettings.known`."""
    points = PointMoments.at(surrogate, u)
    return PointMoments.among(points, points.variance < POOLED.known**2)


def _local(
    q: DiagonalMixture, plain: DiagonalMixture, draws: tuple[PointMoments, ...], top: float, seed: int
) -> DiagonalMixture:
    """Gaussians with the scales of q's components, at some of the draws where f or its variance is large.

    The draws are chosen by the integrand of the interquantile range (:mod:`next_points`).
    """
    u, mean, variance = (
        np.concatenate([getattr(part, name) for part in draws]) for name in ("u", "mean", "variance")
    )
    parts = q.widened(POOLED.wider).log_parts(u)
    log_g = np.logaddexp(plain.log_density(u), logsumexp(parts, axis=0))
    spread = np.minimum(np.sqrt(variance), NODES.most)
    mean = bounded(mean, variance, top)
    log_share = POOLED.temper * (mean - top) - log_g + np.log(np.sinh(spread))
    chosen = np.unique(resampled(np.exp(log_share - log_share.max()), POOLED.places, seed))
    weights = np.full(len(chosen), 1.0 / len(chosen))
    return DiagonalMixture(weights, u[chosen], q.scales[parts[:, chosen].argmax(0)])


def with_more(
    surrogate: Surrogate, q: DiagonalMixture, n: int, seed: int, feasible: Feasibility
) -> DiagonalMixture:
    """The mixture q with components where evaluations or draws show that it lacks mass; or q itself.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. q : its mixture. n : the number of evaluations. seed : of the
        draws. feasible : the probability that the log joint can be evaluated at points.
    """
    most = most_components(n)
    if q.count >= COMPONENTS.longer * most:
        return q
    found = weighed(surrogate, q, 512, seed + 1, feasible)
    missed = _missed(surrogate, q, found)
    if len(missed):
        sloped = surrogate.data.gradients is not None
        count = COMPONENTS.added_with_gradients if sloped else COMPONENTS.added
        return grown(q, missed, np.zeros(len(missed)), count)
    # the effective share from which q lacks nothing
    if q.count >= most or found.effective_sample_size > 0.7 * len(found.u):
        return q
    # the largest deficit of q that counts, nats
    log_q = np.logaddexp(found.log_q, found.log_proposal - 5.0)
    log_ratio = found.log_weights + found.log_proposal - log_q
    return grown(q, found.u, log_ratio, min(COMPONENTS.added, most - q.count))


def _missed(surrogate: Surrogate, q: DiagonalMixture, found: Correction) -> np.ndarray:
    """Evaluated points (m, D) of high density where draws of q are improbable, the best first.

    No diagnostic of the draws shows an evaluated mode without draws of q.
    """
    data = surrogate.data
    best = np.flatnonzero(data.top - data.values < 0.5 * surrogate.dimension + COMPONENTS.shallow)
    best = best[np.argsort(-data.values[best])]
    u = data.points[best]
    log_density = surrogate.mean(u) - found.log_evidence
    return u[log_density - proposal_of(q).density.log_density(u) > COMPONENTS.unseen]


def most_components(n: int) -> int:
    """The largest number of components of q with n evaluations."""
    return max(2, int(n ** (2 / 3)))
