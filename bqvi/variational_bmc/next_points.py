"""The next points: a first design, a climb where there are gradients, then by the remaining uncertainty.

*Before there is a surrogate* the plausible box has a Sobol design. With gradients the log joint itself is
maximised from it (`bqvi.calls.climb`), as a quasi-Newton method needs few evaluations where a surrogate far
from the posterior needs many. A climb in many dimensions ends before it has made steps in all directions, and
without these the surrogate's density may grow without bound. One further gradient is therefore evaluated for
each direction e in which no evaluation so far differs from the best point x, at

    x + s e,      s^-2 the median curvature along the steps that were made, s at most half the plausible box.

Where the log joint can be evaluated at fewer of the first points than a surrogate needs, further points lie
near those at which it can: beyond a good point x as seen from the nearest failed one y, and half as far from
it, x + (x - y) / 2. Each failure halves the distance.

*By the surrogate.* For f ~ GP, exp f(t) is log-normal; half the distance between its quantiles p and 1 - p
is exp(mean) sinh(u sd), u the normal quantile. Once f is seen at x (with noise), sd(t) becomes

    sd(t; x) = sqrt(v(t) - c(x, t)^2 / (v(x) + noise))

for every value. The score of a point is the remaining integral of that range over t (IMIQR; Acerbi 2020,
"Variational Bayesian Monte Carlo with noisy likelihoods", Eq. 8). Its targets are draws that are resampled
from a pool by their weights times the range itself, so that they carry equal weights. The density is
tempered, with a smaller power for larger prediction errors of the surrogate: where the surrogate is wrong in
the tails, its own density has no draws there. In many dimensions the power is bounded by the depth of the
draws (`_tempers`). Candidates are draws of q, of q widened, and of wider ones (:mod:`correction`). After
each choice in a batch the variances and covariances are conditioned on that point, exactly, by a rank-one
update, which does not depend on its value. With ``variational`` the range is integrated against q instead
(VIQR, Eq. 7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from acquisition.conditioned import ConditionedPool, greedy
from bqvi.calls import AsksError, Evaluations
from bqvi.calls.climb import Asking, climb
from bqvi.importance import resampled
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.correction import Correction, PointMoments, PooledDraws
from bqvi.variational_bmc.frame_selection import evaluated_box
from bqvi.variational_bmc.learning import ascended
from bqvi.variational_bmc.settings import NODES
from bqvi.variational_bmc.state import (
    Estimate,
    Settings,
    State,
    observation_noise,
    prediction_error,
    settled,
    with_pending,
)
from bqvi.variational_bmc.surrogate import Surrogate
from gp.linalg import complement
from gp.low_discrepancy import scrambled_sobol

_QUARTILE = 0.6744897501960817
"""The standard normal's quantile of .75: the range is that between quartiles, as in Acerbi (2020)."""
_HIGHEST = 50.0
"""Upper limit of u sd in sinh."""


def design(dimension: int, count: int, seed: int) -> np.ndarray:
    """The middle of the plausible box followed by a Sobol set in it, (count, D), D being ``dimension``."""
    cube = scrambled_sobol(dimension, max(count, 2), seed)
    return np.concatenate([np.zeros((1, dimension)), 2.0 * cube - 1.0])[:count]


def batch_size(state: State, settings: Settings) -> int:
    """The size of a batch, small until the posterior has been found, as then each value changes the next."""
    if settings.few is not None:
        return settings.batch if settled(state) else settings.few
    if settled(state):  # a share that grows, so that runs with many evaluations have few steps
        return max(settings.batch, min(len(state) ** 2 // 12500, ENGINES.further // 4))
    return min(2 if state.usable.gradients is None else 1, settings.batch)


def with_next(
    state: State,
    estimate: Estimate,
    count: int,
    seed: int,
    variational: bool = False,
    waiting: np.ndarray | None = None,
    leading: bool = True,
) -> State:
    """The state with ``count`` further pending points.

    Parameters
    ----------
    waiting : points (k, D) under evaluation, whose values the estimate does not contain.
    leading : whether the first point may be the surrogate's mode, or at the edge of the feasible region.
    """
    criterion = NodeCriterion(observation_noise(state, estimate), prediction_error(state), variational)
    first = (_edge(estimate.found) if settled(state) else _mode(estimate.surrogate)) if leading else None
    # Gradients determine f beyond the draws of q. Once the posterior has been found, the whole pool is used
    # as long as the uncertainty beyond the draws prevents convergence.
    narrow = estimate.surrogate.data.gradients is not None
    if narrow and settled(state):
        narrow = state.rows[-1].beyond < ENGINES.tolerance
    pool = estimate.pool.of_q() if narrow else estimate.pool
    given = None if waiting is None else state.frame.into(waiting)
    u = next_points(estimate.surrogate, pool, count, seed, criterion, first, given)
    mean, variance = estimate.surrogate.moments(u)
    undrawn = np.full(len(u), np.nan)
    predicted = np.stack([mean - state.frame.log_stretch(u), variance + criterion.noise, undrawn], axis=1)
    return with_pending(state, state.frame.out(u), predicted)


def _mode(surrogate: Surrogate) -> np.ndarray | None:
    data = surrogate.data
    best = data.points[np.argmax(data.values)]
    near = evaluated_box(data)
    margin = np.maximum(near.upper - near.lower, 2.0)
    found = ascended(surrogate, best, near.lower - margin, near.upper + margin)
    return None if surrogate.moments(found[None])[1][0] < NODES.known else found


def _edge(found: Correction) -> np.ndarray | None:
    """The draw (D,) with the most mass that may not be feasible; None if this mass is small."""
    if found.weights @ (1.0 - found.feasible) < NODES.uncertain:
        return None
    at = int(np.argmax(found.log_weights + np.log(np.maximum(1.0 - found.feasible, 1e-300))))
    return found.u[at]


@dataclass(frozen=True)
class NodeCriterion:
    """The criterion of the next evaluations.

    Attributes
    ----------
    noise : the variance of the noise of the next values.
    prediction_error : the mean squared standardised error of the surrogate's recent predictions.
    variational : whether the range is integrated against q (VIQR), not the surrogate's density (IMIQR).
    """

    noise: float
    prediction_error: float = 1.0
    variational: bool = False

    def shares(self, pool: PooledDraws) -> np.ndarray:
        """The shares (M,) of the draws of a pool in the integral of the present range; the largest is 1."""
        spread = _QUARTILE * np.minimum(np.sqrt(pool.variance), NODES.most)
        least, usual = _tempers(pool.u.shape[1])
        temper = float(np.clip(usual / np.sqrt(self.prediction_error), least, usual))
        log_density = pool.log_q if self.variational else temper * (pool.mean - pool.mean.max())
        log_range = log_density - pool.log_proposal + spread + np.log1p(-np.exp(-2.0 * spread))
        return np.exp(log_range - log_range.max())


def next_points(
    surrogate: Surrogate,
    pool: PooledDraws,
    count: int,
    seed: int,
    criterion: NodeCriterion,
    first: np.ndarray | None = None,
    waiting: np.ndarray | None = None,
) -> np.ndarray:
    """The next ``count`` points (count, D), in the frame.

    Parameters
    ----------
    surrogate : the surrogate of the log joint.
    pool : the draws from which targets and candidates are taken.
    count : the number of points, 1 or more. seed : seed of the choice of targets and candidates.
    criterion : the criterion by which candidates are chosen.
    first : a point (D,) with which the batch begins, unless its value is known given the waiting points.
    waiting : points (k, D) under evaluation, on which the variances are conditioned.
    """
    rng = np.random.default_rng(seed)
    share = criterion.shares(pool)
    targets = resampled(share, NODES.targets, int(rng.integers(2**31)))
    draws = _candidates(share, pool.feasible, rng)
    more = [part for part in (None if first is None else first[None], waiting) if part is not None]
    candidates = PointMoments.among(pool, draws)
    if more:
        candidates = candidates.joined(PointMoments.at(surrogate, np.concatenate(more)))
    remaining = _Remaining.of(surrogate, candidates, PointMoments.among(pool, targets), criterion.noise)
    closed, may_lead = [], first is not None
    if waiting is not None and len(waiting):
        closed = list(range(len(candidates.u) - len(waiting), len(candidates.u)))
        for index in closed:
            remaining = remaining.given(index)
        variance = remaining.candidates.variance
        # what remains is rounding
        closed += np.flatnonzero(variance < 1e-6 * candidates.variance).tolist()
        may_lead = may_lead and not variance[len(draws)] < NODES.known
    chosen = [len(draws)] if may_lead else []
    for index in chosen:
        remaining = remaining.given(index)
    chosen += greedy(remaining, count - len(chosen), _Remaining.scores, [*closed, *chosen])
    return candidates.u[chosen]


@dataclass(frozen=True, eq=False)
class _Remaining:
    """The candidates, and the range that remains at T targets, given the points chosen so far.

    Attributes
    ----------
    candidates : the moments of f at the candidates, with their covariances with f at the targets.
    variance : the variance (T,) of f at the targets. log_weights : the logarithms of their weights, (T,).
    """

    candidates: ConditionedPool
    variance: np.ndarray
    log_weights: np.ndarray

    @classmethod
    def of(
        cls, surrogate: Surrogate, candidates: PointMoments, targets: PointMoments, noise: float
    ) -> _Remaining:
        """The moments before any choice; ``noise`` is the variance of the noise of the next values."""
        u, whitened = candidates.u, candidates.whitened
        signals = surrogate.covariance(u, targets.u, whitened, targets.whitened)
        # Correlations above one are due to rounding; with them, a point would explain all others.
        bound = np.sqrt(np.maximum(candidates.variance, 0.0)[:, None] * targets.variance)
        signals = np.clip(signals, -bound, bound)
        between = surrogate.covariance(u, u, whitened, whitened)
        noises = np.full(len(u), noise + surrogate.rounding)
        pool = ConditionedPool(lambda j: between[:, j], candidates.variance, noises, signals)
        half_range = np.sinh(np.minimum(_QUARTILE * np.sqrt(targets.variance), 50.0))
        return cls(pool, targets.variance, -np.log(2.0 * half_range))

    def given(self, index: int) -> _Remaining:
        """The same once candidate ``index`` is evaluated, whatever its value."""
        variance = np.maximum(self.variance - self.candidates.explained(index) ** 2, 1e-12)
        return replace(self, candidates=self.candidates.given(index), variance=variance)

    def scores(self) -> np.ndarray:
        """Minus the logarithm of the range that remains after an evaluation of each candidate, (m,)."""
        signals, noisy = self.candidates.signals, self.candidates.predictive_variance
        assert signals is not None  # the covariances with the targets
        return -log_remaining_range(self.variance, self.log_weights, signals, noisy)


def _tempers(dimension: int) -> tuple[float, float]:
    """The least and the usual power t of the density.

    Draws of N(0, I) are (D +- (2 D)^1/2) / 2 nats below the top, and draws of its power t are D / (2 t) nats
    below. So with the power t = 1 / (1 + c (2 / D)^1/2) draws are c standard deviations deeper.
    """
    deeper = 1.0 / (1.0 + np.array(NODES.deeper) * np.sqrt(2.0 / dimension))
    least, usual = np.maximum(NODES.tempers, deeper)
    return float(least), float(usual)


def _candidates(share: np.ndarray, feasible: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The candidates among the draws that are probably feasible, or all; half of them by their share."""
    allowed = feasible > 0.5
    if not allowed.any():
        allowed = np.ones(len(allowed), bool)
    places = np.flatnonzero(allowed)
    if len(places) <= ENGINES.further:
        return places
    evenly = rng.choice(places, ENGINES.further // 2, replace=False)
    by_share = resampled(share * allowed + 1e-300, ENGINES.further // 2, int(rng.integers(2**31)))
    return np.unique(np.concatenate([evenly, by_share[allowed[by_share]]]))


def next_step(made: Evaluations, most: int | None = None) -> np.ndarray | None:
    """The next point (D,) before there is a surrogate, or None at the end.

    It is near a good point where there are too few of these, then of the climb, and after it in a direction
    without a step.

    Parameters
    ----------
    made : the evaluations so far, the first of which is the start of the climb.
    most : the largest number of evaluations of the climb; None for 3 D + 5.
    """
    if most is None:
        most = 3 * made.points.shape[1] + 5
    if made.failed.any() and 0 < int((~made.failed).sum()) < 2:
        return _nearer(made)
    if made.gradients is None or made.failed[:1].all():
        return None
    try:
        climb(Asking(made), made.points[0], ENGINES.gain, most)
    except AsksError as asks:
        return asks.points[0]
    return _in_a_new_direction(made)


def _nearer(made: Evaluations) -> np.ndarray:
    """A point (D,) half as far from a good point as the nearest failed one, and on the other side of it.

    Among the good points it is the one that is farthest from failed ones.
    """
    good, failed = made.points[~made.failed], made.points[made.failed]
    distances, nearest = cKDTree(failed).query(good)
    best = int(np.argmax(distances))
    found: np.ndarray = good[best] + 0.5 * (good[best] - failed[np.asarray(nearest)[best]])
    return found


def _in_a_new_direction(made: Evaluations) -> np.ndarray | None:
    """A point (D,) that differs from the best one in a new direction; None if there is no such direction."""
    best = int(np.argmax(made.values))
    steps = np.delete(made.points - made.points[best], best, axis=0)
    sizes = np.linalg.norm(steps, axis=1)
    # the singular value of a direction without a step
    new = complement(steps[sizes > 0.0] / sizes[sizes > 0.0, None], 0.05)
    if not len(new):
        return None
    direction = new[0] * (-1.0 if new[0] @ made.points[best] > 0.0 else 1.0)  # towards the middle of the box
    return made.points[best] + _length(made, best, steps, sizes) * direction


def _length(made: Evaluations, best: int, steps: np.ndarray, sizes: np.ndarray) -> float:
    """The inverse square root of the median curvature along the ``steps`` (m, D) from the best point."""
    assert made.gradients is not None
    slopes = np.delete(made.gradients[best] - made.gradients, best, axis=0)
    curvatures = np.einsum("nd,nd->n", slopes, steps) / np.maximum(sizes, 1e-300) ** 2
    curvatures = curvatures[np.isfinite(curvatures) & (curvatures > 0.0)]
    if not len(curvatures):
        # half of a half width of the plausible box at the most
        return 0.5
    return float(min(np.median(curvatures) ** -0.5, 0.5))


def log_remaining_range(
    variances: np.ndarray, log_weights: np.ndarray, signals: np.ndarray, predictive_variance: np.ndarray
) -> np.ndarray:
    """Return the logarithm of the range left by an observation at each of m points, (m,).

    Parameters
    ----------
    variances, log_weights : the variance of f at each target, and the logarithm of its weight, (S,).
    signals : covariances of f at the points with f at the targets, (m, S).
    predictive_variance : the variances of observations at the points, (m,).
    """
    remaining = variances[None, :] - signals**2 / predictive_variance[:, None]
    argument = np.minimum(_QUARTILE * np.sqrt(np.maximum(remaining, 1e-12)), _HIGHEST)
    terms = log_weights[None, :] + argument + np.log1p(-np.exp(-2.0 * argument)) - np.log(2.0)
    top = terms.max(axis=1)
    return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))
