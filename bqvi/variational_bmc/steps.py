"""The parts of a step other than inference: the first design, the choice of next points, and the record.

    evaluations --learn--> surrogate, q, evidence, draws
         ^                                |
         |______ evaluate <---- next_points <----|

:mod:`learning` is the upper row, a function of the evaluations and of the state before; :mod:`vbmc_run`
alternates this function with evaluations.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bqvi.variational_bmc.correction import Correction
from bqvi.variational_bmc.frame_selection import evaluated_box
from bqvi.variational_bmc.new_starts import ascended
from bqvi.variational_bmc.next_points import NodeCriterion, next_points
from bqvi.variational_bmc.settings import CONVERGENCE, NODES, PREDICTIONS
from bqvi.variational_bmc.state import (
    Estimate,
    Row,
    Settings,
    State,
    prediction_error,
    settled,
    total_variation,
)
from bqvi.variational_bmc.surrogate import Surrogate
from gp.linear_maps import symmetric_divergence
from gp.low_discrepancy import scrambled_sobol


def design(dimension: int, count: int, seed: int) -> np.ndarray:
    """The middle of the plausible box followed by a Sobol set in it, (count, D), D being ``dimension``."""
    cube = scrambled_sobol(dimension, max(count, 2), seed)
    return np.concatenate([np.zeros((1, dimension)), 2.0 * cube - 1.0])[:count]


def first_count(dimension: int) -> int:
    """The number of points of the first design where there are no gradients."""
    return max(10, dimension + 1)


def batch_size(state: State, settings: Settings) -> int:
    """The size of a batch, small until the posterior has been found, as then each value changes the next."""
    if settings.few is not None:
        return settings.batch if settled(state) else settings.few
    if settled(state):  # a share that grows, so that runs with many evaluations have few steps
        return max(settings.batch, min(len(state) ** 2 // 12500, NODES.candidates // 4))
    return min(2 if state.usable.gradients is None else 1, settings.batch)


def _mode(surrogate: Surrogate) -> np.ndarray | None:
    data = surrogate.data
    best = data.points[np.argmax(data.values)]
    near = evaluated_box(data)
    margin = np.maximum(near.upper - near.lower, 2.0)
    found = ascended(surrogate, best, near.lower - margin, near.upper + margin)
    return None if surrogate.moments(found[None])[1][0] < NODES.known else found


def observation_noise(state: State, estimate: Estimate) -> float:
    """The variance of the noise of one value, nats squared."""
    noise = estimate.surrogate.fitted_noise
    if state.evaluations.noise_variance is not None:
        noise += float(np.nanmedian(state.evaluations.noise_variance))
    return noise


def with_next(
    state: State,
    estimate: Estimate,
    count: int,
    seed: int,
    variational: bool = False,
    waiting: np.ndarray | None = None,
    leading: bool = True,
) -> State:
    """The state with ``count`` further pending points.

    Parameters
    ----------
    waiting : points (k, D) under evaluation, whose values the estimate does not contain.
    leading : whether the first point may be the surrogate's mode, or at the edge of the feasible region.
    """
    criterion = NodeCriterion(observation_noise(state, estimate), prediction_error(state), variational)
    first = (_edge(estimate.found) if settled(state) else _mode(estimate.surrogate)) if leading else None
    # Gradients determine f beyond the draws of q. Once the posterior has been found, the whole pool is used
    # as long as the uncertainty beyond the draws prevents convergence.
    narrow = estimate.surrogate.data.gradients is not None
    if narrow and settled(state):
        narrow = state.rows[-1].beyond < CONVERGENCE.tolerance
    pool = estimate.pool.of_q() if narrow else estimate.pool
    given = None if waiting is None else state.frame.into(waiting)
    u = next_points(estimate.surrogate, pool, count, seed, criterion, first, given)
    mean, variance = estimate.surrogate.moments(u)
    undrawn = np.full(len(u), np.nan)
    predicted = np.stack([mean - state.frame.log_stretch(u), variance + criterion.noise, undrawn], axis=1)
    return with_pending(state, state.frame.out(u), predicted)


def with_pending(state: State, points: np.ndarray, predicted: np.ndarray | None = None) -> State:
    """The state with further pending points (m, D), and the predictions there (m, 3) or None."""
    if predicted is None:
        predicted = np.full((len(points), 3), np.nan)
    return replace(
        state,
        pending=np.concatenate([state.pending, points]),
        pending_predicted=np.concatenate([state.pending_predicted, predicted]),
    )


def _edge(found: Correction) -> np.ndarray | None:
    """The draw (D,) with the most mass that may not be feasible; None if this mass is small."""
    if found.weights @ (1.0 - found.feasible) < NODES.uncertain:
        return None
    at = int(np.argmax(found.log_weights + np.log(np.maximum(1.0 - found.feasible, 1e-300))))
    return found.u[at]


def record(before: State, state: State, estimate: Estimate) -> Row:
    """The record of a step.

    Parameters
    ----------
    before : the state before the step. state : the state after it, with its evaluations. estimate : from
        these.
    """
    found, volume = estimate.found, state.frame.log_volume
    divergence, log_evidence = _divergence(before, state), found.log_evidence + volume
    beyond = estimate.pool.possible_rise(found.log_evidence, estimate.surrogate.data.top)
    sd = np.linalg.norm(
        [
            found.surrogate_sd * np.sqrt(max(1.0, prediction_error(state))),
            found.edge_sd,
            beyond,
            _unsettled(before, state, log_evidence, divergence),
            found.monte_carlo_sd,
        ]
    )
    variation, compared = total_variation(state)
    if observation_noise(state, estimate) > 0.0:
        variation *= 0.0  # noisy values do not show it; NaN, where the test has not been made, remains
    return Row(
        n_evaluations=len(state),
        seconds=state.seconds,
        elbo=found.elbo + volume,
        elbo_sd=float(sd),
        log_evidence=log_evidence,
        log_evidence_sd=float(np.hypot(sd, state.exploration.unseen)),
        effective_share=found.effective_sample_size / len(found.u),
        pareto_k=found.pareto_k,
        n_components=estimate.q.count,
        divergence=divergence,
        prediction_error=prediction_error(state),
        divergence_floor=0.5 * (before.floor + state.floor),
        explored=state.exploration.complete,
        unseen=state.exploration.unseen,
        total_variation=variation,
        compared=compared,
        tested=state.tested if compared else 0,
        beyond=beyond,
    )


def _unsettled(before: State, state: State, log_evidence: float, divergence: float) -> float:
    """The possible error, nats, of an estimate while the posterior has not been found.

    Its square is the sum of those of the rise of the highest value and, if the posterior has changed, of the
    change of the log evidence. The first record has a constant for the change: no prediction was tested.
    """
    rise = 0.0 if settled(before) else _rise(before, state)
    if not before.rows:
        return math.hypot(rise, PREDICTIONS.first_error)
    changed = abs(log_evidence - before.rows[-1].log_evidence) if divergence >= PREDICTIONS.unsettled else 0.0
    return math.hypot(rise, changed)


def _rise(before: State, state: State) -> float:
    """The nats by which the highest value may rise, by its rise over the latest half of the evaluations.

    It may rise as much again, or as the geometric series that begins with the quarter before, which has no
    end where that rise was less; rises by D / 2 are those among draws of a known posterior. After the first
    design, it is the excess of the highest value over the median.
    """
    if not before.rows and not state.given:
        return float(state.usable.values.max() - np.median(state.usable.values))
    # values below a cliff may have been the highest
    best = np.maximum.accumulate(state.evaluations.values[~state.evaluations.failed])
    earlier, latest = np.diff(best[[(len(best) - 1) // 4, (len(best) - 1) // 2, -1]])
    if latest <= max(0.5 * earlier, 0.5 * state.evaluations.points.shape[1]):
        return float(latest)
    return float(latest**2 / (earlier - latest)) if latest < earlier else np.inf


def _divergence(before: State, state: State) -> float:
    if before.mean is None or before.covariance is None or state.mean is None or state.covariance is None:
        return float("inf")
    return symmetric_divergence(before.mean, before.covariance, state.mean, state.covariance)
