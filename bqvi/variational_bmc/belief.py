"""What is believed of the evaluations: frame x reach -> data -> hyperparameters, chosen by evidence.

Values far below the best say little about the posterior and bend a stationary kernel, so from a *reach* of
nats below the best on they are believed with noise. How far it reaches, and along which axes the kernel's
lengthscales lie, are hyperparameters like the others: candidates are fitted, and the evidence decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.variational_bmc.frame import Frame, alternative
from bqvi.variational_bmc.state import Settings, State
from bqvi.variational_bmc.surrogate import Data, believed, fit
from bqvi.variational_bmc.variational import Box

Vector = np.ndarray

_DEEP, _DEEPEST = 10.0, 1000.0
"""Nats below the best, for each dimension, as far as values are believed as they are: at first, and at most.

What lies deeper than the first has no say in where the posterior may be.
"""
_SHALLOWEST = 15.0
"""Nats beyond D / 2, the mean depth of a Gaussian's draws, as far as they are believed at least."""
_MANY, _OFTEN = 100, 1.08
"""Beyond so many observations hyperparameters are fitted when evaluations have grown by this factor."""


def data_in(state: State, frame: Frame, reach: float, settings: Settings) -> Data:
    """The evaluations that did not fail, as a surrogate takes them."""
    made = state.evaluations[~state.evaluations.failed]
    gradients = None if made.gradients is None else frame.slopes_into(made.gradients)
    points = frame.into(made.points)
    noise = made.noise_variance
    if noise is not None and np.isnan(noise).any():
        # handed in without: they come from the same function, and are as noisy as the others
        noise = np.where(np.isnan(noise), np.nanmedian(noise) if np.isfinite(noise).any() else 0.0, noise)
    return believed(points, made.values, gradients, noise, reach, settings.learnt_noise)


@dataclass(frozen=True, eq=False)
class Belief:
    """A frame, how far down values are believed as they are in it, and what has been fitted to them so."""

    frame: Frame
    reach: float
    data: Data
    theta: Vector
    evidence: float
    """Of the data as `fit` gives it; their gradients are in the frame's units."""

    @property
    def comparable(self) -> float:
        """The evidence of the gradients as they were observed."""
        slopes = self.data.thinned.gradients
        return self.evidence + (0 if slopes is None else len(slopes)) * self.frame.log_volume

    def __lt__(self, other: Belief) -> bool:
        return self.comparable < other.comparable


def fitted(
    state: State, frame: Frame, theta: Vector | None, settings: Settings, final: bool, restarted: bool
) -> Belief:
    """What is believed, as far as the evidence has been asked.

    Now and then the other reaches and the other frame are tried too; with gradients one of them in turn, but
    all at first and at the end. With gradients a restart keeps what has been fitted to the same evaluations
    just before.
    """
    n, dimension = len(state), len(frame.shift)
    iterations = settings.fits * (3 if theta is None else 1)
    reach = state.reach or _DEEP * dimension
    data = data_in(state, frame, reach, settings)
    many = len(data.residuals) > _MANY
    restarted = restarted and data.gradients is not None
    if theta is not None and not final and (restarted or (many and n < _OFTEN * state.fitted_at)):
        return Belief(frame, reach, data, theta, 0.0)
    best = Belief(frame, reach, data, *fit(data, theta, iterations))
    if settings.learnt_noise and theta is not None and (final or n // settings.batch % 4 == 0):
        # noise and short lengthscales explain the same few values: the other explanation is tried anew
        best = max(best, Belief(frame, reach, data, *fit(data, None, 2 * iterations)))
    turn, rest = divmod(n // settings.batch, 2 if n < 80 else 4)
    warm = theta is not None and not final
    if restarted or (warm and rest and not many):
        return best
    others = alternatives(state, frame, reach)
    if data.gradients is not None and theta is not None:  # a fit takes long
        others = [other for other in others if other[0] is frame or other[1] == reach]
        if not final:
            others = [others[(len(state.rows) if many else turn) % len(others)]]
    for other_frame, other_reach in others:
        trial = data_in(state, other_frame, other_reach, settings)
        if other_frame is frame and np.array_equal(trial.values, data.values):
            continue
        start = theta if other_frame is frame else None
        found = Belief(other_frame, other_reach, trial, *fit(trial, start, 2 * iterations))
        best = max(best, found)
    return best


def alternatives(state: State, frame: Frame, reach: float) -> list[tuple[Frame, float]]:
    """All other pairs of a frame that the correlations allow and a reach."""
    frames, dimension = [frame], len(frame.shift)
    if state.mean is not None and state.covariance is not None:
        kind = alternative(state.mean, state.covariance, frame)
        frames += [kind] if kind is not None else []
    reaches = (_SHALLOWEST + 0.5 * dimension, _DEEP * dimension, _DEEPEST * dimension)
    return [(one, r) for one in frames for r in reaches if one is not frame or r != reach]


def hull(data: Data) -> Box:
    """The box around the evaluations that are not hopelessly deep, or else around the 2 D + 2 best.

    One that went astray must not be what the next may be twice as far away as.
    """
    dimension = data.points.shape[1]
    depth = data.top - data.values
    best = np.sort(depth)[: 2 * dimension + 2][-1]
    near = data.points[depth <= max(best, _DEEP * dimension)]
    return Box(near.min(0), near.max(0))
