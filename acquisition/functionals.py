"""Candidates that reduce the variances of several linear functionals of a Gaussian process most.

With c_j the covariances of f(x_j) with F functionals given what is known, and v_j the variance of f(x_j),
observing f(x_j) lowers the sum of the functionals' variances by |c_j|^2 / v_j. Each further candidate is
chosen given the ones before it (sequential Bayesian quadrature, Huszar and Duvenaud 2012, with more than one
integral), by :mod:`acquisition.conditioned`. A candidate at which a block of B numbers is observed at once,
such as a gradient, lowers the sum by tr(c_j^T V_j^-1 c_j), with V_j (B, B) the covariance of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy, variance_reduction
from gp.linear_maps import explained


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
