"""Records, the conditions of convergence, and evaluations that could refute a claim of it or show noise.

A record has the estimate of a step and the sd of the log evidence (`record`), the root of the sum of the
squares of three: by the surrogate, scaled by its prediction errors; by the number of draws; and what is not
seen. This is the largest of the nats that unseen modes are expected to add, the sd by unknown edges of where
f is finite, the rise if f is higher where it is unknown, and the change of an estimate that is not settled.
Once exploration is complete, what hidden modes may add stands beside the sd: no evaluation speaks of them.
Seven conditions on the last records, with the thresholds of `ConvergenceSettings`, have to hold.

- *Is the posterior settled?* Successive posteriors differ by little more than estimates of equal ones do.
- *Is the evidence constant?* The records of log Z lie within the tolerance, or their own sd, of each other.
- *Is the evidence known?* Its sd, which contains the surrogate's uncertainty, is below the tolerance.
- *Do the draws represent the surrogate?* By their effective share and Pareto k; nearly equal weights have no
  tail.
- *Has the claim been tested?* A record that meets the conditions above is a claim. With evaluations that
  could refute it log Z moves by less than its sd, and the sd does not grow.
- *Did the surrogate predict draws of the posterior?* By the share of the mass in which it and the log joint
  differ at these. Noisy values leave it out.
- *Has the plausible box been explored, and are few further modes expected?* See :mod:`exploration`. What
  these may add is not counted in the third condition.

The acquisition evaluates nothing where the surrogate's mean is too low and its variance small, nor beyond the
draws of its posterior. A run that is about to converge therefore evaluates points of two kinds, as the batch
of a step, predicted before they are made. If its claim does not stand the run goes on, and its next claim is
tested again.

*Points of the posterior widened* (:mod:`bqvi.importance`) lie where the posterior ends, or only its draws do.
The excess of the log joint there does not decide: far out in a funnel it is many nats where there is no mass.

*Draws of the posterior.* Draws u_i are of the surrogate's posterior p_s, tempered so that they reach into its
tails. With g_i the log joint less its prediction there,

    d = sum_i w_i |exp(g_i) - 1| / sum_i w_i (exp(g_i) + 1),     u_i ~ p_s^t,     w_i = p_s(u_i)^(1 - t),

estimates the integral of |p - p_s| over that of p + p_s, with p and p_s not normalised: the share of mass in
which the densities of the log joint and of the surrogate differ. It lies between 0 and 1, and the log
evidences differ by at most log((1 + d) / (1 - d)), about 2 d. Of several modes each has draws of its own, and
a smaller d is required. Noisy values have no such estimate.

*Are values that were declared exact noisy?* The point of the highest value is evaluated again, displaced by
far less than any posterior's width (`again`). Where the two values differ by more than the slope on the way
to much lower points allows, as of random noise or of a function with a seed for each point, a noise is fitted
from then on, as with ``noise_sd="unknown"``. The evaluation is made once, when a third of the budget is spent
or before convergence (and once more if the slope there allowed any difference), and only where the log
evidence does not decrease by a threshold with a noise common to all values. A gain of evidence does not show
noise: a surrogate with short lengthscales explains noisy values as well, and a noise explains exact values
that a stationary kernel fits badly. Stated noise is judged by evidence alone (`understated`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from bqvi.calls import Evaluations
from bqvi.calls.returned import understated_noise
from bqvi.importance import PARETO, WIDENING, resampled, widened
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.exploration import SAME, Modes, distances
from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE, FITTING, NOISE, WEIGHTS
from bqvi.variational_bmc.state import (
    Estimate,
    Row,
    State,
    observation_noise,
    prediction_error,
    settled,
    total_variation,
    with_pending,
)
from bqvi.variational_bmc.surrogate import Surrogate, fit, log_posterior
from gp.matrices import symmetric_divergence

_UNTESTED = "the log joint has not been evaluated at points that could refute the result"
_REFUTED = "evaluations that tested the result have changed it"
_DIFFERENT_MASS = "at draws of the posterior, the densities of surrogate and log joint differ"
NOT_EXPLORED = (
    "the plausible box has not been explored for further modes: raise budget, or give a smaller box"
)


def record(before: State, state: State, estimate: Estimate) -> Row:
    """The record of a step.

    Parameters
    ----------
    before : the state before the step. state : the state after it, with its evaluations. estimate : from
        these.
    """
    found, volume, modes = estimate.found, state.frame.log_volume, state.exploration
    hidden = modes.hidden if modes.complete else 0.0
    divergence, log_evidence = _divergence(before, state), found.log_evidence + volume
    beyond = estimate.pool.possible_rise(found.log_evidence, estimate.surrogate.data.top)
    process = found.surrogate_sd * np.sqrt(max(1.0, prediction_error(state)))
    unseen = max(found.edge_sd, beyond, _unsettled(before, state, log_evidence, divergence))
    seen = np.hypot(process, found.monte_carlo_sd)
    variation = total_variation(state)
    if observation_noise(state, estimate) > 0.0:
        variation *= 0.0  # noisy values do not show it; NaN, where the test has not been made, remains
    return Row(
        n_evaluations=len(state),
        seconds=state.seconds,
        elbo=found.elbo + volume,
        elbo_sd=float(np.hypot(seen, unseen)),
        log_evidence=log_evidence,
        log_evidence_sd=float(np.hypot(seen, max(unseen, modes.unseen - hidden))),
        effective_share=found.effective_sample_size / len(found.u),
        pareto_k=found.pareto_k,
        n_components=estimate.q.count,
        divergence=divergence,
        prediction_error=prediction_error(state),
        divergence_floor=0.5 * (before.floor + state.floor),
        explored=modes.complete,
        unseen=modes.unseen,
        hidden=hidden,
        total_variation=variation,
        tested=0 if math.isnan(variation) else state.tested,
        beyond=beyond,
    )


def _unsettled(before: State, state: State, log_evidence: float, divergence: float) -> float:
    """The possible error, nats, of an estimate while the posterior has not been found.

    Its square is the sum of those of the rise of the highest value and, if the posterior has changed, of the
    change of the log evidence. The first record has a constant for the change: no prediction was tested.
    """
    rise = 0.0 if settled(before) else _rise(before, state)
    if not before.rows:
        return math.hypot(rise, ENGINES.counts)
    changed = abs(log_evidence - before.rows[-1].log_evidence) if divergence >= ENGINES.counts else 0.0
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


def needs_test(rows: tuple[Row, ...], tolerance: float) -> bool:
    """Whether the latest record is a claim: only its test, exploration and one more record are missing."""
    missing = (NOT_EXPLORED, _UNTESTED, _REFUTED, _DIFFERENT_MASS)
    return all(reason.startswith(missing) for reason in judge(rows, tolerance, CONVERGENCE.steady - 1))


def judge(rows: tuple[Row, ...], tolerance: float, steady: int = CONVERGENCE.steady) -> tuple[str, ...]:
    """The reasons why a run has not converged; the last record may be that of the thorough estimate.

    Parameters
    ----------
    rows : the records. tolerance : the tolerance of the log evidence, nats.
    steady : the number of latest records on which the conditions are tested.
    """
    if len(rows) < steady + 2:
        return (f"only {len(rows)} steps have been made; at least {steady + 2} are needed",)
    last = rows[-steady:]
    return (
        *_about_change(last, tolerance),
        *_about_coverage(last[-1]),
        *_about_test(rows, tolerance),
        *_about_exploration(last[-1]),
    )


def _about_change(last: tuple[Row, ...], tolerance: float) -> list[str]:
    """The reasons why posterior and log evidence may still change, from the latest records."""
    sds = [row.elbo_sd for row in last]
    evidences = np.array([row.log_evidence for row in last])
    spread = float(np.ptp(evidences))
    allowed = max(tolerance, 2.0 * float(np.median(sds)))
    divergence = max(row.divergence - row.divergence_floor for row in last)
    reasons = []
    if not divergence < CONVERGENCE.divergence:
        lost = "" if divergence < ENGINES.counts else "the posterior has not been found: "
        differ = f"divergence {divergence:.2g}, not {CONVERGENCE.divergence}"
        reasons.append(f"{lost}successive posteriors still differ ({differ})")
    if not spread < allowed:
        reasons.append(f"the log evidence still moves (by {spread:.2g} over the last {len(last)} steps)")
    if not sds[-1] < tolerance:
        reasons.append(
            f"its sd is {sds[-1]:.2g} by the surrogate, without what unseen modes may add, and not below "
            f"tolerance={tolerance:.2g}"
        )
    return reasons


def _about_test(rows: tuple[Row, ...], tolerance: float) -> list[str]:
    """The reasons why the claim of an earlier record does not stand."""
    now = rows[-1]
    claim = next((row for row in rows if row.n_evaluations == now.tested), None)
    if claim is None:
        return [_UNTESTED]
    reasons = []
    if not now.total_variation < max(tolerance, COMPARISON.total_variation):
        reasons.append(f"{_DIFFERENT_MASS} (by {now.total_variation:.0%} of the mass)")
    moved, sd = abs(now.log_evidence - claim.log_evidence), max(claim.elbo_sd, 0.5 * tolerance)
    if not (moved < sd and now.elbo_sd < ENGINES.grown * sd):
        reasons.append(
            f"{_REFUTED} (the log evidence by {moved:.2g}, its sd from {sd:.2g} to {now.elbo_sd:.2g})"
        )
    return reasons


def _about_exploration(now: Row) -> list[str]:
    """The reason why there may be further modes."""
    if not now.explored:
        return [NOT_EXPLORED]
    if not now.unseen < CONVERGENCE.unseen:
        return [f"there may be further modes (they would add {now.unseen:.2g} nats on average)"]
    return []


def _about_coverage(now: Row) -> list[str]:
    """The reason why q may not cover the surrogate."""
    share, k = now.effective_share, now.pareto_k
    if share > CONVERGENCE.effective and (k < PARETO.unusable or share > WEIGHTS.covered):
        return []
    return [f"q does not cover the surrogate (Pareto k {k:.2f}, effective share {share:.2g})"]


def verifies(rows: tuple[Row, ...], tolerance: float) -> bool:
    """Whether the thorough estimate is due: the records have converged, and evaluations have grown enough.

    The thorough estimate takes as long as about ten steps. After one that has not converged, the next one is
    made only when the evaluations have grown by a factor.
    """
    first = len(rows)
    while first and not judge(rows[:first], tolerance):
        first -= 1
    due = 0.0
    for row in rows[first:]:
        now = row.n_evaluations >= due
        if now:
            due = CONVERGENCE.again * row.n_evaluations
    return first < len(rows) and now


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


def repeated(points: np.ndarray) -> np.ndarray:
    """The pairs of rows (k, 2) of evaluations at nearly the same point, each with the earlier one first.

    Parameters
    ----------
    points : (n, D), in coordinates in which the plausible box is [-1, 1]^D.
    """
    return np.asarray(cKDTree(points).query_pairs(SAME, p=np.inf, output_type="ndarray"))


def differing(made: Evaluations) -> tuple[float, float] | None:
    """The two values at nearly the same point that differ most; None where none differ or noise is declared.

    Parameters
    ----------
    made : all evaluations, failed ones, too.
    """
    if made.noise_variance is not None:
        return None
    kept = made[~made.failed]
    pairs = repeated(kept.points)
    values = kept.values[pairs]
    gaps = np.abs(values[:, 1] - values[:, 0]) - _by_slope(kept, pairs)
    if not (gaps > 0.001).any():
        return None
    first, second = values[int(np.argmax(gaps))]
    return float(first), float(second)


def _by_slope(made: Evaluations, pairs: np.ndarray) -> np.ndarray:
    """The differences (k,) of values that slopes may cause between the points of ``pairs`` (k, 2), nats.

    A slope is the largest from the pair's earlier point to any point that does not count as the same.
    """
    found = np.zeros(len(pairs))
    for row, (first, second) in enumerate(pairs):
        away = distances(made.points, first)
        falls = np.abs(made.values - made.values[first])[away > 0.0] / away[away > 0.0]
        found[row] = falls.max(initial=0.0) * np.linalg.norm(made.points[second] - made.points[first])
    return found


def again(made: Evaluations, surrogate: Surrogate) -> np.ndarray:
    """The point (1, D) to be evaluated; none, (0, D), if noise is excluded, declared or was tested before.

    Parameters
    ----------
    made : all evaluations, in the coordinates. surrogate : the surrogate that was fitted to them.
    """
    none = made.points[:0]
    if made.noise_variance is not None or surrogate.data.noise_fitted:
        return none
    kept = made[~made.failed]
    if (_by_slope(kept, repeated(kept.points)) < 0.001).any():
        return none
    data, start = surrogate.data.of_all_depths(FITTING.enough), np.append(surrogate.psi, np.log(0.1))
    gain = fit(replace(data, noise_fitted=True), start)[1] - fit(data, surrogate.psi)[1]
    if gain < NOISE.excluded:
        return none
    best = int(np.argmax(np.where(made.failed, -np.inf, made.values)))
    # a slope of 1e6 changes the value by .001
    return made.points[[best]] + 1e-9


def understated(made: Evaluations, surrogate: Surrogate) -> tuple[str, ...]:
    """The reason that values vary by more than the noise that was stated, if the evidence shows it.

    Parameters
    ----------
    made : all evaluations. surrogate : the surrogate that was fitted to them.
    """
    if made.noise_variance is None or surrogate.data.noise_fitted:
        return ()
    data = surrogate.data.of_all_depths(FITTING.enough)
    stated = float(np.sqrt(np.nanmedian(made.noise_variance)))
    return understated_noise(*log_posterior(data.thinned).noisier(fit(data, surrogate.psi)[0]), stated)
