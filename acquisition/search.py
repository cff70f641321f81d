"""The search of the maximum of an acquisition on a continuous domain.

1. *Candidates*: a low-discrepancy set, mapped to the measure with a new shift in each search, points around
   the present nodes (for peaks where the measure has little mass), and the best of earlier searches.
2. *Ascents* from the best few candidates at some distance from each other, made together, with gradients in
   closed form. Each has its own inverse Hessian (BFGS) and its own step length, and the function is evaluated
   at all points in one call, which for a Gaussian process costs little more than at one. A trial step that
   gains too little is shortened, and evaluated together with the next steps of the other points. Coordinates
   at a bound whose gradient points outwards are held there.

Both are in the measure's standard coordinates u, in which its mean is 0 and its covariance I, and in a box:
that of a uniform measure, otherwise ``radius`` standard deviations around the mean. The box excludes the
tails, where a stationary surrogate has no information and the measure no mass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from acquisition.pointwise import Acquisition
from gp.arrays import Array, as_like, to_numpy
from gp.checks import require_integer
from gp.low_discrepancy import shifted_sobol
from gp.measures import AffineMap, Empirical, GaussianMixture, Measure, Seed, Uniform
from gp.threads import single_threaded


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    x : (1, D), the best point, of the posterior's kind of array.
    score : its score.
    others : (m, D), the ends of the other ascents, best first: starts for the next search.
    """

    x: Array
    score: float
    others: Array


@dataclass(frozen=True, eq=False)
class Domain:
    """A box in the measure's standard coordinates, and the map to points.

    Attributes
    ----------
    map : x = map.from_standard(u)
    lower, upper : (D,), in standard coordinates.
    corners : lower and upper corner (D,) in x, where the domain is a box there; else ``None``.
    """

    map: AffineMap
    lower: np.ndarray
    upper: np.ndarray
    corners: tuple[np.ndarray, np.ndarray] | None = None

    def points(self, u: np.ndarray) -> np.ndarray:
        """Return the points x (m, D) of standard coordinates u (m, D)."""
        x: np.ndarray = self.map.shift + u @ self.map.scale.T
        return x if self.corners is None else np.clip(x, *self.corners)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Return the standard coordinates (m, D) of points x, moved into the box."""
        return self.inside(self.map.to_standard(x))

    def inside(self, u: np.ndarray) -> np.ndarray:
        """Return standard coordinates u (m, D), moved into the box."""
        return np.minimum(np.maximum(u, self.lower), self.upper)


def domain_of(measure: Measure, radius: float = 4.0) -> Domain:
    """Return the domain of a search: the measure's box, or ``radius`` standard deviations around its mean."""
    if isinstance(measure, Empirical):
        return _hull(measure)
    standard = measure.standardise()
    to_x = AffineMap(to_numpy(standard.map.shift), to_numpy(standard.map.scale))
    one = np.ones(measure.dimension)
    if isinstance(measure, Uniform):
        corners = (to_numpy(measure.lower), to_numpy(measure.upper))
        return Domain(to_x, -np.sqrt(3) * one, np.sqrt(3) * one, corners)
    if isinstance(standard.measure, GaussianMixture):
        means = to_numpy(standard.measure.means)
        variances = np.diagonal(to_numpy(standard.measure.covariances), axis1=1, axis2=2)
        widths = radius * np.sqrt(variances)
        return Domain(to_x, (means - widths).min(axis=0), (means + widths).max(axis=0))
    return Domain(to_x, -radius * one, radius * one)


def _hull(measure: Empirical) -> Domain:
    """The smallest box around finitely many points, which may lie in a subspace."""
    points = to_numpy(measure.points)
    lower, upper = points.min(axis=0), points.max(axis=0)
    sd = np.sqrt(np.diagonal(to_numpy(measure.covariance)))
    scale = np.where(sd > 0, sd, 1.0)
    mean = to_numpy(measure.mean)
    to_x = AffineMap(mean, np.diag(scale))
    return Domain(to_x, (lower - mean) / scale, (upper - mean) / scale, (lower, upper))


@dataclass(frozen=True)
class ContinuousSearch:
    """Settings of a search; call :meth:`maximise`.

    By default a search stops within a few per cent of a local maximum: exact maxima gave no smaller integral
    variance after 50 nodes in D = 1, 2, 5 and 10, and took twice the time.

    Attributes
    ----------
    candidates : the number of points that are scored first.
    near_nodes : the share of them around nodes.
    ascents : the number of ascents.
    max_evaluations : the most evaluations of the acquisition and its gradient, all ascents together counted
        as one.
    tolerance : an ascent ends when its expected gain in score is less than this: a relative gain where scores
        are logarithms, otherwise a share of the scores' range over the candidates.
    radius : half the width of the domain, in standard deviations of the measure.
    first_step : length of an ascent's first step, in the standard deviations of the measure.
    """

    candidates: int = 192
    near_nodes: float = 0.25
    ascents: int = 3
    max_evaluations: int = 6
    tolerance: float = 3e-2
    radius: float = 4.0
    first_step: float = field(default=0.2, repr=False)

    def __post_init__(self) -> None:
        for name in ("candidates", "ascents", "max_evaluations"):
            require_integer(name, getattr(self, name), 1)
        if not 0 <= self.near_nodes <= 1:
            raise ValueError(f"near_nodes = {self.near_nodes!r}: give a share in [0, 1]")
        for name in ("tolerance", "radius", "first_step"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} = {getattr(self, name)!r}: give a positive number")

    @single_threaded()
    def maximise(self, acquisition: Acquisition, seed: Seed, *, starts: Array | None = None) -> SearchResult:
        """Return the best point found.

        Parameters
        ----------
        acquisition : the acquisition that is maximised.
        seed : seed of the candidates; the same seed gives the same point.
        starts : (m, D), points to score beside the candidates, such as ``SearchResult.others``.
        """
        rng, domain = np.random.default_rng(seed), domain_of(acquisition.measure, self.radius)
        like = acquisition.posterior.x
        u = self._candidates(acquisition, domain, rng, starts)
        scores = to_numpy(acquisition.score(as_like(domain.points(u), like)))
        scores = np.where(np.isnan(scores), -np.inf, scores)
        chosen = _best_apart(u, scores, self.ascents)

        def climbed(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            score, gradient = acquisition.score_and_gradient(as_like(domain.points(u), like))
            return to_numpy(score), to_numpy(gradient) @ domain.map.scale

        ends = ascend(
            climbed,
            u[chosen],
            domain.lower,
            domain.upper,
            first_step=self.first_step,
            tolerance=self.tolerance * _unit(acquisition, scores),
            max_evaluations=self.max_evaluations,
        )
        order = np.argsort(-ends.values, kind="stable")
        points = as_like(domain.points(ends.points[order]), like)
        return SearchResult(points[:1, :], float(ends.values[order[0]]), points[1:, :])

    def _candidates(
        self, acquisition: Acquisition, domain: Domain, rng: np.random.Generator, starts: Array | None
    ) -> np.ndarray:
        """Standard coordinates (m, D) of the candidates and starts, in the box."""
        measure, nodes = acquisition.measure, to_numpy(acquisition.posterior.x)
        local = round(self.near_nodes * self.candidates) if len(nodes) else 0
        spread = max(self.candidates - local, 1)
        cube = shifted_sobol(measure.dimension, spread, rng)
        mapped = to_numpy(measure.from_unit_cube(as_like(cube, measure.mean)))
        parts = [domain.coordinates(mapped)]
        if local:
            centres = domain.coordinates(nodes[rng.integers(len(nodes), size=local)])
            sds = np.exp(rng.uniform(np.log(0.05), np.log(1.0), size=(local, 1)))  # in the measure's units
            parts.append(centres + sds * rng.standard_normal(centres.shape))
        if starts is not None and len(starts):
            parts.append(domain.coordinates(to_numpy(starts)))
        return domain.inside(np.concatenate(parts))


def _unit(acquisition: Acquisition, scores: np.ndarray) -> float:
    """The unit of a tolerance: 1 for logarithms, otherwise the range of the candidates' scores."""
    if acquisition.criterion.logarithmic:
        return 1.0
    finite = scores[np.isfinite(scores)]
    return float(np.ptp(finite)) if finite.size else 1.0


def _best_apart(u: np.ndarray, scores: np.ndarray, count: int) -> np.ndarray:
    """Indices of the ``count`` best candidates apart from each other, as ascents from close ones coincide."""
    order = np.argsort(-scores, kind="stable")[: 8 * count]
    chosen = [int(order[0])]
    distance = 0.25 * np.sqrt(u.shape[1])
    for index in order[1:]:
        if len(chosen) == count:
            break
        gaps = u[chosen] - u[index]
        if np.min(np.einsum("md,md->m", gaps, gaps)) > distance**2:
            chosen.append(int(index))
    return np.array(chosen)


Function: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Ascent:
    """The ends of M ascents.

    Attributes
    ----------
    points : (M, D)
    values : (M,)
    n_evaluations : the number of calls of the function.
    """

    points: np.ndarray
    values: np.ndarray
    n_evaluations: int


def ascend(
    function: Function,
    starts: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    first_step: float,
    tolerance: float,
    max_evaluations: int,
) -> Ascent:
    """Return local maxima of a function in a box, one for each start.

    Parameters
    ----------
    function : a function of points (M, D) that returns values (M,) and gradients (M, D).
    starts : (M, D), in the box.
    lower, upper : (D,), the box.
    first_step : length of the first step, about the length scale of the function.
    tolerance : an ascent ends when the predicted gain of its next step is less than this.
    max_evaluations : the most evaluations of the function, all M points together counted as one.
    """
    state = _start(function, starts, first_step)
    direction, length = _directions(state, lower, upper), np.ones((len(starts), 1))
    for evaluations in range(1, max_evaluations):
        trial = np.minimum(np.maximum(state.points + length * direction, lower), upper)
        step = trial - state.points
        expected = _dot(state.gradients, step)
        if not expected.max() > tolerance:
            return Ascent(state.points, state.values, evaluations)
        values, gradients = function(trial)
        # Armijo
        gained = (values >= state.values + 1e-4 * expected) & (expected > 0)
        _learn(state, gained, step, state.gradients - gradients)
        if gained.all():
            state.points, state.values, state.gradients = trial, values, gradients
            direction, length = _directions(state, lower, upper), np.ones((len(starts), 1))
            continue
        moved = gained[:, None]
        state.points = np.where(moved, trial, state.points)
        state.values = np.where(gained, values, state.values)
        state.gradients = np.where(moved, gradients, state.gradients)
        direction = np.where(moved, _directions(state, lower, upper), direction)
        length = np.where(moved, 1.0, 0.3 * length)
    return Ascent(state.points, state.values, max_evaluations)


@dataclass(eq=False)
class _State:
    """The state of M ascents: points, values, gradients (M, D), inverse Hessians (M, D, D)."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    longest: np.ndarray
    """(M, 1), the largest length of a step."""
    fresh: np.ndarray
    """(M,), whether the inverse Hessian is the initial one."""


def _start(function: Function, starts: np.ndarray, first_step: float) -> _State:
    """Return ascents whose first step is ``first_step`` long, in the direction of the gradient."""
    values, gradients = function(starts)
    count, dimension = starts.shape
    norm = np.sqrt(_dot(gradients, gradients)) + np.finfo(float).tiny
    hessians = (first_step / norm)[:, None, None] * np.eye(dimension)
    longest = np.full((count, 1), 10.0 * first_step)
    return _State(starts, values, gradients, hessians, longest, np.ones(count, bool))


def _directions(state: _State, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Quasi-Newton directions (M, D), uphill and not too long."""
    g, points = state.gradients, state.points
    outside = ((points <= lower) & (g < 0)) | ((points >= upper) & (g > 0))
    held = outside.any()
    if held:
        g = np.where(outside, 0.0, g)
    direction = (state.hessians @ g[:, :, None])[:, :, 0]
    if held:
        # the direction may point downhill once coordinates are held; the gradient with zeros there does not
        direction = np.where(outside, 0.0, direction)
        downhill = _dot(direction, g) <= 0
        direction = np.where(downhill[:, None], g, direction)
    norm = np.sqrt(_dot(direction, direction))[:, None]
    return direction * (state.longest / np.maximum(norm, state.longest))


def _learn(state: _State, gained: np.ndarray, step: np.ndarray, change: np.ndarray) -> None:
    """BFGS: the inverse Hessian nearest to the old one that maps the change to the step.

    ``change`` (M, D) is that of the gradient of -f. Where f is not concave along the step, or
    has not risen, the matrix is kept.
    """
    curvature, square = _dot(step, change), _dot(change, change)
    curved = gained & (curvature > 0)
    if not curved.any():
        return
    if not curved.all():
        step, change = (np.where(curved[:, None], part, 0.0) for part in (step, change))
    guessed = curved & state.fresh
    if guessed.any():
        # the first scale of the inverse Hessian is the curvature along the first step, not the step's length
        scale = np.where(guessed, curvature / np.maximum(square, np.finfo(float).tiny), 1.0)
        ones = np.eye(step.shape[1]) * scale[:, None, None]
        state.hessians = np.where(guessed[:, None, None], ones, state.hessians)
        state.fresh = state.fresh & ~guessed
    inverse = np.where(curved, 1 / np.where(curved, curvature, 1.0), 0.0)
    mapped = (state.hessians @ change[:, :, None])[:, :, 0]
    along = inverse * (1 + inverse * _dot(change, mapped))
    outer = step[:, :, None] * (along[:, None] * step - inverse[:, None] * mapped)[:, None, :]
    cross = (inverse[:, None] * mapped)[:, :, None] * step[:, None, :]
    state.hessians = state.hessians + outer - cross


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products of rows, (M,)."""
    return np.einsum("md,md->m", a, b)
