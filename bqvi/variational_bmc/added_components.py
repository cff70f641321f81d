"""Components that q lacks: where draws, evaluations or the pool of draws show mass without them.

The components are the Gaussians of the mixture q. With n evaluations there are at most n^(2/3) of them, and
``ComponentSettings.longer`` times as many where evaluations or the pool show that q lacks mass.
"""

from __future__ import annotations

import numpy as np

from bqvi.variational_bmc.correction import Correction, proposal_of, variance_penalised, weighed
from bqvi.variational_bmc.feasibility import Feasibility
from bqvi.variational_bmc.pooled_draws import PooledDraws
from bqvi.variational_bmc.settings import COMPONENTS
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture, grown


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


def extended(
    surrogate: Surrogate, q: DiagonalMixture, found: Correction, pool: PooledDraws, n: int
) -> DiagonalMixture:
    """The mixture q with components where the posterior extends beyond its draws (`pooled_draws`).

    A thin curved posterior is given more components than `most_components`. With gradients q is not changed.

    Parameters
    ----------
    surrogate : the surrogate. q : its mixture. found : the weighted draws, with the log evidence.
    pool : M draws of several proposals, with the mean and the variance of the surrogate there. n : the
        number of evaluations.
    """
    if surrogate.data.gradients is not None or q.count >= COMPONENTS.longer * most_components(n):
        return q
    log_density = variance_penalised(pool.mean, pool.variance, surrogate.data.top) - found.log_evidence
    lack = log_density - pool.log_plain
    lacks = (pool.variance < 1.0) & (lack > 2.0)
    # an exponential that does not overflow
    mass = np.exp(np.minimum(log_density - pool.log_proposal, 50.0))[lacks].sum() / pool.count
    if mass < 0.02:
        return q
    return grown(q, pool.u[lacks], np.minimum(lack[lacks], 10.0), COMPONENTS.added)


def most_components(n: int) -> int:
    """The largest number of components of q with n evaluations."""
    return max(2, int(n ** (2 / 3)))
