"""Greedy choice of observations: candidates conditioned on one after the other by rank-one updates.

Of N candidates the posterior variances v (N,) and the covariances s (N, F) with F quantities of interest are
known: integrals, the values at target points, or nothing (F = 0). Observing candidate j with noise variance
tau_j changes both by one rank,

    r = cov(f, f_j) / sqrt(v_j + tau_j),    v <- v - r^2,    s <- s - r s_j / sqrt(v_j + tau_j),

where cov(f, f_j), the column j of the posterior covariance, is the column before any choice less the
contributions r_j r of the rows r that have been added. The updates do not depend on values. Choosing n of N
candidates is a pivoted Cholesky factorisation whose pivots maximise a score, O(n N (n + F)) beside n columns:

    greedy(state, n, score) = repeat n times: j = argmax score(state), state = state.given(j)

Integral-variance reduction (Huszar and Duvenaud 2012; thesis Eq. 7.17) is the score |s_j|^2 / (v_j + tau_j),
largest variance (thesis Eq. 7.18) the score v_j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import numpy as np

from gp.arrays import Array, at_least, namespace, to_numpy


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
