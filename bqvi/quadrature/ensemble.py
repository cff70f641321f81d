"""Several surrogates of one integrand, weighed by evidence.

Candidates are charts x families (:mod:`surrogate`): smooth functions on the standard axes, on
axes rotated to the directions along which the integrand varies, and on the cube; rough functions on the cube;
functions that grow in the tails; in many dimensions, sums of functions of few coordinates; and functions with
narrow peaks (:mod:`peaks`). The candidate is treated as a hyperparameter: each is fitted, and the integral is
a mixture over candidates and, within each, over hyperparameters drawn
from a Laplace approximation with importance weights. Its variance is the sum of the variance given the
hyperparameters and that due to the hyperparameters:

    mean = sum w_j m_j,     covariance = sum w_j (C_j + (m_j - mean)(m_j - mean)^T).

A rotation is fitted with its D(D-1)/2 angles, for each of which its log evidence is lowered by log(n)/2
(Schwarz 1978). It comes from the principal directions of E[grad f grad f^T] (active subspaces;
Constantine 2015), estimated from the unrotated surrogate, and is kept while it remains the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bqvi.quadrature.peaks import PEAKED, PeakFamily, chart_of_peaks, penalty, with_peaks
from bqvi.quadrature.settings import PRECISE, SEARCH, Effort
from bqvi.quadrature.surrogate import (
    ROUGH,
    SMOOTH,
    SPARSE,
    TILTED,
    AffineChart,
    CandidateProcess,
    KernelFamily,
    MeasureChart,
    StandardData,
    cube,
    fitted,
    identity,
    rotated,
    short_start,
    starting_points,
    surrogate,
)
from bqvi.runs.settings import ENGINES
from gp.fixed_points.gram import MOST_PAIRED
from gp.laplace import curvature, root, weighed
from gp.low_discrepancy import normal_sobol
from gp.matrices import spectrum
from gp.measures import Gaussian, GaussianMixture, Measure, Uniform

Moments: TypeAlias = Callable[[CandidateProcess], tuple[np.ndarray, np.ndarray]]
"""A function of a surrogate that returns the mean (o,) and the covariance (o, o) of the integral."""


PLAIN, TURNED, TILTED_AXES = "axes", "turned", "axes, tilted"


@dataclass(frozen=True, eq=False)
class Fits:
    """Hyperparameters of each candidate, from which the next fit starts.

    Attributes
    ----------
    hyperparameters : psi (D + 1,) by name, for all candidates so far. rotation : R (D, D), or ``None``.
    left_out_next : names of candidates that the next fit leaves out.
    peaks : centres (J, D) and matrices (J, D, D) of the candidate with peaks, or ``None``.
    """

    hyperparameters: Mapping[str, np.ndarray]
    rotation: np.ndarray | None = None
    left_out_next: tuple[str, ...] = ()
    peaks: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Fitted candidates, best first, and the logarithms of their weights (unnormalised)."""

    members: tuple[CandidateProcess, ...]
    scores: np.ndarray

    @property
    def best(self) -> CandidateProcess:
        """The candidate with the highest evidence."""
        return self.members[0]

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights, (J,)."""
        weights = np.exp(self.scores - self.scores[0])
        return weights / weights.sum()

    @property
    def growth(self) -> float:
        """Log evidence of functions that grow in the tails less that of the best other; -inf without both."""
        grows = np.array([member.name == TILTED_AXES for member in self.members])
        if grows.all() or not grows.any():
            return -np.inf
        return float(self.scores[grows].max() - self.scores[~grows].max())

    def fits(self, earlier: Fits | None = None) -> Fits:
        """Return the hyperparameters from which the next fit starts."""
        hyperparameters = {} if earlier is None else dict(earlier.hyperparameters)
        hyperparameters |= {member.name: member.psi for member in self.members}
        rotation, peaks = (None, None) if earlier is None else (earlier.rotation, earlier.peaks)
        for member in self.members:
            if member.name == TURNED and isinstance(member.chart, AffineChart):
                rotation = member.chart.rotation
            if isinstance(member.family, PeakFamily):
                peaks = member.family.centres, member.family.matrices
        behind = self.scores[0] - self.scores
        left_out_next = [
            m.name for m, nats in zip(self.members, behind, strict=True) if nats > ENGINES.behind
        ]
        if self.best.name == TILTED_AXES and PLAIN in left_out_next:
            left_out_next.remove(PLAIN)  # kept, as `growth` compares the two
        return Fits(hyperparameters, rotation, tuple(left_out_next), peaks)

    def integral(self, moments: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (o,) and covariance (o, o) with hyperparameters at their optima."""
        kept = self.scores >= self.scores[0] - ENGINES.behind
        members = [member for member, keep in zip(self.members, kept, strict=True) if keep]
        weights = self.weights[kept]
        return _mixture([moments(member) for member in members], weights / weights.sum())

    def marginal_integral(self, moments_of: Moments, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (o,) and covariance (o, o) over candidates and their hyperparameters."""
        moments, weights = [], []
        for member, weight, score in zip(self.members, self.weights, self.scores, strict=True):
            if score < self.scores[0] - ENGINES.behind:
                continue
            drawn, within = _marginal(member, moments_of, max(1, round(weight * draws)), seed)
            moments += drawn
            weights += list(weight * within)
        return _mixture(moments, np.array(weights) / np.sum(weights))


def _candidates(measure: Measure, smooth_only: bool = False) -> dict[str, tuple[MeasureChart, KernelFamily]]:
    """Charts x families with embeddings against a standardised measure, without those on rotated axes.

    Under a Gaussian rough functions are on the cube alone.

    Parameters
    ----------
    measure : the measure in standard coordinates.
    smooth_only : whether the squared exponential on the axes is the only one, as for gradients and warped f.
    """
    plain = identity(measure)
    found: dict[str, tuple[MeasureChart, KernelFamily]] = {PLAIN: (plain, SMOOTH)}
    if isinstance(measure, Gaussian | Uniform) and not smooth_only and measure.dimension >= SEARCH.many:
        found["axes, sparse"] = (plain, SPARSE)
    if isinstance(measure, Gaussian | GaussianMixture) and not smooth_only:
        found[TILTED_AXES] = (plain, TILTED)
    if isinstance(measure, Gaussian) and not smooth_only:
        box = cube(measure.dimension)
        found["cube"], found["cube, rough"] = (box, SMOOTH), (box, ROUGH)
    if isinstance(measure, Uniform) and not smooth_only:
        found["axes, rough"] = (plain, ROUGH)
    return found


def fit(
    measure: Measure, data: StandardData, earlier: Fits | None = None, effort: Effort = PRECISE
) -> Ensemble:
    """Fit the candidates for a standardised measure to data, starting also from their earlier optima.

    ``effort`` : `ROUGHLY` suffices where more data are to come.

    Of more than ``MOST_PAIRED`` nodes so many, evenly spread over the order of evaluation, determine
    the hyperparameters; scale, mean and weights follow from all of them.
    """
    earlier = Fits({}) if earlier is None else earlier
    if len(data) > MOST_PAIRED:
        rows = np.linspace(0, len(data) - 1, MOST_PAIRED).astype(int)
        return condition(measure, data, fit(measure, data.among(rows), earlier, effort).fits(earlier))
    members: list[CandidateProcess] = []
    known = _candidates(measure, data.smooth_only)
    turns = measure.dimension > 1 and isinstance(measure, Gaussian | GaussianMixture)
    for name in [*known, *([TURNED] if turns else [])]:
        seen = name in earlier.hyperparameters
        if name in earlier.left_out_next:
            continue
        if name == TURNED:
            plain = next((m for m in members if m.name == PLAIN), None)
            members.append(_turned(measure, data, plain, earlier, effort))
            continue
        starts = [earlier.hyperparameters[name]] if seen else []
        starts += starting_points(measure.dimension, data.noisy) if effort.climbs > 1 or not seen else []
        if not data.centred or len(data) > (4.0 / SEARCH.short_lengthscale) ** measure.dimension:
            starts.append(short_start(measure.dimension))
        first = surrogate(name, *known[name], data, starts[0])
        members.append(fitted([first.at(start) for start in starts], effort, seen))
    return _weighed(members + _with_peaks(measure, members, data, earlier, effort))


def condition(measure: Measure, data: StandardData, earlier: Fits) -> Ensemble:
    """Condition the candidates on more data with unchanged hyperparameters.

    Parameters
    ----------
    measure : in standard coordinates. data : the nodes (n, D), and values (n, o) in units in which they vary
        by about 1.
    earlier : the hyperparameters of the last fit, by the names of candidates.
    """
    known = _candidates(measure, data.smooth_only)
    if earlier.rotation is not None:
        known[TURNED] = rotated(measure, earlier.rotation), SMOOTH
    if earlier.peaks is not None:
        known[PEAKED] = chart_of_peaks(measure), PeakFamily(*earlier.peaks)
    # not a list that is kept here: its members would keep the matrices that `_weighed` lets go of
    return _weighed(
        surrogate(name, *known[name], data, psi)
        for name, psi in earlier.hyperparameters.items()
        if name in known and name not in earlier.left_out_next
    )


def _weighed(candidates: Iterable[CandidateProcess]) -> Ensemble:
    """Put candidates in order of their penalised evidence; those far behind do not keep their matrices."""
    members = list(candidates)
    scores = np.full(len(members), -np.inf)
    for i in range(len(members)):
        scores[i] = _score(members[i])
        for j in np.flatnonzero(scores[: i + 1] < scores.max() - ENGINES.behind):
            members[j] = members[j].at(members[j].psi)
    order = np.argsort(-scores, kind="stable")
    return Ensemble(tuple(members[i] for i in order), scores[order])


def _score(member: CandidateProcess) -> float:
    """The penalised evidence; -inf where new nodes left a covariance matrix that cannot be factorised."""
    try:
        evidence = member.log_posterior
    except np.linalg.LinAlgError:
        return -np.inf
    if member.name == PEAKED:
        return evidence - penalty(member)
    turned = member.name == TURNED
    angles = member.dimension * (member.dimension - 1) / 2 if turned else 0.0
    return evidence - 0.5 * angles * float(np.log(len(member.data)))


def _turned(
    measure: Measure, data: StandardData, plain: CandidateProcess | None, earlier: Fits, effort: Effort
) -> CandidateProcess:
    """The smooth surrogate on rotated axes, along which the integrand varies most and least.

    The axes are found from the plain surrogate, or are those of the earlier fit.
    """
    starts = []
    if earlier.rotation is not None:
        chart = rotated(measure, earlier.rotation)
        starts.append(surrogate(TURNED, chart, SMOOTH, data, earlier.hyperparameters[TURNED]))
    source = starts[0] if plain is None else plain
    starts += _along_slopes(measure, source)
    return fitted(starts, effort, earlier.rotation is not None)


def _with_peaks(
    measure: Measure, members: list[CandidateProcess], data: StandardData, earlier: Fits, effort: Effort
) -> list[CandidateProcess]:
    """The surrogate of functions with narrow peaks, where there are such peaks."""
    suited = isinstance(measure, Gaussian | GaussianMixture | Uniform) and not data.smooth_only
    if not suited or PEAKED in earlier.left_out_next:
        return []
    errors = None
    if earlier.peaks is None:
        errors = np.linalg.norm(_weighed(members).best.process.leave_one_out()[0], axis=1)
    known = None if earlier.peaks is None else (*earlier.peaks, earlier.hyperparameters[PEAKED])
    found = with_peaks(measure, data, errors, known, effort)
    return [] if found is None else [found]


def _along_slopes(measure: Measure, source: CandidateProcess) -> list[CandidateProcess]:
    """Unfitted surrogates on the principal axes of the slopes of ``source``."""
    slopes = source.slopes() / np.sqrt(source.process.scales)
    assert isinstance(source.chart, AffineChart)  # the standard and the rotated axes have affine charts
    gram = np.einsum("ndo,neo->de", slopes, slopes) / len(slopes)
    values, directions = spectrum(gram, 0.0)
    largest = max(float(values.max()), 1e-300)
    ratios = np.sqrt(largest / np.maximum(values, 1e-12 * largest))  # the bounds of the search limit them
    lengths, noise = source.psi[:-1], source.psi[-1]
    chart = rotated(measure, source.chart.rotation @ directions)
    equal = np.full(measure.dimension, float(np.median(lengths)))
    unequal = float(lengths.min()) + np.log(ratios)
    first = surrogate(TURNED, chart, SMOOTH, source.data, np.append(equal, noise))
    return [first, first.at(np.append(unequal, noise))]


def _mixture(
    moments: list[tuple[np.ndarray, np.ndarray]], weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    means = np.stack([mean for mean, _ in moments])
    mean = weights @ means
    within = np.einsum("j,jop->op", weights, np.stack([covariance for _, covariance in moments]))
    centred = means - mean
    return mean, within + (weights[:, None] * centred).T @ centred


def _marginal(
    member: CandidateProcess, moments_of: Moments, draws: int, seed: int
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Moments at the optimum and at ``draws`` hyperparameters about it, with normalised weights."""
    lower, upper = member.bounds()

    def evaluate(psi: np.ndarray) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        drawn = member.at(np.clip(psi, lower, upper))
        return drawn.log_posterior, moments_of(drawn)

    at_mode = member.log_posterior, moments_of(member)
    steps = normal_sobol(len(member.psi), draws, seed)
    return weighed(evaluate, member.psi, at_mode, _laplace_root(member), steps, 3.0)


def _laplace_root(member: CandidateProcess) -> np.ndarray:
    """R with R R^T the covariance of Laplace's approximation of the hyperparameters' posterior.

    Where the nodes are many the curvature is the average information, for which one inverse is needed.
    """

    def gradients(points: np.ndarray) -> np.ndarray:
        return np.array([member.objective.expanded(psi).gradient for psi in points])

    average = None
    if len(member.data) > MOST_PAIRED:
        average = member.objective.expanded(member.psi).find_curvature
    found = curvature(gradients, member.psi, 0.02) if average is None else average()
    return root(found + SEARCH.prior_precision * np.eye(len(found)), SEARCH.prior_precision)
