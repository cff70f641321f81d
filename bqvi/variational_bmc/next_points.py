"""The choice of the next evaluations by the remaining uncertainty of the posterior, with draws as candidates.

The interquantile range (IMIQR, :mod:`acquisition.pointwise.quantile_range`) is integrated by targets,
draws that are resampled from a pool by their weights times the range itself, so that they carry equal
weights. The density is tempered, with a smaller power for larger prediction errors of the surrogate: where
the surrogate is wrong in the tails, its own density has no draws there. In many dimensions the power is
bounded by the depth of the draws (`_tempers`). Candidates are draws of q, of q widened, and of wider ones
(:mod:`pooled_draws`). After each choice in a batch the variances and covariances are conditioned on that
point, exactly, by a rank-one update, which does not depend on its value.

With ``variational`` the range is integrated against q instead (VIQR).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy
from acquisition.pointwise.quantile_range import log_remaining_range
from bqvi.importance import resampled
from bqvi.variational_bmc.pooled_draws import PointMoments, PooledDraws
from bqvi.variational_bmc.settings import NODES
from bqvi.variational_bmc.surrogate import Surrogate

_QUARTILE = 0.6744897501960817
"""The standard normal's quantile of .75: the range is that between quartiles, as in Acerbi (2020)."""


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
        log_range = log_remaining_range(self.variance, self.log_weights, signals, noisy, _QUARTILE)
        return -log_range


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
    if len(places) <= NODES.candidates:
        return places
    evenly = rng.choice(places, NODES.candidates // 2, replace=False)
    by_share = resampled(share * allowed + 1e-300, NODES.candidates // 2, int(rng.integers(2**31)))
    return np.unique(np.concatenate([evenly, by_share[allowed[by_share]]]))
