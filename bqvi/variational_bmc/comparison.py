"""Comparison of the surrogate with the log joint at draws of the posterior, before convergence.

The acquisition evaluates where the surrogate's variance is large. Where its mean is too low and its variance
small nothing is evaluated: on curved ridges the log evidence was .1 to .3 nats too low at a stated sd of .04,
and the log joint exceeded the surrogate by more than one nat on a tenth to a quarter of the mass.
A run that is about to converge therefore evaluates draws u_i of the surrogate's posterior p_s, tempered so
that they reach into its tails. With g_i the log joint less its prediction there,

    d = sum_i w_i |exp(g_i) - 1| / sum_i w_i (exp(g_i) + 1),     u_i ~ p_s^t,     w_i = p_s(u_i)^(1 - t),

estimates the integral of |p - p_s| over that of p + p_s, with p and p_s not normalised: the share of mass in
which the densities of the log joint and of the surrogate differ. It lies between 0 and 1, and the log
evidences differ by at most log((1 + d) / (1 - d)), about 2 d. Of several modes each has draws of its own, and
a smaller d is required. The draws are evaluated as the batch of a step, so that the surrogate is then fitted
to them. Noisy values are not compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import resampled
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import COMPARISON
from bqvi.variational_bmc.state import Estimate, State
from bqvi.variational_bmc.steps import with_pending

__all__ = ["draws_due", "with_draws"]


def with_draws(state: State, estimate: Estimate, most: int | None, seed: int) -> State:
    """The state with draws of the posterior as pending points, at most ``most`` of them unless it is None."""
    found, frame = estimate.found, state.frame
    modes = Modes.of(estimate.surrogate, estimate.q, frame, found.log_evidence + frame.log_volume)
    nearest = np.zeros(len(found.u), int)
    if len(modes) > 1:
        nearest = modes.squares(frame.out(found.u)).argmin(1)
    log_density = found.log_weights + found.log_proposal
    tempered = COMPARISON.temper * log_density - found.log_proposal
    each = COMPARISON.draws if len(modes) == 1 else COMPARISON.draws_each
    rows, logs = [], []
    for r in np.unique(nearest):
        inside = nearest == r
        share = np.where(inside, np.exp(tempered - tempered[inside].max()), 0.0)
        chosen = np.unique(resampled(share, each, seed))
        weights = (1.0 - COMPARISON.temper) * log_density[chosen]
        rows.append(chosen)
        logs.append(weights - logsumexp(weights) + logsumexp(found.log_weights[inside]))
    index, log_weights = np.concatenate(rows)[:most], np.concatenate(logs)[:most]
    u = found.u[index]
    mean = found.mean[index] - frame.log_stretch(u)
    predicted = np.stack([mean, found.variance[index], log_weights], axis=1)
    return replace(with_pending(state, frame.out(u), predicted), compared=len(index))


def draws_due(state: State) -> bool:
    """Whether a comparison is due: there was none, or the evaluations have grown enough since the last."""
    made = np.flatnonzero(np.isfinite(state.predicted[:, 2]))
    waiting = np.isfinite(state.pending_predicted[:, 2]).any()
    return not waiting and (not len(made) or len(state) >= COMPARISON.again * (made[-1] + 1))
