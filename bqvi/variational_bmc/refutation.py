"""The test of a claim of convergence: evaluations that could refute it, predicted before they are made.

The acquisition evaluates nothing where the surrogate's mean is too low and its variance small, nor beyond the
draws of its posterior. A run that is about to converge therefore evaluates points of two kinds, as the batch
of a step. The claim stands if the log evidence has then moved by less than its sd, and this sd has not grown
(:mod:`stopping`); otherwise the run goes on, and its next claim is tested again.

*Points of the posterior widened* (:mod:`bqvi.widened`) lie where the posterior ends, or only its draws do.
The excess of the log joint there does not decide: far out in a funnel it is many nats where there is no mass.

*Draws of the posterior.* Draws u_i are of the surrogate's posterior p_s, tempered so that they reach into its
tails. With g_i the log joint less its prediction there,

    d = sum_i w_i |exp(g_i) - 1| / sum_i w_i (exp(g_i) + 1),     u_i ~ p_s^t,     w_i = p_s(u_i)^(1 - t),

estimates the integral of |p - p_s| over that of p + p_s, with p and p_s not normalised: the share of mass in
which the densities of the log joint and of the surrogate differ. It lies between 0 and 1, and the log
evidences differ by at most log((1 + d) / (1 - d)), about 2 d. Of several modes each has draws of its own, and
a smaller d is required. Noisy values have no such estimate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import resampled
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE
from bqvi.variational_bmc.state import Estimate, State
from bqvi.variational_bmc.steps import observation_noise, with_pending
from bqvi.widened import WIDENING, widened


def is_due(state: State) -> bool:
    """Whether a claim is tested now: none was before, or evaluations have grown enough since then."""
    made = np.flatnonzero(~np.isnan(state.predicted[:, 2]))
    waiting = not np.isnan(state.pending_predicted[:, 2]).all()
    return not waiting and (not len(made) or len(state) >= CONVERGENCE.again * (made[-1] + 1))


def with_points(state: State, estimate: Estimate, seed: int) -> State:
    """The state with the points of a test of its last record pending."""
    found, frame = estimate.found, state.frame
    index, log_weights = _drawn(state, estimate, seed)
    beyond = widened(frame.out(found.u), found.weights, state.coordinates, seed)
    u = np.concatenate([found.u[index], frame.into(beyond)])
    mean, variance = estimate.surrogate.moments(u)
    weightless = np.full(len(beyond), -np.inf)
    predicted = np.stack(
        [
            mean - frame.log_stretch(u),
            variance + observation_noise(state, estimate),
            np.concatenate([log_weights, weightless]),
        ],
        axis=1,
    )
    asked = with_pending(state, frame.out(u), predicted)
    return replace(asked, compared=len(u), tested=state.rows[-1].n_evaluations if state.rows else 0)


def _drawn(state: State, estimate: Estimate, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows (m,) of draws that are compared, and the logarithms (m,) of their weights."""
    found, frame = estimate.found, state.frame
    modes = Modes.of(estimate.surrogate, estimate.q, frame, found.log_evidence + frame.log_volume)
    nearest = modes.squares(frame.out(found.u)).argmin(1)
    log_density = found.log_weights + found.log_proposal
    tempered = WIDENING.temper * log_density - found.log_proposal
    each = COMPARISON.draws if len(modes) == 1 else COMPARISON.draws_each
    rows, logs = [], []
    for r in np.unique(nearest):
        inside = nearest == r
        share = np.where(inside, np.exp(tempered - tempered[inside].max()), 0.0)
        chosen = np.unique(resampled(share, each, seed))
        weights = (1.0 - WIDENING.temper) * log_density[chosen]
        rows.append(chosen)
        logs.append(weights - logsumexp(weights) + logsumexp(found.log_weights[inside]))
    return np.concatenate(rows), np.concatenate(logs)
