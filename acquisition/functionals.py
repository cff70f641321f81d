"""Candidates that reduce the variances of several linear functionals of a Gaussian process most.

With c_j the covariances of f(x_j) with F functionals given what is known, and v_j the variance of f(x_j),
observing f(x_j) lowers the sum of the functionals' variances by |c_j|^2 / v_j. Each further candidate is
chosen given the ones before it (sequential Bayesian quadrature, Huszar and Duvenaud 2012, with more than one
integral), by :mod:`acquisition.conditioned`. With the candidates themselves as functionals it is the sum of
their variances that falls. A candidate that shows a block of B numbers at once, such as a gradient, lowers it
by tr(c_j^T V_j^-1 c_j), with V_j (B, B) their covariance; conditioning on a block is conditioning on its
numbers one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy, variance_reduction

__all__ = ["Candidates", "most_informative"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Moments of the numbers that observing C candidates gives, B each, one candidate after the other."""

    shared: np.ndarray
    """Their covariances with the functionals, (C B, F)."""
    variances: np.ndarray
    """(C B,)."""
    columns: Callable[[Any], np.ndarray]
    """Those of an index or a slice, of their covariances with one another, (C B, C B)."""
    block: int = 1
    """B."""

    @classmethod
    def of(cls, shared: np.ndarray, covariance: np.ndarray, block: int = 1) -> Candidates:
        """Make the candidates of all the covariances, (C B, F) and (C B, C B)."""
        return cls(shared, np.einsum("ii->i", covariance), lambda which: covariance[:, which], block)

    def given(self, count: int, noise: float) -> Candidates:
        """The other candidates, once the first ``count`` are observed with noise of that variance.

        No value has to be known for that. O(k C B) for each of the k numbers shown, beside their columns.
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
        rows, left = np.asarray(state.rows), np.asarray(state.rows)[:, first:]

        def columns(which: Any) -> np.ndarray:
            there = np.arange(len(self.variances))[first:][which]
            place = int(there) if there.ndim == 0 else slice(first + (which.start or 0), which.stop)
            known: np.ndarray = self.columns(place)[first:] - left.T @ rows[:, place]
            return known

        variances = np.maximum(state.variance[first:], 0.0)
        return Candidates(state.signals[first:], variances, columns, self.block)


def most_informative(candidates: Candidates, n: int, noise: float) -> list[int]:
    """Return the indices of n <= C candidates, greedily; O(n C B (n B + F)) beside the columns.

    ``noise`` is the variance of an observation, in units of f's. With B = 1 no more than n - 1 columns of the
    candidates' covariances are asked for.
    """
    noises = np.full(len(candidates.variances), noise)
    state = ConditionedPool(candidates.columns, candidates.variances, noises, candidates.shared)
    if candidates.block == 1:
        return greedy(state, n, variance_reduction)
    return _blocks(state, _own(candidates), n, noise)


def _own(candidates: Candidates) -> np.ndarray:
    """Covariances within each block, (C, B, B)."""
    block = candidates.block
    count = len(candidates.variances) // block
    every = np.arange(count)
    whole = candidates.columns(slice(None)).reshape(count, block, count, block)
    return np.asarray(whole[every, :, every, :])


def _blocks(state: ConditionedPool, own: np.ndarray, n: int, noise: float) -> list[int]:
    """Choose n blocks; ``own`` are the covariances (C, B, B) within each."""
    count, block = own.shape[:2]
    chosen: list[int] = []
    for _ in range(n):
        assert state.signals is not None  # signals of the functionals
        parts = state.signals.reshape(count, block, -1)
        gains = np.einsum("cbf,cbf->c", parts, np.linalg.solve(own + noise * np.eye(block), parts))
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
        for number in range(chosen[-1] * block, (chosen[-1] + 1) * block):
            state = state.given(number)
            assert state.rows is not None  # a row has just been added
            row = state.rows[-1].reshape(count, block)
            own = own - row[:, :, None] * row[:, None, :]
    return chosen
