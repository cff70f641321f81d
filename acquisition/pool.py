"""The points of a finite pool at which an acquisition is largest, one after the other.

With H = C^-1 k(X, pool) the whitened covariances of the n observations with the N points, observing point j
adds one row to H and changes variances and signals by one rank (:mod:`acquisition.conditioned`); the mean
changes by the row times (y - m_j) / sqrt(v_j + s), with s the noise variance.

Signals that are relative to the targets' covariance, which is I in their units, are made relative to the
remaining covariance I - u u^T, whose inverse root is I + ((1 - |u|^2)^(-1/2) - 1) u u^T / |u|^2.

The choice of n of N points costs O(N n^2) in all: it is a pivoted Cholesky factorisation whose pivots are
chosen by the criterion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from acquisition.conditioned import ConditionedPool, choices
from acquisition.pointwise.acquisition import Acquisition, checked_points
from acquisition.pointwise.criterion import Criterion, Informative
from gp.arrays import Array, at_least, namespace, to_numpy
from gp.kernels import Kernel
from gp.measures import Empirical

__all__ = ["Chosen", "Pool", "PoolMoments"]


@dataclass(frozen=True, eq=False)
class PoolMoments:
    """The moments of f at N points; see :class:`acquisition.pointwise.criterion.Moments`."""

    mean: Array
    variance: Array
    predictive_variance: Array
    signals: Array
    log_density: Array


@dataclass(frozen=True, eq=False)
class Chosen:
    """Points chosen from a pool, in order.

    Attributes
    ----------
    indices : (q,)
    scores : (q,), of each when it was chosen.
    pool : the pool given all of them.
    """

    indices: np.ndarray
    scores: np.ndarray
    pool: Pool


@dataclass(frozen=True, eq=False)
class Pool:
    """N points, and the moments of f at each; made by :meth:`Pool.of`.

    Attributes
    ----------
    criterion : the criterion that is maximised.
    kernel : the kernel of the process.
    points : (N, D)
    whitened : (n, N), H.
    mean, variance : (N,), posterior moments; the variance without ``rounding``.
    signals : (N, r), covariances with the targets; ``None`` where the criterion has none.
    log_density : (N,), log p at the points, the log weights for an empirical measure; ``None``
        where the criterion needs none.
    extra : (N,), variance of an observation beyond that of f: noise, and jitter.
    rounding : the variance that counts as rounding.
    open : (N,), False for points that have been chosen.
    """

    criterion: Criterion
    kernel: Kernel
    points: Array
    whitened: Array
    mean: Array
    variance: Array
    signals: Array | None
    log_density: Array | None
    extra: Array
    rounding: float
    open: np.ndarray

    @staticmethod
    def of(acquisition: Acquisition, points: Array, *, log_density: Array | None = None) -> Pool:
        """Return the pool of ``points`` (N, D), given the observations of the acquisition's posterior.

        Parameters
        ----------
        log_density : (N,), where log p is not that of the measure. By default it is, or the log
            weights for an empirical measure over these points.
        """
        points = checked_points(acquisition, points)
        predictor = acquisition.predictor
        at = predictor.moments(points)
        log_density = _log_density(acquisition, points) if log_density is None else log_density
        return Pool(
            criterion=acquisition.criterion,
            kernel=acquisition.posterior.kernel,
            points=points,
            whitened=at.whitened,
            mean=at.mean,
            variance=at.variance - predictor.rounding,
            signals=None if predictor.targets is None else at.signals,
            log_density=log_density,
            extra=at.extra,
            rounding=predictor.rounding,
            open=np.ones(points.shape[0], bool),
        )

    @property
    def moments(self) -> PoolMoments:
        """The moments at all points."""
        variance = at_least(self.variance, 0.0) + self.rounding
        return PoolMoments(self.mean, variance, variance + self.extra, self.signals, self.log_density)

    def scores(self) -> np.ndarray:
        """Return the scores (N,), -inf for points that were chosen."""
        return np.where(self.open, self._all_scores(), -np.inf)

    def _all_scores(self) -> np.ndarray:
        """The scores (N,), of points that were chosen too, -inf for NaN."""
        scores = to_numpy(self.criterion.score(self.moments))
        return np.where(np.isnan(scores), -np.inf, scores)

    def given(self, index: int, y: float | None = None) -> Pool:
        """Return the pool once f is observed at point ``index``; without ``y``, at its posterior mean."""
        xp = namespace(self.points)
        before, after = self._conditioned, self._conditioned.given(index)
        assert after.rows is not None  # a row has just been added
        row, root = after.rows[-1, :], xp.sqrt(before.predictive_variance[index])
        is_open = self.open.copy()
        is_open[index] = False
        signals = after.signals
        if signals is not None and isinstance(self.criterion, Informative) and self.criterion.relative:
            signals = _relative_to_rest(signals, before.explained(index))
        return replace(
            self,
            whitened=after.rows,
            mean=self.mean if y is None else self.mean + row * ((y - self.mean[index]) / root),
            variance=after.variance,
            signals=signals,
            open=is_open,
        )

    @property
    def _conditioned(self) -> ConditionedPool:
        """The moments without the mean: an observation is a row of ``whitened`` like a choice."""

        def column(j: int) -> Array:
            return self.kernel(self.points[j : j + 1, :], self.points)[0, :]

        return ConditionedPool(column, self.variance, self.extra + self.rounding, self.signals, self.whitened)

    def choose(self, n: int) -> Chosen:
        """Return the best n points, one after the other, each given those before it.

        Raises ValueError where fewer than n points are left.
        """
        if not 1 <= n <= int(self.open.sum()):
            raise ValueError(f"n = {n!r}: {int(self.open.sum())} points are left to choose from")
        indices, values, pool = [], [], self
        for best, score, before in choices(self, n, Pool._all_scores, np.flatnonzero(~self.open).tolist()):
            indices.append(best)
            values.append(score)
            pool = before
        return Chosen(np.array(indices), np.array(values), pool.given(indices[-1]))

    def without(self, indices: Sequence[int]) -> Pool:
        """Return the pool whose points at ``indices`` may not be chosen (they were evaluated before, say)."""
        is_open = self.open.copy()
        is_open[list(indices)] = False
        return replace(self, open=is_open)


def _relative_to_rest(signals: Array, u: Array) -> Array:
    """Return signals (N, r) times (I - u u^T)^(-1/2), for u (r,) of length below 1."""
    xp = namespace(signals)
    square = float(xp.sum(u**2))
    if square == 0:
        return signals
    remainder = max(1 - square, float(xp.finfo(signals.dtype).eps))
    return signals + (signals @ u)[:, None] * u * ((remainder**-0.5 - 1) / square)


def _log_density(acquisition: Acquisition, points: Array) -> Array | None:
    """log p at the points; ``None`` where the measure has no density, an error for criteria that need it."""
    measure = acquisition.measure
    if not isinstance(measure, Empirical):
        return measure.log_density(points)
    if points is measure.points or (
        tuple(points.shape) == tuple(measure.points.shape)
        and np.array_equal(to_numpy(points), to_numpy(measure.points))
    ):
        weights = measure.weights
        return namespace(weights).log(at_least(weights, float(np.finfo(float).tiny)))
    return None
