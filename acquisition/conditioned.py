"""Greedy choice of observations: candidates conditioned on one after the other by rank-one updates.

Of N candidates the posterior variances v (N,) and the covariances s (N, F) with F quantities of interest are
known: integrals, the values at target points, or nothing (F = 0). Observing candidate j with noise variance
tau_j changes both by one rank,

    r = cov(f, f_j) / sqrt(v_j + tau_j),    v <- v - r^2,    s <- s - r s_j / sqrt(v_j + tau_j),

where cov(f, f_j), the column j of the posterior covariance, is the column before any choice less the
contributions r_j r of the rows r that have been added. The updates do not depend on values. Choosing n of N
candidates is a pivoted Cholesky factorisation whose pivots maximise a score, O(n N (n + F)) beside n columns:

    greedy(state, n, score) = repeat n times: j = argmax score(state), state = state.given(j)

A candidate at which a block of B numbers is observed at once, such as a gradient, lowers the sum of the
variances of the F quantities by tr(s_j^T V_j^-1 s_j), with V_j (B, B) the covariance of the block
(`most_informative`). With one quantity or several, as the functionals of a gradient,
integral-variance reduction (Huszar and Duvenaud 2012; thesis Eq. 7.17) is the score |s_j|^2 / (v_j + tau_j),
largest variance (thesis Eq. 7.18) the score v_j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from gp.arrays import Array, at_least, namespace, to_numpy
from gp.matrices import explained


@dataclass(frozen=True, eq=False)
class ConditionedPool:
    """Moments of N candidates given those that have been chosen.

    Attributes
    ----------
    columns : a function of an index j that returns the covariances of all candidates with candidate j before
        any choice, (N,).
    variance : (N,), posterior variances of f at the candidates.
    noise : (N,), variances of observations beyond those of f.
    signals : (N, F), covariances with the quantities of interest; ``None`` where there are none.
    rows : (t, N), the rows r of the t choices made.
    """

    columns: Callable[[int], Array]
    variance: Array
    noise: Array
    signals: Array | None = None
    rows: Array | None = None

    @property
    def count(self) -> int:
        """The number t of choices made."""
        return 0 if self.rows is None else int(self.rows.shape[0])

    @property
    def predictive_variance(self) -> Array:
        """Variances of observations, (N,)."""
        return at_least(self.variance, 0.0) + self.noise

    def explained(self, index: int) -> Array:
        """Return s_j / sqrt(v_j + tau_j), (F,), whose squares are the variances that observing j explains."""
        assert self.signals is not None  # read only where there are quantities of interest
        return self.signals[index] / self.predictive_variance[index] ** 0.5

    def given(self, index: int) -> ConditionedPool:
        """Return the moments once candidate ``index`` is observed too."""
        xp = namespace(self.variance)
        row = self.columns(index)
        if self.rows is not None:
            row = row - self.rows[:, index] @ self.rows
        # cov(f, f_j)^2 <= var f var f_j: an excess is rounding, and would grow from choice to choice
        bound = xp.sqrt(at_least(self.variance, 0.0))
        row = xp.minimum(xp.maximum(row / self.predictive_variance[index] ** 0.5, -bound), bound)
        signals = self.signals
        if signals is not None:
            signals = signals - row[:, None] * self.explained(index)
        rows = row[None, :] if self.rows is None else xp.concat([self.rows, row[None, :]], axis=0)
        return replace(self, variance=self.variance - row**2, signals=signals, rows=rows)


def variance_reduction(state: ConditionedPool) -> Array:
    """Return the decrease of the sum of the F variances by an observation of each candidate, (N,)."""
    assert state.signals is not None  # read only where there are quantities of interest
    return (state.signals**2).sum(1) / state.predictive_variance


class _Conditional(Protocol):
    """What `greedy` chooses from: `ConditionedPool`, or a record that contains one."""

    def given(self, index: int) -> Self:
        """Return the same once candidate ``index`` is observed too."""
        ...


_State = TypeVar("_State", bound=_Conditional)


def greedy(
    state: _State, count: int, score: Callable[[_State], Array], closed: Sequence[int] = ()
) -> list[int]:
    """Return the indices of ``count`` candidates, each the best given those before it.

    Parameters
    ----------
    state : the moments of the candidates, a record with ``given(index)``.
    count : the number that is chosen, at most N less those closed.
    score : a function of the state that returns a score for each candidate, (N,); the largest is chosen.
    closed : indices that may not be chosen.
    """
    chosen: list[int] = []
    for k in range(count):
        scores = to_numpy(score(state)).astype(float)  # a copy
        scores[[*closed, *chosen]] = -np.inf
        chosen.append(int(scores.argmax()))
        if k + 1 < count:
            state = state.given(chosen[-1])
    return chosen


@dataclass(frozen=True, eq=False)
class Candidates:
    """Moments of the numbers that are observed at C candidates, B at each, one candidate after the other."""

    shared: np.ndarray
    """Covariances of the numbers with the functionals, (C B, F)."""
    variances: np.ndarray
    """Variances of the numbers, (C B,)."""
    columns: Callable[[Any], np.ndarray]
    """A function of an index or a slice: those columns of the numbers' covariance matrix, (C B, C B)."""
    block: int = 1
    """B, the numbers at a candidate."""

    @classmethod
    def of(cls, shared: np.ndarray, covariance: np.ndarray, block: int = 1) -> Candidates:
        """Make the candidates from covariances with the functionals, (C B, F), and their own, (C B, C B)."""
        return cls(shared, np.einsum("ii->i", covariance), lambda which: covariance[:, which], block)

    def given(self, count: int, noise: float) -> Candidates:
        """The other candidates, given that the first ``count`` are observed with this noise variance.

        The result does not depend on the values. O(k C B) for each of the k observed numbers, beside the
        columns.
        """
        first = count * self.block
        state = ConditionedPool(
            self.columns, self.variances, np.full(len(self.variances), noise), self.shared
        )
        for number in range(first):
            state = state.given(number)
        if state.rows is None:
            return self
        assert state.signals is not None  # signals of the functionals
        rows, chosen = np.asarray(state.rows), np.asarray(state.rows)[:, first:]

        def columns(which: Any) -> np.ndarray:
            there = np.arange(len(self.variances))[first:][which]
            place = int(there) if there.ndim == 0 else slice(first + (which.start or 0), which.stop)
            return self.columns(place)[first:] - chosen.T @ rows[:, place]

        variances = np.maximum(state.variance[first:], 0.0)
        return Candidates(state.signals[first:], variances, columns, self.block)


def most_informative(candidates: Candidates, n: int, noise: float) -> list[int]:
    """Return the indices of n <= C candidates, chosen greedily; O(n C B (n B + F)) beside the columns.

    ``noise`` is the noise variance of an observation, in units of the variance of f. With B = 1 at most n - 1
    columns of the candidates' covariance matrix are computed.
    """
    noises = np.full(len(candidates.variances), noise)
    state = ConditionedPool(candidates.columns, candidates.variances, noises, candidates.shared)
    if candidates.block == 1:
        return greedy(state, n, variance_reduction)
    return greedy(_Blocks(state, _own(candidates)), n, lambda blocks: blocks.gains(noise))


def _own(candidates: Candidates) -> np.ndarray:
    """Covariances within each block, (C, B, B)."""
    block = candidates.block
    count = len(candidates.variances) // block
    every = np.arange(count)
    whole = candidates.columns(slice(None)).reshape(count, block, count, block)
    return np.asarray(whole[every, :, every, :])


@dataclass(frozen=True, eq=False)
class _Blocks:
    """C candidates at which B numbers are observed at once."""

    state: ConditionedPool
    """The moments of the C B numbers."""
    own: np.ndarray
    """Covariances within each block, (C, B, B)."""

    def given(self, index: int) -> _Blocks:
        """The same once block ``index`` is observed too.

        The state has variances alone, and each of its rows changes the covariances within blocks too.
        """
        (count, block), state, own = self.own.shape[:2], self.state, self.own
        for number in range(index * block, (index + 1) * block):
            state = state.given(number)
            assert state.rows is not None  # a row has just been added
            row = state.rows[-1].reshape(count, block)
            own = own - row[:, :, None] * row[:, None, :]
        return _Blocks(state, own)

    def gains(self, noise: float) -> np.ndarray:
        """The decrease of the functionals' variances by an observation of each block, (C,)."""
        assert self.state.signals is not None  # signals of the functionals
        parts = self.state.signals.reshape(*self.own.shape[:2], -1)
        return np.asarray(explained(self.own + noise * np.eye(self.own.shape[1]), parts))
