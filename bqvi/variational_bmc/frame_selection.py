"""The surrogate's frame and the threshold of noise shaping, chosen by evidence.

    candidates frame x threshold  ->  noise-shaped data  ->  hyperparameters  ->  the largest evidence

Values far below the best carry little information on the posterior and are fitted badly by a stationary
kernel, so that those deeper than a threshold are given noise (Acerbi 2020, "noise shaping"). The threshold,
and the axes along which the kernel's lengthscales lie, are hyperparameters like the others: candidates are
fitted, and the one of the largest evidence is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import Evaluations
from bqvi.variational_bmc.frame import Frame, alternative
from bqvi.variational_bmc.settings import CHEAP, FITTING, SHAPING
from bqvi.variational_bmc.state import CheapModel, Settings, State, settled
from bqvi.variational_bmc.surrogate import Data, Surrogate, fit, noise_shaped, with_terms_of
from bqvi.variational_bmc.variational import Box
from gp.expectation import AnovaSums, Quadratic

__all__ = ["Candidate", "evaluated_box", "rescaled", "selected"]


def _shaped_data(state: State, frame: Frame, threshold: float, settings: Settings) -> Data:
    """The good evaluations as data of a surrogate, with the predictions of a cheap model if there is one."""
    data = _shaped(state.usable, frame, threshold, settings.noise_unknown)
    data = replace(data, rough=data.gradients is not None and settled(state))
    if state.cheap is None or not state.cheap.used:
        return data
    return replace(data, cheap=_cheap_part(state.cheap, frame, threshold))


def _shaped(made: Evaluations, frame: Frame, threshold: float, noise_unknown: bool) -> Data:
    points = frame.into(made.points)
    values = made.values + frame.log_stretch(points)
    gradients = None if made.gradients is None else frame.slopes_into(points, made.gradients)
    noise = made.noise_variance
    if noise is not None and np.isnan(noise).any():
        # Evaluations given without noise_sd are of the same function, and get the noise of the others.
        noise = np.where(np.isnan(noise), np.nanmedian(noise) if np.isfinite(noise).any() else 0.0, noise)
    straight = frame.scaling is not None and frame.scaling.sheared
    kept = _informative(points, values) if straight else np.ones(len(values), bool)
    return noise_shaped(
        points[kept], values[kept], None if gradients is None else gradients[kept],
        None if noise is None else noise[kept], threshold, noise_unknown,
    )  # fmt: skip


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
    made = cheap.evaluations
    data = _shaped(made[~made.failed], frame, threshold, False)
    psi = None if cheap.psi is None else rescaled(cheap.psi, cheap.frame, frame)
    psi, _ = fit(data, psi, CHEAP.iterations * (1 if psi is not None else 3))
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
    """The log evidence from `fit`, for gradients in the frame's units."""
    refitted: bool = True
    """Whether psi has been fitted, or has other terms than before."""

    @property
    def comparable(self) -> float:
        """The log evidence for gradients in the units in which they were observed."""
        slopes = self.data.thinned.gradients
        return self.evidence + (0 if slopes is None else len(slopes)) * self.frame.log_volume

    def __lt__(self, other: Candidate) -> bool:
        return self.comparable < other.comparable


def selected(
    state: State, frame: Frame, psi: np.ndarray | None, settings: Settings, final: bool, restarted: bool
) -> Candidate:
    """The candidate of the largest evidence among those tried at this step.

    At some steps the other thresholds and the other frame are tried, too. With gradients only one of these is
    tried at a time, except at the first and the last step, where all are. With gradients, a restart keeps the
    fit to the same evaluations that precedes it.
    """
    n, dimension, first = len(state), len(frame.shift), psi is None
    iterations = settings.fits * (3 if first else 1)
    threshold = state.threshold or SHAPING.deep * dimension
    data = _shaped_data(state, frame, threshold, settings)
    if psi is not None:
        earlier, psi = psi, with_terms_of(psi, data)
        kept = restarted and data.gradients is not None
        recent = len(data.residuals) > FITTING.many and n < FITTING.often * state.fitted_at
        if (kept or recent) and not final:
            return Candidate(frame, threshold, data, psi, 0.0, refitted=len(psi) != len(earlier))
    best = Candidate(frame, threshold, data, *fit(data, psi, iterations))
    if settings.noise_unknown and not first and (final or n // settings.batch % FITTING.turn[1] == 0):
        # Noise and short lengthscales explain few values alike: a fit from defaults may find the other
        # maximum.
        best = max(best, Candidate(frame, threshold, data, *fit(data, None, 2 * iterations)))
    if restarted and data.gradients is not None:
        return best
    others = _alternatives_due(state, settings, frame, threshold, data, first, final)
    for other_frame, other_threshold in others:
        trial = _shaped_data(state, other_frame, other_threshold, settings)
        if other_frame is frame and np.array_equal(trial.values, data.values):
            continue
        start = psi if other_frame is frame else None
        found = Candidate(other_frame, other_threshold, trial, *fit(trial, start, FITTING.first_iterations))
        if found.comparable > best.comparable - FITTING.behind:
            fitted = fit(trial, found.psi, 2 * iterations - FITTING.first_iterations)
            best = max(best, Candidate(other_frame, other_threshold, trial, *fitted))
    return best


def _alternatives_due(
    state: State, settings: Settings, frame: Frame, threshold: float, data: Data, first: bool, final: bool
) -> list[tuple[Frame, float]]:
    """The pairs of a frame and a threshold that are compared at this step with the present pair.

    =================================  ===========================  ========================================
    step                               values alone                 with gradients, whose fits take long
    =================================  ===========================  ========================================
    the first fit                      all                          all
    the last fit                       all                          those that differ in one of the two only
    more than ``FITTING.many`` rows    all, at each fit             one of the latter in turn, at each fit
    others                             all, at each k-th batch      one of the latter, at each k-th batch
    =================================  ===========================  ========================================

    k is ``FITTING.turn[0]`` for up to ``FITTING.few`` evaluations, and ``FITTING.turn[1]`` beyond.

    Parameters
    ----------
    frame, threshold : the present pair. data : the evaluations with them.
    first, final : whether hyperparameters are fitted for the first, or for the last time.
    """
    n, many = len(state), len(data.residuals) > FITTING.many
    turn, rest = divmod(n // settings.batch, FITTING.turn[0] if n < FITTING.few else FITTING.turn[1])
    if rest and not (first or final or many):
        return []
    others = _alternatives(state, frame, threshold)
    if data.gradients is None or first:
        return others
    others = [other for other in others if other[0] is frame or other[1] == threshold]
    return others if final else [others[(len(state.rows) if many else turn) % len(others)]]


def _alternatives(state: State, frame: Frame, threshold: float) -> list[tuple[Frame, float]]:
    """All other pairs of a frame, along the axes or rotated by the correlations, and a threshold."""
    frames, dimension = [frame], len(frame.shift)
    if state.mean is not None and state.covariance is not None:
        kind = alternative(state.mean, state.covariance, frame, state.within)
        frames += [kind] if kind is not None else []
    thresholds = (SHAPING.shallowest + 0.5 * dimension, SHAPING.deep * dimension, SHAPING.deepest * dimension)
    return [(one, r) for one in frames for r in thresholds if one is not frame or r != threshold]


def evaluated_box(data: Data) -> Box:
    """The box around the evaluations within the threshold of noise shaping, at least the 2 D + 2 best.

    An evaluation of very low density far outside must not widen the region of the next evaluations.
    """
    dimension = data.points.shape[1]
    depth = data.top - data.values
    best = np.sort(depth)[: 2 * dimension + 2][-1]
    near = data.points[depth <= max(best, SHAPING.deep * dimension)]
    return Box(near.min(0), near.max(0))
