"""Nodes that tell most about several linear functionals of a Gaussian process at once.

With c_j the vector of covariances of f(x_j) with F functionals given what is known, and v_j the variance of
f(x_j), observing f(x_j) takes |c_j|^2 / v_j off the sum of the functionals' variances. Variances need
no observation, so each further node is chosen given the ones before it (sequential Bayesian quadrature,
Huszar & Duvenaud 2012, with more than one integral). With the candidates themselves as functionals
it is the sum of their variances that falls.
"""

from __future__ import annotations

import numpy as np


def most_informative(shared: np.ndarray, residual: np.ndarray, n: int, noise: float) -> list[int]:
    """Return the indices of n of C candidates, greedily; O(n C (C + F)).

    Parameters
    ----------
    shared : (C, F), covariances of the candidates with the functionals.
    residual : (C, C), covariances of the candidates with one another.
    n : at most C.
    noise : variance of an observation, in units of f's.
    """
    chosen: list[int] = []
    for _ in range(n):
        variance = np.maximum(np.einsum("ii->i", residual), 0.0) + noise
        gains = np.einsum("cf,cf->c", shared, shared) / variance
        gains[chosen] = -1.0
        best = int(np.argmax(gains))
        chosen.append(best)
        if len(chosen) == n:
            break
        column = residual[:, best] / variance[best]
        shared = shared - column[:, None] * shared[best]
        residual = residual - column[:, None] * residual[best]
    return chosen
