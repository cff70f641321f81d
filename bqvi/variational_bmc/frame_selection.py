"""The surrogate's frame and the threshold of noise shaping, chosen by evidence.

    candidates frame x threshold  ->  noise-shaped data  ->  hyperparameters  ->  the largest evidence

Values far below the best carry little information on the posterior and are fitted badly by a stationary
kernel, so that those deeper than a threshold are given noise (Acerbi 2020, "noise shaping"). The threshold,
and the axes along which the kernel's lengthscales lie, are hyperparameters like the others: candidates are
fitted, and the one of the largest evidence is used. So is a map of scales that depend on a coordinate: one
with a leading coordinate and a rate from values alone, or fitted to the gradients, and the user's units
between bounds (:mod:`scaling`).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from bqvi.calls import Evaluations
from bqvi.calls.settings import CLIFFS, SELECTION
from bqvi.importance import resampled
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.exploration import connected
from bqvi.variational_bmc.frame import Frame, alternative, fitting
from bqvi.variational_bmc.scaling import Scaling, UserUnits, led_by, scaling_from_gradients, unlike
from bqvi.variational_bmc.settings import FEASIBILITY, FITTING, SCALINGS, SHAPING
from bqvi.variational_bmc.state import CheapModel, Estimate, InferenceStep, Settings, State, settled
from bqvi.variational_bmc.surrogate import Data, Surrogate, fit, noise_shaped, with_terms_of
from bqvi.variational_bmc.variational import Box
from gp.expectation import AnovaSums, Quadratic


def _shaped_data(state: State, frame: Frame, threshold: float, settings: Settings) -> Data:
    """The good evaluations as data of a surrogate, with the predictions of a cheap model if there is one."""
    data = _shaped(state.usable, frame, threshold, settings.noise_unknown)
    data = data.with_best_gradients(SELECTION.numbers)
    data = replace(data, rough=data.gradients is not None and settled(state))
    if state.cheap is None or not state.cheap.used:
        return data
    return replace(data, cheap=_cheap_part(state.cheap, frame, threshold))


def _shaped(made: Evaluations, frame: Frame, threshold: float, noise_unknown: bool) -> Data:
    points, stretch = frame.into(made.points), frame.log_stretch_at(made.points)
    values = made.values + stretch
    gradients = None if made.gradients is None else frame.slopes_into(made.points, made.gradients)
    noise = made.noise_variance
    if noise is not None and np.isnan(noise).any():
        # Evaluations given without noise_sd are of the same function, and get the noise of the others.
        noise = np.where(np.isnan(noise), np.nanmedian(noise) if np.isfinite(noise).any() else 0.0, noise)
    straight = frame.scaling is not None and frame.scaling.sheared
    kept = _informative(points, values) if straight else np.ones(len(values), bool)
    data = noise_shaped(
        points[kept], values[kept], None if gradients is None else gradients[kept],
        None if noise is None else noise[kept], threshold, noise_unknown,
    )  # fmt: skip
    return replace(data, log_units=(frame.log_volume + stretch)[kept])


def _informative(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which evaluations (n,) the surrogate is fitted to, in a frame whose map was fitted to gradients.

    A very low value is left out where the prior mean, -|u|^2 / 2, is below the value after noise shaping with
    the largest threshold: in a frame in which the posterior is about Gaussian such a shaped value would
    contradict all others. Where maps are compared by the evidence of values, no value is left out.
    """
    depth, most = values.max() - values, SHAPING.deepest * points.shape[1]
    expected = 0.5 * np.einsum("nd,nd->n", points, points)
    shaped = most * (1.0 + np.log(np.maximum(depth / most, 1.0)))
    return (depth <= most) | (expected <= shaped)


def _cheap_part(cheap: CheapModel, frame: Frame, threshold: float) -> AnovaSums:
    """The posterior mean of a cheap model less its prior mean, in a frame; see `surrogate`."""
    made = cheap.evaluations.censored
    data = _shaped(made[~made.failed], frame, threshold, False)
    psi = None if cheap.psi is None else rescaled(cheap.psi, cheap.frame, frame)
    psi = None if psi is None else with_terms_of(psi, data)
    psi, _ = fit(data, psi, 6 * (1 if psi is not None else 3))
    found, dimension = Surrogate.of(data, psi).function, len(frame.shift)
    return found.plus(Quadratic(-data.top, np.zeros(dimension), np.eye(dimension)))


def rescaled(psi: np.ndarray, old: Frame, new: Frame) -> np.ndarray | None:
    """The hyperparameters ``psi`` in the units of the ``new`` frame; None where its axes differ."""
    if old.diagonal != new.diagonal:
        return None
    dimension, found = len(new.shift), psi.copy()
    ratio = np.sqrt(np.square(old.scale).sum(1)) / np.sqrt(np.square(new.scale).sum(1))
    found[:dimension] += np.log(ratio)
    found[dimension + 2] -= 4.0 * np.log(ratio).mean()
    return found


@dataclass(frozen=True, eq=False)
class Candidate:
    """A frame, a threshold of noise shaping in nats below the best value, and the fit with both."""

    frame: Frame
    threshold: float
    data: Data
    psi: np.ndarray
    evidence: float
    """The log evidence from `fit`; NaN where psi was kept."""
    refitted: bool = True
    """Whether psi has been fitted, or has other terms than before."""

    def __lt__(self, other: Candidate) -> bool:
        return self.evidence < other.evidence


def selected(state: State, frame: Frame, psi: np.ndarray | None, step: InferenceStep) -> Candidate:
    """The candidate of the largest evidence among those tried at this step.

    Compared are the present frame and threshold with others that are due (`_alternatives_due`), and fits of
    an unknown noise from other starts. In some steps hyperparameters are kept as they are.

    Parameters
    ----------
    state : the state. frame : the present frame. step : the step.
    psi : the hyperparameters in this frame, or None before the first fit.
    """
    threshold = state.threshold or SHAPING.deep * len(frame.shift)
    data = _shaped_data(state, frame, threshold, step.settings)
    first, iterations = psi is None, step.settings.fits * (3 if psi is None else 1)
    if psi is not None:
        earlier, psi = psi, with_terms_of(psi, data)
        kept = step.restarted and data.gradients is not None
        # to many observations hyperparameters are fitted when evaluations have grown
        recent = len(data.residuals) > FITTING.many and len(state) < FITTING.often * state.fitted_at
        if (kept or recent) and not step.final:
            return Candidate(frame, threshold, data, psi, math.nan, refitted=len(psi) != len(earlier))
    best = Candidate(frame, threshold, data, *fit(data, psi, iterations))
    if step.settings.noise_unknown and not first and _turn(state, step, FITTING.turn[1])[1] == 0:
        # Noise and short lengthscales explain few values alike: a fit from defaults may find the other
        # maximum.
        best = max(best, Candidate(frame, threshold, data, *fit(data, None, 2 * iterations)))
    for other in _alternatives_due(state, step, best, first):
        trial = _shaped_data(state, *other, step.settings)
        if other[0] is frame and np.array_equal(trial.values, data.values):
            continue
        start = psi if other[0] is frame else None
        found = Candidate(*other, trial, *fit(trial, start, FITTING.first_iterations))
        if found.evidence > best.evidence - ENGINES.behind:
            fitted = fit(trial, found.psi, 2 * iterations - FITTING.first_iterations)
            best = max(best, Candidate(*other, trial, *fitted))
    return best


def _short_fit(
    state: State, frame: Frame, psi: np.ndarray | None, settings: Settings
) -> tuple[np.ndarray, float]:
    """Hyperparameters (P,) and log evidence of the evaluations in a frame, by a few iterations from psi."""
    data = _shaped_data(state, frame, SHAPING.deep * len(frame.shift), settings)
    return fit(data, psi, FITTING.first_iterations)


def _turn(state: State, step: InferenceStep, each: int) -> tuple[int, int]:
    """The number of turns of ``each`` batches, and of batches since the latest turn; 0 for the last fit."""
    turns, since = divmod(len(state) // step.settings.batch, each)
    return turns, 0 if step.final else since


def _alternatives_due(
    state: State, step: InferenceStep, present: Candidate, first: bool
) -> list[tuple[Frame, float]]:
    """The frames and thresholds that are compared at this step with the present ones.

    =================================  ===========================  ========================================
    step                               values alone                 with gradients, whose fits take long
    =================================  ===========================  ========================================
    the first fit                      all                          all
    the last fit                       all                          those that differ in one of the two only
    more than ``FITTING.many`` rows    all, at each fit             one of the latter, at about half the fits
    others                             all, at each k-th batch      one of the latter, at each k-th batch
    a restart                          as without                   none
    =================================  ===========================  ========================================

    k is ``FITTING.turn[0]`` for up to 80 evaluations, and ``FITTING.turn[1]`` beyond.

    Parameters
    ----------
    present : the present frame and threshold, with the evaluations as data.
    first : whether hyperparameters are fitted for the first time.
    """
    with_gradients, many = present.data.gradients is not None, len(present.data.residuals) > FITTING.many
    if with_gradients and step.restarted:
        return []
    turn, since = _turn(state, step, FITTING.turn[0] if len(state) < 80 else FITTING.turn[1])
    if many and with_gradients and not step.final:
        turn, since = divmod(int(math.log(len(state)) / math.log(FITTING.often)), 2)  # about the fits to many
    if since and not (first or (many and not with_gradients)):
        return []
    others = _alternatives(state, present.frame, present.threshold)
    if first or not with_gradients:
        return others
    others = [(one, r) for one, r in others if one is present.frame or r == present.threshold]
    return others if step.final else [others[turn % len(others)]]


def _alternatives(state: State, frame: Frame, threshold: float) -> list[tuple[Frame, float]]:
    """All other pairs of a frame, along the axes or rotated by the correlations, and a threshold."""
    frames, dimension = [frame], len(frame.shift)
    if state.mean is not None and state.covariance is not None:
        kind = alternative(state.mean, state.covariance, frame, state.within)
        frames += [kind] if kind is not None else []
    thresholds = (CLIFFS.shallowest + 0.5 * dimension, SHAPING.deep * dimension, SHAPING.deepest * dimension)
    return [(one, r) for one in frames for r in thresholds if one is not frame or r != threshold]


def next_frame(state: State) -> Frame:
    """The frame of the next step: the old one, unless the posterior has moved away from it."""
    if state.mean is None or state.covariance is None:
        return state.frame
    return fitting(state.mean, state.covariance, state.frame, state.within)


def evaluated_box(data: Data) -> Box:
    """The box around the evaluations within the threshold of noise shaping, at least the 2 D + 2 best.

    An evaluation of very low density far outside must not widen the region of the next evaluations.
    """
    dimension = data.points.shape[1]
    depth = data.top - data.values
    best = np.sort(depth)[: 2 * dimension + 2][-1]
    near = data.points[depth <= max(best, SHAPING.deep * dimension)]
    return Box(near.min(0), near.max(0))


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
    if poor or several:  # the posterior is hardly known: its best evaluated points are in the place of draws
        made = state.usable
        count = max(2 * made.points.shape[1] + 2, len(made) // 2)
        x = made.points[np.argsort(-made.values, kind="stable")[:count]]
    else:
        x = state.frame.out(found.u[resampled(found.weights, ENGINES.draws, step.seed)])
    if wasteful(estimate):
        return _with_map(state, *_after(None, x))
    few = _of_all_depths(state)
    fitted: _Map | None = None
    if state.evaluations.gradients is not None and not several:
        fitted = scaling_from_gradients(state.evaluations.censored)
    elif not (state.cheap is not None or state.evaluations.censored.failed.any() or poor or several):
        fitted = _most_likely(few, x, step)  # the evidence of the values is that of all that was evaluated
    same = 0.0 if state.evaluations.gradients is None else SCALINGS.unlike
    if units is None and unlike(fitted[0] if fitted else None, now, x) <= same:
        return None
    maps = [_after(now, x), *([] if fitted is None else [fitted])]
    maps += [] if now is None else [_after(None, x)]
    maps += [] if units is None else [_after(units, x)]
    current, *evidences = (_evidence(_with_map(few, *one), step) for one in maps)
    best = int(np.argmax(evidences))
    if not evidences[best] > current + ENGINES.counts * len(x[0]):
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


def _most_likely(state: State, x: np.ndarray, step: InferenceStep) -> _Map | None:
    """The map with the largest evidence, by one short fit each: first the leading coordinate, then the rate.

    None where the present map has a larger one, where there are no coordinates to be led, and where the draws
    x (m, D) of the posterior nearly coincide.
    """

    def evidence(by: Scaling | UserUnits | None, psi: np.ndarray) -> float:
        with suppress(np.linalg.LinAlgError):
            values = _with_map(state, *_after(by, x))
            return max(_short_fit(values, next_frame(values), psi, step.settings)[1], -1e300)
        return -1e300

    if x.shape[1] < 2:
        return None
    with suppress(np.linalg.LinAlgError):
        values = _with_map(state, *_after(None, x))
        psi, without = _short_fit(values, next_frame(values), None, step.settings)
        pairs = [(k, change) for k in range(x.shape[1]) for change in (SCALINGS.change, -SCALINGS.change)]
        k, change = max(pairs, key=lambda pair: evidence(led_by(x, *pair), psi))
        search = minimize_scalar(
            lambda size: -evidence(led_by(x, k, math.copysign(size, change)), psi),
            bounds=(0.0, SCALINGS.steepest), method="bounded", options={"maxiter": ENGINES.iterations},
        )  # fmt: skip
        now = state.frame.scaling
        present = without if now is None else evidence(now, psi)
        return _after(led_by(x, k, math.copysign(search.x, change)), x) if -search.fun > present else None
    return None


def wasteful(estimate: Estimate) -> bool:
    """Whether too few draws of q lie between bounds, as of a density that piles up in a corner of many."""
    return estimate.found.inside * FEASIBILITY.most_draws < 1.0


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
