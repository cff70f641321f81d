"""Whether another map of scales that depend on a coordinate is used, or that to the user's units.

A map fitted to gradients is used where gradients are affine after it (:mod:`gradient_scaling`). One fitted to
draws of the posterior (:mod:`scaling`) and the user's units between bounds (:mod:`user_units`) are used where
the evidence of the values is higher with them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.importance import resampled
from bqvi.variational_bmc.frame_selection import next_frame, selected
from bqvi.variational_bmc.gradient_scaling import FittedScaling
from bqvi.variational_bmc.modes import connected
from bqvi.variational_bmc.scaling import Scaling, proposed, unlike
from bqvi.variational_bmc.settings import FEASIBILITY, SCALINGS
from bqvi.variational_bmc.state import Estimate, InferenceStep, State
from bqvi.variational_bmc.user_units import UserUnits

__all__ = ["wasteful", "with_map_of_draws", "with_map_of_gradients"]


def with_map_of_draws(state: State, estimate: Estimate, step: InferenceStep) -> State | None:
    """The state in a frame with another map, where the evidence of the values is for it; else None.

    Compared are fits from nothing, each with the best of the thresholds and of the frames. Of several modes,
    each has scales of its own, which no map of scales describes. The user's units are tried in any case.

    Parameters
    ----------
    state, estimate : the state and the estimate of the same evaluations. step : the step.
    """
    found, now = estimate.found, state.frame.scaling
    units = None if isinstance(now, UserUnits) else UserUnits.of(state.coordinates)
    poor = found.effective_sample_size < SCALINGS.effective * len(found.u)
    if poor or len(connected(estimate.surrogate, estimate.q)) > 1:
        if units is None:
            return None
        scaling, x = None, _best(state)
    else:
        x = state.frame.out(found.u[resampled(found.weights, SCALINGS.draws, step.seed)])
        try:
            scaling = proposed(x)
        except np.linalg.LinAlgError:  # the draws nearly coincide
            return None
    if wasteful(estimate):
        return _with_map(state, None, x)
    if units is None and unlike(scaling, now, x) == 0.0:
        return None
    maps: list[Scaling | UserUnits | None] = [] if now is None else [None]
    maps += [] if units is None else [units]
    if scaling is not None:
        maps = [scaling, scaling.steeper(SCALINGS.further), *maps]
    current = _evidence(_with_map(state, now, x), step)
    others = [_with_map(state, by, x) for by in maps]
    evidences = [_evidence(other, step) for other in others]
    best = int(np.argmax(evidences))
    return others[best] if evidences[best] > current + SCALINGS.gain * len(x[0]) else None


def wasteful(estimate: Estimate) -> bool:
    """Whether too few draws of q lie between bounds, as of a density that piles up in a corner of many."""
    return estimate.found.inside * FEASIBILITY.most_draws < 1.0


def _best(state: State) -> np.ndarray:
    """The best evaluated points (m, D), in the place of draws of a posterior that is hardly known."""
    made = state.usable
    count = max(2 * made.points.shape[1] + 2, len(made) // 2)
    return made.points[np.argsort(-made.values, kind="stable")[:count]]


def _with_map(state: State, by: Scaling | UserUnits | None, x: np.ndarray) -> State:
    """The state with the map ``by`` in its frame, and the moments of draws x (m, D)."""
    y = x if by is None else by.into(x)
    covariance = np.cov(y.T) + SCALINGS.least_spread * np.diag(y.var(0))
    again = unlike(by, state.frame.scaling, x) > SCALINGS.unlike  # a further map is tried at once
    return _mapped(state, by, y.mean(0), covariance, 0 if again else len(state))


def _mapped(
    state: State, by: Scaling | UserUnits | None, mean: np.ndarray, covariance: np.ndarray, scaled_at: int
) -> State:
    return replace(
        state, frame=replace(state.frame, scaling=by), mean=mean, covariance=covariance, within=None, q=None,
        psi=None, threshold=None, scaled_at=scaled_at,
    )  # fmt: skip


def _evidence(state: State, step: InferenceStep) -> float:
    """The log evidence of the values alone."""
    values = replace(state, evaluations=replace(state.evaluations, gradients=None))
    try:
        return selected(values, next_frame(values), None, replace(step, final=False)).evidence
    except np.linalg.LinAlgError:  # the draws nearly coincide
        return -np.inf


def with_map_of_gradients(state: State, fitted: FittedScaling) -> State | None:
    """The state in the frame of a map fitted to gradients; None where the state's own map is as good."""
    now = state.frame.scaling
    if unlike(fitted.scaling, now, fitted.x) < SCALINGS.unlike or not fitted.better_than(now):
        return None
    return _mapped(state, fitted.scaling, fitted.mean, fitted.covariance, len(state))
