"""The state of a run between steps: evaluations, frame, hyperparameters, mixture, records.

All arrays and numbers, so that it is saved without pickles and a resumed run draws the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from math import nan

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.coordinates import Coordinates
from bqvi.runs.pending import matched
from bqvi.variational_bmc.correction import Correction
from bqvi.variational_bmc.exploration import UNEXPLORED, Explored
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.reach import PooledDraws
from bqvi.variational_bmc.settings import PREDICTIONS
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture


@dataclass(frozen=True)
class Settings:
    """Settings of the loop; defaults were chosen on problems other than those reported.

    Attributes
    ----------
    batch : evaluations a step. few : until the posterior has been found; by default 2, with gradients 1.
    draws : of the correction. final_draws : of the last one.
    samples : base points of the entropy, in all. climbs, fits : iterations of L-BFGS a step.
    noise_unknown : whether values are noisy with an unknown sd.
    variational : whether nodes are sought by q (VIQR), not by the surrogate's density (IMIQR).
    """

    batch: int = 5
    few: int | None = None
    draws: int = 1024
    final_draws: int = 8192
    samples: int = 1000
    climbs: int = 16
    fits: int = 15
    noise_unknown: bool = False
    variational: bool = False


@dataclass(frozen=True)
class Row:
    """One record."""

    n_evaluations: int
    seconds: float
    elbo: float
    elbo_sd: float
    log_evidence: float
    log_evidence_sd: float
    effective: float
    shape: float
    components: int
    divergence: float
    """Gaussianised symmetric KL between successive posteriors."""
    prediction_error: float
    """Mean squared standardised error of the last batch's predictions."""
    divergence_floor: float = 0.0
    """The divergence that draws alone would give for two equal posteriors."""
    explored: bool = False
    """Whether exploration is complete."""
    unseen: float = UNEXPLORED.unseen
    """What an unseen mode would add to the log evidence on average, nats."""
    misplaced: float = nan
    """Share of the mass in which the surrogate and the log joint differed at draws (:mod:`comparison`)."""
    covered: bool = True
    """Whether no evaluations tell of mass that q lacks; only a thorough estimate looks for them."""
    beyond: float = 0.0
    """Nats by which the evidence would be larger, were f one sd higher where it is hardly known (`reach`)."""
    missed: float = nan
    """Nats by which the latest predictions were off, by the median."""

    @property
    def known_sd(self) -> float:
        """The sd of the log evidence by the surrogate alone: without unseen modes and ``misplaced``, nats."""
        rest = self.unseen**2 + float(np.nan_to_num(self.misplaced)) ** 2
        return math.sqrt(max(self.log_evidence_sd**2 - rest, 0.0))


@dataclass(frozen=True, eq=False)
class Known:
    """The fields of `State` as they were before its latest evaluations."""

    frame: Frame
    psi: np.ndarray | None
    q: DiagonalMixture | None
    threshold: float | None
    mean: np.ndarray | None
    covariance: np.ndarray | None
    within: np.ndarray | None
    floor: float
    fitted_at: int
    values_from: int
    scaled_at: int


@dataclass(frozen=True, eq=False)
class CheapModel:
    """A cheap model of the log joint at the end of its own run.

    Attributes
    ----------
    evaluations : in the coordinates.
    frame, psi : of its surrogate, and its hyperparameters, or None.
    used : whether its posterior is proper, so that the run begins with its draws.
    """

    evaluations: Evaluations
    frame: Frame
    psi: np.ndarray | None
    used: bool


@dataclass(frozen=True, eq=False)
class State:
    """The state of a run, as arrays and numbers.

    Attributes
    ----------
    evaluations : in the coordinates.
    predicted : (n, 3), mean and variance that each value had before it was seen, NaN for the first; and of
        draws that are compared (:mod:`comparison`) the log weights, NaN for others.
    pending : (m, D), points that were chosen and wait to be evaluated, what is predicted there (m, 3).
    frame, psi, q, threshold : the surrogate's frame, its hyperparameters, the mixture in the frame, and the
        nats below the best value from which values are given noise.
    mean, covariance : moments of the posterior, in the coordinates that the frame straightens.
    within : covariance within its modes there, pooled (:func:`modes.pooled_within`), or None.
    floor : see `moments.PosteriorMoments`.
    fitted_at : how many evaluations there were when hyperparameters were last fitted.
    values_from : how many there were when the run began anew from values alone (:mod:`fresh_start`), or 0.
    scaled_at : how many there were when another dependence of scales on a coordinate was last looked for.
    rows : what was reached.
    before : what was known before the last row: the thorough estimate of the end starts from it.
    explored : what exploration found.
    compared : draws of the latest comparison.
    coordinates : what the coordinates mean; where they are not known, nothing checks a resumed run.
    cheap : what is known of a cheap model, where there is one.
    held_out : evaluations that the user gave and the surrogate is not made of (:mod:`held_out`), or None.
    """

    evaluations: Evaluations
    predicted: np.ndarray
    pending: np.ndarray
    pending_predicted: np.ndarray
    frame: Frame
    psi: np.ndarray | None = None
    q: DiagonalMixture | None = None
    threshold: float | None = None
    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None
    within: np.ndarray | None = None
    floor: float = 0.0
    fitted_at: int = 0
    values_from: int = 0
    scaled_at: int = 0
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    before: Known | None = None
    explored: Explored = UNEXPLORED
    compared: int = 0
    coordinates: Coordinates | None = None
    cheap: CheapModel | None = None
    held_out: Evaluations | None = None

    def __len__(self) -> int:
        return len(self.evaluations)

    @property
    def n_evaluations(self) -> int:
        """All that count in the budget, those that were made again to verify the log joint among them."""
        return self.evaluations.n_evaluations

    @property
    def usable(self) -> Evaluations:
        """The evaluations that the surrogate is conditioned on: none that failed.

        After a fresh start they have no gradients, and no value is higher than those found since.
        """
        made, since = self.evaluations, self.values_from
        if not since:
            return made[~made.failed]
        found = made.values[since:][~made.failed[since:]]
        highest = float(found.max(initial=-np.inf))
        kept = ~made.failed & ((made.values <= highest) | (len(found) == 0))
        return replace(made[kept], gradients=None)

    @property
    def recorded(self) -> bool:
        """Whether the last row is of all evaluations there are."""
        return bool(self.rows) and self.rows[-1].n_evaluations == len(self)

    @property
    def known(self) -> Known:
        """The fields that follow from the evaluations."""
        return Known(**{name: getattr(self, name) for name in _KNOWN})

    def before_last_record(self) -> State:
        """The state as it was before its last record."""
        if not self.recorded or self.before is None:
            return self
        known = {name: getattr(self.before, name) for name in _KNOWN}
        return replace(self, **known, rows=self.rows[:-1], before=None)


_KNOWN = tuple(part.name for part in fields(Known))


@dataclass(frozen=True, eq=False)
class Estimate:
    """What was learned from the evaluations: the surrogate, q, the correction, and the draws beyond."""

    surrogate: Surrogate
    q: DiagonalMixture
    found: Correction
    pool: PooledDraws


def begun(points: np.ndarray, made: Evaluations) -> State:
    """A state with evaluations made before, if any, and the first points (m, D) to evaluate.

    The plausible box is [-1, 1]^D, two standard deviations to either side.
    """
    dimension = points.shape[1]
    frame = Frame(np.zeros(dimension), 0.5 * np.eye(dimension))
    unknown = np.full((len(made), 3), np.nan)
    return State(made, unknown, points, np.full((len(points), 3), np.nan), frame)


def evaluated(state: State, more: Evaluations) -> State:
    """The state with evaluations, of pending points in any order, or of others."""
    rows, left = matched(state.pending, more.points)
    unknown = np.full((1, 3), np.nan)  # the last row has what was predicted at points that were not pending
    predicted = np.concatenate([state.pending_predicted, unknown])[rows].reshape(-1, 3)
    return replace(
        state,
        evaluations=state.evaluations.joined(more),
        predicted=np.concatenate([state.predicted, predicted]),
        pending=state.pending[left],
        pending_predicted=state.pending_predicted[left],
    )


def prediction_error(state: State) -> float:
    """Mean squared standardised error of the latest predictions, drawn to 1 as if by 4 more.

    How many there are, and as how much each counts at most, say `settings.PredictionSettings`.
    """
    gaps = state.evaluations.values - state.predicted[:, 0]
    squares = (gaps**2 / state.predicted[:, 1])[np.isfinite(gaps)][-PREDICTIONS.remembered :]
    return float((4.0 + np.minimum(squares, PREDICTIONS.largest_error).sum()) / (4.0 + len(squares)))


def misplaced(state: State) -> float:
    """Share of the mass in which the log joint and the surrogate differed at the latest draws, or NaN."""
    rows = np.flatnonzero(np.isfinite(state.predicted[:, 2]))[-state.compared :]
    if not 0 < state.compared <= len(rows):
        return nan
    gaps = np.where(state.evaluations.failed, -np.inf, state.evaluations.values - state.predicted[:, 0])[rows]
    weights, ratios = np.exp(state.predicted[rows, 2]), np.exp(np.minimum(gaps, PREDICTIONS.largest_gap))
    return float(weights @ np.abs(ratios - 1.0) / (weights @ (ratios + 1.0)))


def missed(state: State) -> float:
    """Median over the latest predictions of the nats by which they were off; NaN before there are any."""
    gaps = state.evaluations.values - state.predicted[:, 0]
    latest = gaps[np.isfinite(gaps)][-PREDICTIONS.remembered :]
    return float(np.median(np.abs(latest))) if len(latest) else nan


def settled(state: State) -> bool:
    """Whether the posterior has been found: it no longer moves by much, and the draws cover it."""
    last = state.rows[-1] if state.rows else None
    return (
        last is not None and last.divergence < PREDICTIONS.unsettled and last.effective > PREDICTIONS.covering
    )
