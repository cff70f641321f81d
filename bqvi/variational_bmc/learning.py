"""The inference of a step: evaluations -> surrogate -> q -> evidence and draws.

    evaluations --select--> data, hyperparameters --> surrogate --climb--> q --correct--> evidence, draws

Where the effective sample size of the draws is tiny in two records, q and the frame are initialised again,
from Laplace's approximation of the surrogate and then from the best evaluations. Each time the number of
evaluations has grown by a factor, and as soon as there are gradients enough, other maps for scales that
depend on a coordinate are tried (:mod:`frame_selection`).

*New starts.* Newton's method (`gp.search`) is applied to the posterior mean, whose curvature is a difference
of its gradients (`laplace`); directions in which the mean is not concave get a small curvature. The method
finds the thin ellipsoid of a correlated posterior in a few steps, for which the optimisation of a mixture
from a distant start takes hundreds. Early on, and with gradients above all, the surrogate's mean is highest
where nothing was evaluated, and a mixture of highest ELBO lies far from the evaluations. Draws of a Gaussian
are then weighted by the density of :func:`correction.variance_penalised`, which falls with the surrogate's
variance; the weights are tempered to a given effective sample size, their moments are those of the next
Gaussian, and this is repeated until no tempering is needed (`annealed`; Cappe et al. 2008; tempered weights
as in Koblents & Miguez 2015). The Gaussian extends from the evaluated points as far as the surrogate's
variance is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls.faults import CONTRADICTED, may_be_wrong
from bqvi.importance import effective_size, normalised
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.correction import (
    Correction,
    correct,
    moments_of,
    polished,
    pool_of,
    spread,
    variance_penalised,
    with_more,
)
from bqvi.variational_bmc.exploration import pooled_within
from bqvi.variational_bmc.frame import Feasibility, Frame, elite, turned, turns
from bqvi.variational_bmc.frame_selection import (
    evaluated_box,
    next_frame,
    rescaled,
    selected,
    wasteful,
    with_other_map,
)
from bqvi.variational_bmc.scaling import fewest_gradients
from bqvi.variational_bmc.settings import COMPONENTS, CONVERGENCE, RESTARTS, SCALINGS
from bqvi.variational_bmc.state import Estimate, InferenceStep, State, settled
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import Box, DiagonalMixture, climb, pruned
from gp.laplace import curvature
from gp.low_discrepancy import normal_sobol
from gp.matrices import correlation_root, spectrum
from gp.search import Expansion, search


def laplace(
    surrogate: Surrogate, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, widest: float | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean (D,) and covariance (D, D) in the frame; None where the mean has no mode inside the box.

    With ``widest`` there always is a result: in directions in which the mean is flatter than a Gaussian of
    that standard deviation, or not concave, the standard deviation is ``widest``.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. start : (D,). lower, upper : the corners (D,) of the box.
    widest : the largest standard deviation, or None.
    """
    u = ascended(surrogate, start, lower, upper)
    values, vectors = spectrum(_curvature(surrogate, u), -np.inf if widest is None else widest**-2.0)
    inside = np.all((u > lower) & (u < upper))
    if widest is None and (values.min() < RESTARTS.flattest or not inside):
        return None
    return u, (vectors / values) @ vectors.T


def ascended(surrogate: Surrogate, start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The end (D,) of Newton's ascent of the mean from ``start``: a mode, or a point on the boundary.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. start : (D,). lower, upper : the corners (D,) of the box.
    """
    return search(_Mean(surrogate), [start], (lower, upper), RESTARTS.ascent).psi


@dataclass(frozen=True, eq=False)
class _Mean:
    """The posterior mean as an objective, with a curvature of at least ``RESTARTS.flattest``."""

    surrogate: Surrogate

    def value(self, psi: np.ndarray) -> float:
        return float(self.surrogate.mean(psi[None])[0])

    def expanded(self, psi: np.ndarray) -> Expansion:
        def bowl() -> np.ndarray:
            values, vectors = spectrum(_curvature(self.surrogate, psi), RESTARTS.flattest)
            return (vectors * values) @ vectors.T

        return Expansion(self.value(psi), lambda: self.surrogate.function.gradient(psi[None])[0], bowl)


def _curvature(surrogate: Surrogate, u: np.ndarray) -> np.ndarray:
    """Minus the Hessian of the posterior mean at u (D,), (D, D)."""
    return curvature(surrogate.function.gradient, u, 1e-3)


_TEMPERATURES = 0.7 ** np.arange(120)


def annealed(
    surrogate: Surrogate, mean: np.ndarray, covariance: np.ndarray, seed: int, feasible: Feasibility
) -> tuple[np.ndarray, np.ndarray]:
    """The mean (D,) and covariance (D, D), in the frame, adapted from those given.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. mean : (D,). covariance : (D, D). seed : of the draws.
    feasible : the probability that the log joint can be evaluated at a point.
    """
    dimension = len(mean)
    # effective draws
    least = max(0.2 * ENGINES.further, min(4.0 * dimension, 0.5 * ENGINES.further))
    for step in range(ENGINES.iterations):
        z = normal_sobol(dimension, ENGINES.further, seed + step)
        factor = RESTARTS.widening * correlation_root(covariance, 1e-12)
        u = mean + z @ factor.T
        log_g = -0.5 * np.einsum("md,md->m", z, z)
        log_ratio = (
            variance_penalised(*surrogate.moments(u), surrogate.data.top) + np.log(feasible(u)) - log_g
        )
        if not np.isfinite(log_ratio).any():
            break
        weights, temperature = _tempered(log_ratio, least)
        mean = weights @ u
        centred = u - mean
        covariance = (centred.T * weights) @ centred
        covariance += 1e-3 * np.trace(covariance) / dimension * np.eye(dimension)
        if temperature == 1.0 and step:
            break
    return mean, covariance


def _tempered(log_ratio: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """The weights tempered to the largest power with an effective sample size ``least``, and that power."""
    weights = normalised(_TEMPERATURES[:, None] * log_ratio)
    enough = effective_size(weights) >= least
    best = int(np.argmax(enough)) if enough.any() else -1
    return weights[best], float(_TEMPERATURES[best])


def learn(state: State, step: InferenceStep) -> tuple[State, Estimate]:
    """Fit the surrogate, maximise its ELBO and weight draws; the state keeps the start of the next step."""
    before, (state, estimate) = state, _learned(state, step)
    # another map of scales is tried where evaluations have grown, or gradients are now enough for one
    gradients, enough = state.evaluations.gradients, fewest_gradients(state.evaluations.points.shape[1])
    first = gradients is not None and state.scaled_at < enough <= len(state)
    if (due := first or len(state) >= SCALINGS.often * state.scaled_at) or step.final:
        without = _without_contradicted(before, state, estimate.surrogate)
        if without is not None:
            return learn(without, step)
    return with_scales(state, estimate, step) if due else (state, estimate)


def _without_contradicted(state: State, reached: State, surrogate: Surrogate) -> State | None:
    """The ``state`` without a gradient that all others contradict and what was learned from it, or None."""
    made = state.evaluations
    exact = made.noise_variance is None and not surrogate.data.noise_fitted
    found = surrogate.contradicted_gradient() if exact else None
    if found is None or made.gradients is None:
        return None
    point = reached.frame.out(surrogate.data.points[[found]])
    row = int(np.square(made.points - point).sum(1).argmin())
    if not may_be_wrong(made, row):
        return None
    rows = np.arange(len(made)) == row
    reasons = tuple(CONTRADICTED if left else reason for left, reason in zip(rows, made.reasons, strict=True))
    made = replace(made, gradients=np.where(rows[:, None], np.nan, made.gradients), reasons=reasons)
    blank = replace(state, psi=None, q=None, mean=None, covariance=None, within=None, threshold=None)
    return replace(blank, evaluations=made)


def with_scales(state: State, estimate: Estimate, step: InferenceStep) -> tuple[State, Estimate]:
    """The result with another map of scales that depend on a coordinate, or without; or that given.

    Parameters
    ----------
    state : the state, with its frame. estimate : the estimate in that frame. step : the settings and the
        seed.
    """
    trial = with_other_map(state, estimate, step)
    found = None if trial is None else _learned(trial, step)
    if found is None or wasteful(found[1]):
        return replace(state, scaled_at=len(state)), estimate
    return found


def _learned(state: State, step: InferenceStep) -> tuple[State, Estimate]:
    """The result of a step; where its draws are poor, that from other starts of q and of the frame."""
    state, estimate = _inferred(state, step)
    if not _starts_again(state, estimate):
        return state, estimate
    effective, again = estimate.found.effective_sample_size, replace(step, restarted=True)
    at_mode = _at_mode(state, estimate)
    if at_mode is not None:
        other, other_estimate = _inferred(at_mode, again)
        if other_estimate.found.effective_sample_size > max(RESTARTS.least_effective, effective):
            return other, other_estimate
    return (state, estimate) if effective > RESTARTS.least_effective else _wide(state, estimate, again)


def _wide(state: State, estimate: Estimate, step: InferenceStep) -> tuple[State, Estimate]:
    """The result from a start by the best evaluations."""
    mean, covariance = _spread(state, estimate.surrogate, step.seed)
    wide = replace(state, mean=mean, covariance=covariance, within=None, q=None)
    state, estimate = _inferred(wide, step, climbing=False)
    return replace(state, mean=mean, covariance=covariance, within=None), estimate


def _starts_again(state: State, estimate: Estimate) -> bool:
    """Whether other starts are tried.

    With gradients, a run begins in the frame of Laplace's approximation in any case.
    """
    effective, has_gradients = estimate.found.effective_sample_size, state.usable.gradients is not None
    if has_gradients and (not state.rows or effective < CONVERGENCE.effective * len(estimate.found.u)):
        return True
    effective_before = bool(state.rows) and state.rows[-1].effective_share > RESTARTS.kept_effective
    return not (effective > RESTARTS.least_effective or effective_before)


def _spread(state: State, surrogate: Surrogate, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean and covariance of the best evaluations or, with gradients, from `annealed`.

    From values alone the surrogate is poor outside a thin ellipsoid, along which the best evaluations lie.
    """
    good = state.usable
    frame = state.frame
    heights = good.values + frame.log_stretch_at(good.points)
    mean, covariance = elite(frame.straightened(good.points), heights)
    if good.gradients is None:
        return mean, covariance
    affine = frame.affine
    mean, covariance = affine.to_standard(mean[None])[0], affine.solve(affine.solve(covariance).T)
    feasible = _feasibility(state, frame)
    mean, covariance = annealed(surrogate, mean, covariance, seed, feasible)
    return frame.straight(mean[None])[0], frame.scale @ covariance @ frame.scale.T


def _at_mode(state: State, estimate: Estimate) -> State | None:
    """The state with the moments of Laplace's approximation of the surrogate; None where there is none.

    At the beginning, and with gradients, axes are rotated where correlations cost enough.
    """
    data, margin = estimate.surrogate.data, 1.0
    best = data.points[np.argmax(data.values)]
    widest = None if state.rows else 1.0
    near = evaluated_box(data)
    found = laplace(estimate.surrogate, best, near.lower - margin, near.upper + margin, widest)
    if found is None:
        return None
    mean = state.frame.straight(found[0][None])[0]
    covariance = state.frame.scale @ found[1] @ state.frame.scale.T
    covariance = 0.5 * (covariance + covariance.T)
    again = replace(state, mean=mean, covariance=covariance, within=None, q=None)
    begins = not state.rows or state.usable.gradients is not None
    if not (begins and state.frame.diagonal and turns(covariance)):
        return again
    return replace(again, frame=replace(turned(mean, covariance), scaling=state.frame.scaling), psi=None)


def _inferred(state: State, step: InferenceStep, climbing: bool = True) -> tuple[State, Estimate]:
    """The state and the estimate from all evaluations; ``next_points`` says whether the ELBO is maximised."""
    frame = next_frame(state)
    fitted = selected(
        state, frame, None if state.psi is None else rescaled(state.psi, state.frame, frame), step
    )
    frame, surrogate = fitted.frame, Surrogate.of(fitted.data, fitted.psi)
    feasible = _feasibility(state, frame)
    start, within = _start(state, frame), replace(state, frame=frame)
    q, found = _corrected(within, surrogate, start, feasible, step, climbing)
    drawn = correct(surrogate, q, _draws(state, step), step.seed, feasible) if step.final else found
    pool = pool_of(surrogate, q, drawn, step.seed, feasible)
    moments, within_modes = moments_of(found, q), pooled_within(surrogate, q)
    reached = replace(
        state,
        frame=frame,
        mean=frame.straight(moments.mean[None])[0],
        covariance=frame.scale @ moments.covariance @ frame.scale.T,
        within=None if within_modes is None else frame.scale @ within_modes @ frame.scale.T,
        floor=moments.floor,
        psi=fitted.psi,
        threshold=fitted.threshold,
        q=q,
        fitted_at=len(state) if fitted.refitted else state.fitted_at,
    )
    return reached, Estimate(surrogate, q, found, pool)


def _feasibility(state: State, frame: Frame) -> Feasibility:
    """The probability that the log joint can be evaluated at points of the ``frame``."""
    made = state.evaluations.censored
    return Feasibility.of(frame.into(made.points), made.failed, frame.inside)


def _start(state: State, frame: Frame) -> DiagonalMixture:
    """The mixture with which an ascent begins, in the ``frame``: that of the state, or two components."""
    if state.q is not None:
        return state.frame.moved(state.q, frame)
    dimension = len(frame.shift)
    means = 0.2 * np.array([[1.0], [-1.0]]) * np.ones(dimension)
    if state.mean is None:
        made = state.usable
        best = frame.into(made.points[[np.argmax(made.values)]])
        means = np.concatenate([best, best * 0.5])
    scales = np.full((2, dimension), 0.7)
    return DiagonalMixture(np.full(2, 0.5), means, scales)


def _corrected(
    state: State,
    surrogate: Surrogate,
    start: DiagonalMixture,
    feasible: Feasibility,
    step: InferenceStep,
    climbing: bool,
) -> tuple[DiagonalMixture, Correction]:
    """The mixture q of an ascent from ``start``, or that itself, and the correction of q."""
    q = _maximised(surrogate, start, state.frame, step, feasible) if climbing else start
    if step.final:
        found = polished(surrogate, q, step.settings.final_draws, step.seed, feasible, step.tolerance)
        return q, replace(
            found, surrogate_sd=float(np.hypot(found.surrogate_sd, spread(surrogate, found, step.seed)))
        )
    found = correct(surrogate, q, _draws(state, step), step.seed, feasible)
    represented = bool(state.rows) and state.rows[-1].effective_share > COMPONENTS.represented
    if climbing and represented and found.log_evidence - found.elbo > ENGINES.counts:
        # The ascent is of the surrogate's mean, which can be high where nothing was evaluated. The ELBO of a
        # correction bounds the mean there.
        before = correct(surrogate, start, _draws(state, step), step.seed, feasible)
        if before.elbo > found.elbo:
            return start, before
    return q, found


def _draws(state: State, step: InferenceStep) -> int:
    """The number of draws of the correction of a step: more with gradients once the posterior is found."""
    many = state.usable.gradients is not None and settled(state)
    return step.settings.draws_with_gradients if many else step.settings.draws


def _maximised(
    surrogate: Surrogate, q: DiagonalMixture, frame: Frame, step: InferenceStep, feasible: Feasibility
) -> DiagonalMixture:
    """The mixture of the largest ELBO near q, with the components that q lacks."""
    near, settings, final = evaluated_box(surrogate.data), step.settings, step.final
    lower, upper = frame.bounds()
    box = Box(
        np.maximum(near.lower - 0.5, np.minimum(lower, near.lower)),
        np.minimum(near.upper + 0.5, np.maximum(upper, near.upper)),
        (upper - lower) / math.sqrt(12.0),  # the sd of a uniform density
    )
    for repeat in range(4 if final else 1):
        more = with_more(surrogate, q, len(surrogate.data.values), step.seed + repeat, feasible)
        if repeat and more.count == q.count:
            break  # q covers the surrogate and its ELBO has been maximised
        samples = max(32, 2 * (settings.samples // (2 * more.count))) * (2 if final else 1)
        q = climb(surrogate, more, box, step.seed % 7919, samples, settings.climbs * (1 + final))
        q = pruned(q, 0.003)
    return q
