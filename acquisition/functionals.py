"""Nodes that tell most about several linear functionals of a Gaussian process at once.

With c_j the vector of covariances of f(x_j) with F functionals given what is known, and v_j the variance of
f(x_j), observing f(x_j) takes |c_j|^2 / v_j off the sum of the functionals' variances. Variances need
no observation, so each further node is chosen given the ones before it (sequential Bayesian quadrature,
Huszar & Duvenaud 2012, with more than one integral). With the candidates themselves as functionals
it is the sum of their variances that falls. A candidate that shows a block of B numbers at once, such as a
gradient, takes off tr(c_j^T V_j^-1 c_j).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Candidates:
    """What is known of the numbers that C candidates would show, B each, one candidate after the other."""

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
        """From all the covariances, (C B, F) and (C B, C B)."""
        return cls(shared, np.einsum("ii->i", covariance), lambda which: covariance[:, which], block)


def most_informative(candidates: Candidates, n: int, noise: float) -> list[int]:
    """Return the indices of n <= C candidates, greedily; O(n C B (C B + F)).

    ``noise`` is the variance of an observation, in units of f's. With B = 1 no more than n - 1 columns of the
    candidates' covariances are asked for.
    """
    if candidates.block > 1:
        return _most_informative_blocks(candidates, n, noise)
    chosen: list[int] = []
    shared, variance, columns = candidates.shared, candidates.variances, list[np.ndarray]()
    for _ in range(n):
        noisy = np.maximum(variance, 0.0) + noise
        gains = np.einsum("cf,cf->c", shared, shared) / noisy
        for index in chosen:
            gains[index] = -1.0
        best = int(gains.argmax())
        chosen.append(best)
        if len(chosen) == n:
            break
        column = candidates.columns(best)
        for before in columns:
            column = column - before[best] * before
        shared = shared - (column / noisy[best])[:, None] * shared[best]
        column = column / np.sqrt(noisy[best])
        variance = variance - column * column
        columns.append(column)
    return chosen


def _most_informative_blocks(candidates: Candidates, n: int, noise: float) -> list[int]:
    """`most_informative` for B > 1: divisions by a variance become solves with a (B, B) matrix."""
    shared, residual, block = candidates.shared, candidates.columns(slice(None)), candidates.block
    count, chosen = len(shared) // block, list[int]()
    every = np.arange(count)
    for _ in range(n):
        own = residual.reshape(count, block, count, block)[every, :, every, :] + noise * np.eye(block)
        parts = shared.reshape(count, block, -1)
        gains = np.einsum("cbf,cbf->c", parts, np.linalg.solve(own, parts))
        gains[chosen] = -1.0
        best = int(np.argmax(gains))
        chosen.append(best)
        rows = slice(best * block, (best + 1) * block)
        column = np.linalg.solve(own[best], residual[rows]).T
        shared = shared - column @ shared[rows]
        residual = residual - column @ residual[rows]
    return chosen
