"""Nodes that tell most about several linear functionals of a Gaussian process at once.

With c_j the vector of covariances of f(x_j) with F functionals given what is known, and v_j the variance of
f(x_j), observing f(x_j) takes |c_j|^2 / v_j off the sum of the functionals' variances. Variances need
no observation, so each further node is chosen given the ones before it (sequential Bayesian quadrature,
Huszar & Duvenaud 2012, with more than one integral). With the candidates themselves as functionals
it is the sum of their variances that falls. A candidate that shows a block of B numbers at once, such as a
gradient, takes off tr(c_j^T V_j^-1 c_j).
"""

from __future__ import annotations

import numpy as np


def most_informative(
    shared: np.ndarray, residual: np.ndarray, n: int, noise: float, block: int = 1
) -> list[int]:
    """Return the indices of n of C candidates, greedily; O(n C B (C B + F)).

    Parameters
    ----------
    shared : (C B, F), covariances of the candidates' numbers with the functionals.
    residual : (C B, C B), covariances of these numbers with one another.
    n : at most C.
    noise : variance of an observation, in units of f's.
    block : B >= 1, how many numbers each candidate shows, one after the other.
    """
    if block > 1:
        return _most_informative_blocks(shared, residual, n, noise, block)
    chosen: list[int] = []
    variance, columns = np.einsum("ii->i", residual), list[np.ndarray]()
    for _ in range(n):
        noisy = np.maximum(variance, 0.0) + noise
        gains = np.einsum("cf,cf->c", shared, shared) / noisy
        gains[chosen] = -1.0
        best = int(gains.argmax())
        chosen.append(best)
        if len(chosen) == n:
            break
        column = residual[:, best] - sum(c[best] * c for c in columns)
        shared = shared - (column / noisy[best])[:, None] * shared[best]
        column = column / np.sqrt(noisy[best])
        variance = variance - column * column
        columns.append(column)
    return chosen


def _most_informative_blocks(
    shared: np.ndarray, residual: np.ndarray, n: int, noise: float, block: int
) -> list[int]:
    """`most_informative` for B > 1: divisions by a variance become solves with a (B, B) matrix."""
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
