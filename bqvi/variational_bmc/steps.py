"""What surrounds learning in a step: the first design, where to evaluate next, and the record.

    evaluations --learn--> surrogate, q, evidence, draws
         ^                                |
         |______ evaluate <---- look <----|

:mod:`learning` is the upper row, a function of what has been evaluated and of the state before;
:mod:`vbmc_run` alternates it with evaluations. All randomness comes from (seed, number of evaluations), so a
run that is stopped and resumed draws the same numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.variational_bmc.belief import hull
from bqvi.variational_bmc.correction import Correction
from bqvi.variational_bmc.exploration import left_open
from bqvi.variational_bmc.laplace import ascended
from bqvi.variational_bmc.looking import look
from bqvi.variational_bmc.state import Learnt, Row, Settings, State, settled, surprise
from bqvi.variational_bmc.surrogate import Surrogate
from gp.low_discrepancy import scrambled_sobol

Vector = np.ndarray

_DOUBT = 0.01
"""Share of the mass at the edge of what is feasible that is worth an evaluation a step."""
_KNOWN = 0.01
"""Variance of f, in squared nats, where another evaluation is of little use."""


def design(dimension: int, count: int, seed: int) -> Vector:
    """The middle of the plausible box, then a Sobol set in it, (count, D)."""
    cube = scrambled_sobol(dimension, max(count, 2), seed)
    return np.concatenate([np.zeros((1, dimension)), 2.0 * cube - 1.0])[:count]


def batch_size(state: State, settings: Settings) -> int:
    """Few at a time until the posterior has been found: each changes where the next should be."""
    few = settings.few
    if few is None:
        few = min(2 if state.evaluations.gradients is None else 1, settings.batch)
    return settings.batch if settled(state) else few


def _mode(surrogate: Surrogate) -> Vector | None:
    data = surrogate.data
    best = data.points[np.argmax(data.values)]
    near = hull(data)
    reach = np.maximum(near.upper - near.lower, 2.0)
    found = ascended(surrogate, best, near.lower - reach, near.upper + reach)
    return None if surrogate.moments(found[None])[1][0] < _KNOWN else found


def observation_noise(state: State, learnt: Learnt) -> float:
    """Return the variance of the noise of one value, nats squared."""
    noise = learnt.surrogate.learnt_noise
    if state.evaluations.noise_variance is not None:
        noise += float(np.nanmedian(state.evaluations.noise_variance))
    return noise


def with_next(state: State, learnt: Learnt, count: int, seed: int, variational: bool = False) -> State:
    """The state with ``count`` points to evaluate next."""
    noise = observation_noise(state, learnt)
    first = _edge(learnt.found) if settled(state) else _mode(learnt.surrogate)
    allowed = learnt.found.feasible > 0.5
    if not allowed.any():
        allowed = np.ones(len(allowed), bool)
    worse = surprise(state)
    u = look(learnt.surrogate, learnt.found, count, noise, seed, allowed, first, worse, variational)
    mean, variance = learnt.surrogate.moments(u)
    predicted = np.stack([mean, variance + noise], axis=1)
    return replace(state, pending=state.frame.out(u), pending_predicted=predicted)


def _edge(found: Correction) -> Vector | None:
    """The draw (D,) with most mass that may not be feasible; ``None`` if it is little."""
    if found.doubtful < _DOUBT:
        return None
    at = int(np.argmax(found.log_weights + np.log(np.maximum(1.0 - found.feasible, 1e-300))))
    chosen: Vector = found.u[at]
    return chosen


def record(before: State, state: State, learnt: Learnt) -> Row:
    """What was reached."""
    found, volume = learnt.found, state.frame.log_volume
    sd = float(np.hypot(found.sd * np.sqrt(max(1.0, surprise(state))), found.doubtful))
    # below its own lower bound, an evidence has been lowered by what the surrogate does not know
    sd = float(np.hypot(sd, max(found.elbo - found.log_evidence, 0.0)))
    unseen = left_open(state.explored)
    return Row(
        n_evaluations=len(state),
        seconds=state.seconds,
        elbo=found.elbo + volume,
        elbo_sd=sd,
        log_evidence=found.log_evidence + volume,
        log_evidence_sd=float(np.hypot(np.hypot(sd, found.monte_carlo_sd), unseen)),
        effective=found.effective / len(found.u),
        shape=found.shape,
        components=learnt.q.count,
        divergence=_divergence(before, state),
        surprise=surprise(state),
        explored=state.explored,
    )


def _divergence(before: State, state: State) -> float:
    if before.mean is None or before.covariance is None or state.mean is None or state.covariance is None:
        return float("inf")
    return gaussian_divergence(before.mean, before.covariance, state.mean, state.covariance)


def gaussian_divergence(m1: Vector, s1: Vector, m2: Vector, s2: Vector) -> float:
    """(KL(N1 || N2) + KL(N2 || N1)) / 2."""
    gap = m1 - m2
    p1, p2 = np.linalg.inv(s1), np.linalg.inv(s2)
    trace = np.trace(p1 @ s2) + np.trace(p2 @ s1) - 2 * len(m1)
    return float(0.25 * (trace + gap @ (p1 + p2) @ gap))
