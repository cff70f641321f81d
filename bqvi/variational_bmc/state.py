"""The state of a run between steps: evaluations, frame, hyperparameters, mixture, records.

The state consists of arrays and numbers, so that it is saved without pickles and a resumed run is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.coordinates import Coordinates
from bqvi.calls.table import matched
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.correction import Correction, PooledDraws
from bqvi.variational_bmc.exploration import UNEXPLORED, Explored
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.settings import PREDICTIONS
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture


@dataclass(frozen=True)
class Settings:
    """The settings of the loop; defaults were chosen on problems other than those reported.

    Attributes
    ----------
    batch : the number of evaluations of a step.
    few : the same until the posterior has been found; by default 2, with gradients 1.
    draws, draws_with_gradients, final_draws : the numbers of draws of a correction, of one where there are
        gradients and the posterior has been found, and of the last one.
    samples : the total number of base points of the entropy.
    climbs, fits : the iterations of L-BFGS in a step, for q and for the hyperparameters.
    noise_unknown : whether values are noisy with an unknown standard deviation.
    variational : whether points are chosen by q (VIQR), not by the surrogate's density (IMIQR).
    """

    batch: int = 5
    few: int | None = None
    draws: int = 1024
    draws_with_gradients: int = 2048
    final_draws: int = 8192
    samples: int = 1000
    climbs: int = 16
    fits: int = 15
    noise_unknown: bool = False
    variational: bool = False


@dataclass(frozen=True)
class InferenceStep:
    """What the inference of a step is made with.

    Attributes
    ----------
    settings, seed : the settings of the loop, and the seed of the step.
    final : whether the estimate is the thorough one. tolerance : the sd of the log evidence asked for, nats.
    restarted : whether hyperparameters were fitted to the same evaluations in this step before.
    """

    settings: Settings
    seed: int
    final: bool = False
    restarted: bool = False
    tolerance: float = 0.0


@dataclass(frozen=True)
class Row:
    """One record of a run."""

    n_evaluations: int
    seconds: float
    elbo: float
    elbo_sd: float
    """The sd of the log evidence, nats, without what unseen modes may add."""
    log_evidence: float
    log_evidence_sd: float
    effective_share: float
    pareto_k: float
    n_components: int
    divergence: float
    """The Gaussianised symmetric KL divergence between successive posteriors."""
    prediction_error: float
    """The mean squared standardised error of the latest predictions."""
    divergence_floor: float = 0.0
    """The expected divergence between draws of two equal posteriors."""
    explored: bool = False
    """Whether exploration is complete."""
    unseen: float = UNEXPLORED.unseen
    """The nats that unseen modes are expected to add to the log evidence."""
    hidden: float = 0.0
    """The part of these for modes that no evaluation would have shown, which the sd does not contain."""
    total_variation: float = nan
    """The total variation distance of surrogate and log joint, estimated at draws (:mod:`stopping`)."""
    tested: int = 0
    """The number of evaluations of the record whose claim was tested last, or 0 (:mod:`stopping`)."""
    beyond: float = 0.0
    """The rise of the log evidence, nats, if f were one sd higher where its sd is large (`correction`)."""


_KNOWN = (
    "frame", "psi", "q", "threshold", "mean", "covariance", "within", "floor", "fitted_at", "scaled_at",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class CheapModel:
    """A cheap model of the log joint at the end of its own run.

    Attributes
    ----------
    evaluations : the evaluations of the cheap model, in the coordinates.
    frame, psi : the frame of its surrogate, and the hyperparameters, or None.
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
    evaluations : the n evaluations, in the coordinates.
    predicted : for each value its predicted mean and variance before the evaluation, NaN for the first ones,
        and the log weight of a point of a test of convergence (:mod:`stopping`), NaN for others; (n, 3).
    pending, pending_predicted : the points (m, D) that were chosen and not yet evaluated, and the predictions
        there (m, 3).
    frame, psi, q, threshold : the surrogate's frame, its hyperparameters, the mixture in the frame, and the
        depth below the best value, in nats, from which values are given noise.
    mean, covariance : the moments of the posterior, in the coordinates y of the frame.
    within : the pooled covariance within its modes there (:func:`exploration.pooled_within`), or None.
    floor : see `correction.PosteriorMoments`.
    fitted_at : the number of evaluations when hyperparameters were last fitted.
    given : the number of evaluations made before the run and given to it.
    scaled_at : the number of evaluations when another map of scales was last tried.
    fits_at : the number of evaluations at the first fit of a step whose exploration was cut short, or 0.
    rows : the records. seconds : the duration so far.
    before : the fields `known` before the last record, from which the thorough estimate of the end starts.
    exploration : the result of exploration.
    compared : the number of points of the latest test of convergence.
    tested : the number of evaluations of the record that it tests, or 0.
    coordinates : the coordinates of the parameters; if None, those of a resumed run are not checked.
    cheap : the cheap model, where there is one.
    held_out : the evaluations that the user gave and the surrogate does not use (:mod:`result`), or None.
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
    given: int = 0
    scaled_at: int = 0
    fits_at: int = 0
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    before: Mapping[str, Any] | None = None
    exploration: Explored = UNEXPLORED
    compared: int = 0
    tested: int = 0
    coordinates: Coordinates | None = None
    cheap: CheapModel | None = None
    held_out: Evaluations | None = None

    def __len__(self) -> int:
        return len(self.evaluations)

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations that count in the budget, including those repeated for verification."""
        return self.evaluations.n_evaluations

    @property
    def n_cheap_evaluations(self) -> int:
        """The number of evaluations of the cheap model, which do not count in the budget."""
        return 0 if self.cheap is None else self.cheap.evaluations.n_evaluations

    @property
    def usable(self) -> Evaluations:
        """The evaluations that the surrogate is conditioned on: none that failed, and none below a cliff."""
        made = self.evaluations.censored
        return made[~made.failed]

    @property
    def recorded(self) -> bool:
        """Whether the last record is based on all evaluations."""
        return bool(self.rows) and self.rows[-1].n_evaluations == len(self)

    @property
    def known(self) -> Mapping[str, Any]:
        """The fields that are determined by the evaluations."""
        return {name: getattr(self, name) for name in _KNOWN}

    @property
    def begun(self) -> State:
        """The state with the evaluations of the first fit of the step only."""
        if not 0 < self.fits_at < len(self):
            return self
        first = np.arange(self.fits_at)
        return replace(self, evaluations=self.evaluations[first], predicted=self.predicted[first])

    def before_last_record(self) -> State:
        """The state before its last record."""
        if not self.recorded or self.before is None:
            return self
        return replace(self, **self.before, rows=self.rows[:-1], before=None)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimate from the evaluations: the surrogate, q, the correction, and the pool of draws."""

    surrogate: Surrogate
    q: DiagonalMixture
    found: Correction
    pool: PooledDraws


def begun(points: np.ndarray, made: Evaluations) -> State:
    """The state with earlier evaluations ``made``, if any, and the first pending points (m, D).

    The plausible box is [-1, 1]^D, two standard deviations to either side.
    """
    dimension = points.shape[1]
    frame = Frame(np.zeros(dimension), 0.5 * np.eye(dimension))
    unknown = np.full((len(made), 3), np.nan)
    return State(made, unknown, points, np.full((len(points), 3), np.nan), frame, given=len(made))


def evaluated(state: State, more: Evaluations) -> State:
    """The state with further evaluations ``more``, at pending points in any order or at other points."""
    rows, remaining = matched(state.pending, more.points)
    unknown = np.full((1, 3), np.nan)  # the last row has what was predicted at points that were not pending
    predicted = np.concatenate([state.pending_predicted, unknown])[rows].reshape(-1, 3)
    return replace(
        state,
        evaluations=state.evaluations.joined(more),
        predicted=np.concatenate([state.predicted, predicted]),
        pending=state.pending[remaining],
        pending_predicted=state.pending_predicted[remaining],
    )


def observation_noise(state: State, estimate: Estimate) -> float:
    """The variance of the noise of one value, nats squared."""
    noise = estimate.surrogate.fitted_noise
    if state.evaluations.noise_variance is not None:
        noise += float(np.nanmedian(state.evaluations.noise_variance))
    return noise


def with_pending(state: State, points: np.ndarray, predicted: np.ndarray | None = None) -> State:
    """The state with further pending points (m, D), and the predictions there (m, 3) or None."""
    if predicted is None:
        predicted = np.full((len(points), 3), np.nan)
    return replace(
        state,
        pending=np.concatenate([state.pending, points]),
        pending_predicted=np.concatenate([state.pending_predicted, predicted]),
    )


def prediction_error(state: State) -> float:
    """The mean squared standardised error of the latest predictions, shrunk towards 1 as by 4 more.

    `PredictionSettings` has the number of predictions, and the largest error that each counts as. Points of
    an answer widened do not count, as they may lie where there is no mass (:mod:`stopping`).
    """
    gaps = state.evaluations.censored.values - state.predicted[:, 0]
    counts = np.isfinite(gaps) & (state.predicted[:, 2] != -np.inf)
    latest = np.flatnonzero(counts)[-PREDICTIONS.remembered :]
    squares = np.minimum(gaps[latest] ** 2 / state.predicted[latest, 1], PREDICTIONS.largest_error)
    return float((4.0 + squares.sum()) / (4.0 + len(squares)))


def total_variation(state: State) -> float:
    """The total variation distance of log joint and surrogate, by the draws of the latest test.

    NaN while the test has not been made. Points without weight are no draws.
    """
    rows = np.flatnonzero(~np.isnan(state.predicted[:, 2]))[-state.compared :]
    if not 0 < state.compared <= len(rows):
        return nan
    rows = rows[np.isfinite(state.predicted[rows, 2])]
    made = state.evaluations.censored
    gaps = np.where(made.failed, -np.inf, made.values - state.predicted[:, 0])[rows]
    logs = np.stack([state.predicted[rows, 2], state.predicted[rows, 2] + gaps])
    surrogate, found = np.exp(logs - logs.max())
    return float(np.abs(found - surrogate).sum() / (found + surrogate).sum())


def settled(state: State) -> bool:
    """Whether the posterior has been found: it hardly changes, and the draws cover it."""
    last = state.rows[-1] if state.rows else None
    return last is not None and last.divergence < ENGINES.counts and last.effective_share > 0.05
