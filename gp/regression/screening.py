"""The starting points of a fit of hyperparameters, its objective, and the objective's curvature.

From many starting points short climbs are made on a subset of the data (`gp.search.successive_halving`); the
climb from the best point is continued to its end on all data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import log
from operator import itemgetter

import numpy as np

from gp.linalg import NotPositiveDefiniteError, next_jitter
from gp.regression.problem import EvidenceProblem, SearchCoordinates
from gp.regression.settings import FIT
from gp.search import FAILED, Expansion, Optimum, Search, search, successive_halving

_RANGE = 12**0.5
"""The range of points that are spread evenly, in their standard deviations."""


@dataclass(frozen=True, eq=False)
class InUnits:
    """The log evidence, plus log prior if asked, of psi over a scale; an objective of `gp.search`.

    Attributes
    ----------
    problem : the problem. coordinates : those of psi (P,).
    with_prior : whether the log prior is added. scale : (P,), or a number.
    """

    problem: EvidenceProblem
    coordinates: SearchCoordinates
    with_prior: bool = False
    scale: np.ndarray | float = 1.0

    def value(self, psi: np.ndarray) -> float:
        """The value; a huge negative number where K cannot be factorised."""
        try:
            value = self.problem.objective.value(self.coordinates.vector(self.scale * psi))
        except NotPositiveDefiniteError:
            value = -FAILED
        return value + self.coordinates.prior.log_density(self.scale * psi)[0] if self.with_prior else value

    def expanded(self, psi: np.ndarray) -> Expansion:
        """The value and its gradient; NotPositiveDefiniteError where K cannot be factorised."""
        psi = self.scale * psi
        found = self.problem.objective.expanded(self.coordinates.vector(psi))
        value, slope = self.coordinates.prior.log_density(psi) if self.with_prior else (0.0, 0.0)
        return Expansion(
            found.value + value,
            lambda: self.scale * (self.coordinates.pull_back(found.gradient) + slope),
        )


def screened(
    problem: EvidenceProblem,
    coordinates: SearchCoordinates,
    with_prior: bool,
    n_starts: int,
    max_iterations: int,
    rng: np.random.Generator,
) -> Optimum:
    """Return the best optimum found.

    Parameters
    ----------
    problem : the problem. coordinates : those of the search. with_prior : whether the prior is added.
    n_starts, max_iterations : limits. rng : for the random starting points and the subset of the data.
    """
    small = problem.smaller(300, rng)
    scale = np.where(np.array(coordinates.kinds) == "period", 0.01, 1.0)
    starts = [start / scale for start in _starts(InUnits(small, coordinates, with_prior), n_starts, rng)]
    bounds = coordinates.prior.bounds_lower / scale, coordinates.prior.bounds_upper / scale
    settings = Search(iterations=max_iterations, tempered=100.0)
    last = replace(settings, value_tolerance=1e-10)
    begun, spent = successive_halving(
        InUnits(small, coordinates, with_prior, scale), starts, bounds, settings
    )
    best = search(InUnits(problem, coordinates, with_prior, scale), [begun], bounds, last)
    spent += len(starts) + best.n_evaluations
    return replace(best, psi=scale * best.psi, n_evaluations=spent)


def curvature(problem: EvidenceProblem, coordinates: SearchCoordinates, psi: np.ndarray) -> np.ndarray:
    """Return minus the Hessian (P, P) of the log evidence: differences of exact gradients.

    Where a covariance is nearly singular, rounding makes the gradient rough, and its difference over a
    short step is mostly noise, of either sign. The noise is measured in two ways: the gradient at psi
    should be the average of those a step to either side, up to a third derivative times the step, and
    the Hessian should be symmetric. Where the noise is large, longer steps are tried, and the step with
    the least noise is used. The jitter is that of psi; where the differences fail at every step, because
    the points beside psi require a larger jitter, all are repeated with the next larger one.

    Parameters
    ----------
    problem : the problem. coordinates : those of the search. psi : the point, (P,).
    """
    if not len(psi):
        return np.zeros((0, 0))
    jitter = problem.objective.evidence(coordinates.vector(psi)).factor.jitter
    best, roughness = _smoothest(replace(problem, jitter=jitter), coordinates, psi)
    # not due to rounding alone
    if roughness > 0.05:
        raised = replace(problem, jitter=next_jitter(jitter, psi))
        best = min((best, roughness), _smoothest(raised, coordinates, psi), key=itemgetter(1))[0]
    return (best + best.T) / 2


def _smoothest(
    problem: EvidenceProblem, coordinates: SearchCoordinates, psi: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the Hessian with the least roughness, and this roughness."""

    def gradient(at: np.ndarray) -> np.ndarray:
        return InUnits(problem, coordinates).expanded(at).gradient

    centre, best, least = gradient(psi), np.zeros((0, 0)), np.inf
    for step in (1e-3, 1e-2, 3e-2, 0.1):
        moves = step * np.eye(len(psi))
        ahead = np.array([gradient(psi + move) for move in moves])
        behind = np.array([gradient(psi - move) for move in moves])
        hessian = (behind - ahead) / (2 * step)
        uneven = np.abs(ahead + behind - 2 * centre) / (2 * step)
        size = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1.0))
        roughness = float(np.max(np.maximum(uneven, np.abs(hessian - hessian.T)) / np.outer(size, size)))
        if roughness < least:
            best, least = hessian, roughness
        if least < 0.01:
            break
    return best, least


def _starts(objective: InUnits, n_starts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the starting points: the present values, then in turn one of a grid and a random one.

    Those of a larger number begin with those of a smaller one. Not the grid's best point alone is used, as
    the value before a climb predicts its end badly. The random ones have short lengthscales, different in
    each dimension: from there a climb finds which dimensions have an effect, whereas the gradient in a long
    lengthscale vanishes.
    """
    problem, kinds = objective.problem, np.array(objective.coordinates.kinds)
    prior, noise = objective.coordinates.prior, kinds == "noise"

    def ranked(places: list[np.ndarray]) -> list[np.ndarray]:
        values = [objective.value(psi) for psi in places]
        return [places[i] for i in np.argsort(values, kind="stable")[::-1]]

    present = objective.coordinates.psi(problem.pack())
    smaller = (0.0, log(1e-2), log(1e-4)) if problem.noise is None else (0.0,)
    starts = ranked([present + step * noise for step in smaller])[:1]
    if n_starts == 1:
        return starts
    grid = []
    for lengthscale, variance in product(FIT.grid_lengthscales, (log(1e-4), log(0.1))):
        psi = np.where(noise, variance, 0.0)
        psi[kinds == "lengthscale"] = lengthscale + 0.5 * log(problem.points.shape[1])
        grid.append(psi)
    grid = ranked(grid)
    if "period" in kinds:
        # periods show as far as values are related, and other periods are noise
        wide = (kinds == "lengthscale") | noise
        longest = max(grid, key=lambda psi: psi[wide].sum())
        starts += _scanned(objective, longest)
    while len(starts) < n_starts:
        starts += grid[:1]
        grid = grid[1:]
        psi = rng.standard_normal(len(kinds))
        for kind, (lower, upper) in (
            ("lengthscale", FIT.random_lengthscales),
            ("noise", (log(1e-4), log(0.3))),
        ):
            psi[kinds == kind] = rng.uniform(lower, upper, np.sum(kinds == kind))
        periods = kinds == "period"
        psi[periods] = rng.uniform(prior.lower[periods], prior.upper[periods])
        starts.append(np.clip(psi, prior.bounds_lower, prior.bounds_upper))
    return starts[:n_starts]


def _scanned(objective: InUnits, psi: np.ndarray) -> list[np.ndarray]:
    """Return the best places of scans of the periods, one after the other from the three best so far.

    The evidence has a peak of width 1 / range in the frequency, and as many peaks as the data have
    cycles: a climb from another period does not lead there. Frequencies are a quarter of that width apart, up
    to one a point.
    """
    prior, kinds = objective.coordinates.prior, np.array(objective.coordinates.kinds)
    scans, best = np.flatnonzero(kinds == "period"), [psi]
    for index in (*scans, *scans[:-1]):  # again those that were scanned beside periods of no meaning
        frequencies = np.arange(0.25, min(len(objective.problem.points), 150), 0.25) / _RANGE
        periods = -np.log(frequencies)
        periods = periods[(periods > prior.bounds_lower[index]) & (periods < prior.bounds_upper[index])]
        found = dict[tuple[float, ...], float]()
        for start in best[: max(6 // len(scans), 1)]:
            places = np.tile(start, (len(periods), 1))
            places[:, index] = periods
            values = np.array([objective.value(at) for at in places])
            peaks = [i for i in range(len(values)) if values[i] >= values[max(i - 1, 0) : i + 2].max()]
            found |= {tuple(places[i]): values[i] for i in peaks}
        best = [np.array(at) for at in sorted(found, key=lambda at: -found[at])[:3]] or best
    return best
