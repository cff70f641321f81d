"""Whether another map of scales that depend on a coordinate is used, or that to the user's units.

A map is used where the evidence of the values, and of the gradients if there are any, is higher with it: one
with a leading coordinate and a rate (:mod:`scaling`) from values alone, or fitted to the gradients
(:mod:`gradient_scaling`), and the user's units between bounds.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from bqvi.importance import resampled
from bqvi.variational_bmc.frame_selection import next_frame, selected, short_fit
from bqvi.variational_bmc.gradient_scaling import scaling_from_gradients
from bqvi.variational_bmc.modes import connected
from bqvi.variational_bmc.scaling import Scaling, led_by, unlike
from bqvi.variational_bmc.settings import FEASIBILITY, FITTING, SCALINGS, SHAPING
from bqvi.variational_bmc.state import Estimate, InferenceStep, State
from bqvi.variational_bmc.user_units import UserUnits

_Map = tuple[Scaling | UserUnits | None, np.ndarray, np.ndarray]
"""A map, and the mean and covariance of the posterior after it."""


def with_other_map(state: State, estimate: Estimate, step: InferenceStep) -> State | None:
    """The state in a frame with another map, where the evidence of the evaluations is for it, or None.

    Compared are fits from nothing, each with the best of the thresholds and of the frames. Of several modes,
    each has scales of its own, which no map of scales describes. The user's units are tried in any case, and
    whether the present map is better than none, which may be why draws represent the posterior badly.

    Parameters
    ----------
    state, estimate : the state and the estimate of the same evaluations. step : the step.
    """
    found, now = estimate.found, state.frame.scaling
    units = None if isinstance(now, UserUnits) else UserUnits.of(state.coordinates)
    poor = found.effective_sample_size < 0.05 * len(found.u)
    several = len(connected(estimate.surrogate, estimate.q)) > 1
    if poor or several:
        x = _best(state)
    else:
        x = state.frame.out(found.u[resampled(found.weights, SCALINGS.draws, step.seed)])
    if wasteful(estimate):
        return _with_map(state, *_after(None, x))
    few = _of_all_depths(state)
    fitted: _Map | None = None
    if state.evaluations.gradients is not None and not several:
        fitted = scaling_from_gradients(state.evaluations.censored)
    elif _is_of_values(state) and not (poor or several):
        fitted = _most_likely(few, x, step)
    same = 0.0 if state.evaluations.gradients is None else SCALINGS.unlike
    if units is None and unlike(fitted[0] if fitted else None, now, x) <= same:
        return None
    maps = [_after(now, x), *([] if fitted is None else [fitted])]
    maps += [] if now is None else [_after(None, x)]
    maps += [] if units is None else [_after(units, x)]
    current, *evidences = (_evidence(_with_map(few, *one), step) for one in maps)
    best = int(np.argmax(evidences))
    if not evidences[best] > current + SCALINGS.gain * len(x[0]):
        return None
    trial = _with_map(state, *maps[1 + best])
    again = unlike(trial.frame.scaling, now, x) > SCALINGS.unlike  # a further map is tried at once
    return trial if again else replace(trial, scaled_at=len(state))


def _of_all_depths(state: State) -> State:
    """The state with the evaluations to which maps are fitted: of many, some of all depths."""
    made = state.usable
    most = FITTING.enough
    if made.gradients is not None:
        made = made[made.values.max() - made.values < SHAPING.deepest * made.points.shape[1]]
        most //= 1 + made.points.shape[1]
    if len(made) <= most:
        return replace(state, evaluations=made)
    ranks = np.linspace(0, len(made) - 1, most).astype(int)
    return replace(state, evaluations=made[np.argsort(-made.values, kind="stable")[ranks]])


def _is_of_values(state: State) -> bool:
    """Whether the evidence of the values is that of all that was evaluated, without gradients.

    It is not where there is a cheap model, or where evaluations failed.
    """
    return state.cheap is None and not state.evaluations.censored.failed.any()


def _most_likely(state: State, x: np.ndarray, step: InferenceStep) -> _Map | None:
    """The map with the largest evidence, by one short fit each: first the leading coordinate, then the rate.

    None where the present map has a larger one, where there are no coordinates to be led, and where the draws
    x (m, D) of the posterior nearly coincide.
    """

    def evidence(by: Scaling | UserUnits | None, psi: np.ndarray) -> float:
        with suppress(np.linalg.LinAlgError):
            values = _with_map(state, *_after(by, x))
            return max(short_fit(values, next_frame(values), psi, step.settings)[1], -1e300)
        return -1e300

    if x.shape[1] < 2:
        return None
    with suppress(np.linalg.LinAlgError):
        values = _with_map(state, *_after(None, x))
        psi, without = short_fit(values, next_frame(values), None, step.settings)
        pairs = [(k, change) for k in range(x.shape[1]) for change in (SCALINGS.change, -SCALINGS.change)]
        k, change = max(pairs, key=lambda pair: evidence(led_by(x, *pair), psi))
        search = minimize_scalar(
            lambda size: -evidence(led_by(x, k, math.copysign(size, change)), psi),
            bounds=(0.0, SCALINGS.steepest), method="bounded", options={"maxiter": SCALINGS.search},
        )  # fmt: skip
        now = state.frame.scaling
        present = without if now is None else evidence(now, psi)
        return _after(led_by(x, k, math.copysign(search.x, change)), x) if -search.fun > present else None
    return None


def wasteful(estimate: Estimate) -> bool:
    """Whether too few draws of q lie between bounds, as of a density that piles up in a corner of many."""
    return estimate.found.inside * FEASIBILITY.most_draws < 1.0


def _best(state: State) -> np.ndarray:
    """The best evaluated points (m, D), in the place of draws of a posterior that is hardly known."""
    made = state.usable
    count = max(2 * made.points.shape[1] + 2, len(made) // 2)
    return made.points[np.argsort(-made.values, kind="stable")[:count]]


def _after(by: Scaling | UserUnits | None, x: np.ndarray) -> _Map:
    """The map ``by``, with the moments after it of draws x (m, D)."""
    y = x if by is None else by.into(x)
    return by, y.mean(0), np.cov(y.T) + 1e-9 * np.diag(y.var(0))


def _with_map(
    state: State, by: Scaling | UserUnits | None, mean: np.ndarray, covariance: np.ndarray
) -> State:
    """The state with the map ``by`` in its frame, and these moments; a further map is tried at once."""
    return replace(
        state, frame=replace(state.frame, scaling=by), mean=mean, covariance=covariance, within=None, q=None,
        psi=None, threshold=None, scaled_at=0,
    )  # fmt: skip


def _evidence(state: State, step: InferenceStep) -> float:
    """The log evidence of the values, and of the gradients if there are any."""
    try:
        return selected(state, next_frame(state), None, replace(step, final=False)).evidence
    except np.linalg.LinAlgError:  # the draws nearly coincide
        return -np.inf
