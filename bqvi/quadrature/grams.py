"""Gram matrices of fixed points while lengthscales change, with the derivatives in their logarithms.

A fit evaluates k(v, v) a thousand times for the same points. What does not change is kept: the gaps
between the pairs i < j by coordinate, (D, P) with P = n(n-1)/2. Then the kernels are

    squared exponential    k = exp(-sum_d g_d^2 / (2 l_d^2)),     dk/dlog l_d = k g_d^2 / l_d^2
    Matern 3/2             k = prod_d (1 + b_d) exp(-b_d),        dk/dlog l_d = k b_d^2 / (1 + b_d)
    Matern 1/2             k = exp(-sum_d g_d / l_d),             dk/dlog l_d = k g_d / l_d
    sparse                 k = prod_d (1 + w e_d) / (1 + w),      dk/dlog l_d = k w e_d h_d / (1 + w e_d)

with b_d = sqrt(3) g_d / l_d, h_d = g_d^2 / l_d^2, e_d = exp(-h_d / 2) and w of :func:`interaction`, and a
matrix-vector product does for the sums over coordinates.

With derivatives observed, the squared exponential's is :func:`gp.slopes.gram_with_slopes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, TypeAlias

import numpy as np

Pullback: TypeAlias = Callable[[Any], Any]
"""Weights W (m, m), symmetric, to sum_ij W_ij dK_ij/dlog l, (D,)."""
Gram: TypeAlias = Callable[[Any], tuple[Any, Pullback]]
"""Lengthscales (D,) to K (m, m), the caller's to change, and its pull-back."""


_PAIRS_TO_SINGLES = 0.15


def interaction(dimension: int) -> float:
    """Return w = 0.3 / D: functions of two coordinates have about .15 of the variance of those of one."""
    return 2 * _PAIRS_TO_SINGLES / dimension


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs i < j of n points.

    Attributes
    ----------
    count : n. places : (P,), of (i, j) in a flat (n, n) matrix. gaps : |v_i - v_j|, (D, P).
    """

    count: int
    places: Any
    gaps: Any

    @staticmethod
    def of(v: Any) -> Pairs:
        """Return those of points v (n, D)."""
        n = len(v)
        first, second = np.triu_indices(n, 1)
        return Pairs(n, first * n + second, np.abs(v[first] - v[second]).T.copy())

    def matrix(self, values: Any) -> Any:
        """Return the symmetric matrix (n, n) of values (P,) beside a diagonal of ones."""
        half = np.zeros((self.count, self.count))
        half.reshape(-1)[self.places] = values
        full = half + half.T
        full.flat[:: self.count + 1] = 1.0
        return full

    def folded(self, weights: Any) -> Any:
        """Return the weights (P,) of the pairs in a sum over both (i, j) and (j, i)."""
        return 2 * weights.reshape(-1).take(self.places)


def squared_exponential_gram(v: Any) -> Gram:
    """Return the Gram matrix of a squared exponential at v (n, D) as a function of lengthscales."""
    pairs = Pairs.of(v)
    squares = pairs.gaps**2

    def gram(lengthscales: Any) -> tuple[Any, Pullback]:
        values = np.exp((-0.5 / lengthscales**2) @ squares)

        def pullback(weights: Any) -> Any:
            return squares @ (pairs.folded(weights) * values) / lengthscales**2

        return pairs.matrix(values), pullback

    return gram


def matern_gram(v: Any) -> Gram:
    """Return the Gram matrix of a product of Matern 3/2 kernels at v (n, D)."""
    pairs = Pairs.of(v)

    def gram(lengthscales: Any) -> tuple[Any, Pullback]:
        b = pairs.gaps * (sqrt(3) / lengthscales)[:, None]
        raised = 1 + b
        values = np.prod(raised, axis=0) * np.exp(-b.sum(axis=0))

        def pullback(weights: Any) -> Any:
            return (b**2 / raised) @ (pairs.folded(weights) * values)

        return pairs.matrix(values), pullback

    return gram


def exponential_gram(v: Any) -> Gram:
    """Return the Gram matrix of a product of Matern 1/2 kernels at v (n, D)."""
    pairs = Pairs.of(v)

    def gram(lengthscales: Any) -> tuple[Any, Pullback]:
        values = np.exp((-1 / lengthscales) @ pairs.gaps)

        def pullback(weights: Any) -> Any:
            return pairs.gaps @ (pairs.folded(weights) * values) / lengthscales

        return pairs.matrix(values), pullback

    return gram


def sparse_gram(v: Any) -> Gram:
    """Return the Gram matrix of prod_d (1 + w e_d) / (1 + w) at v (n, D)."""
    pairs, w = Pairs.of(v), interaction(v.shape[1])
    squares = pairs.gaps**2

    def gram(lengthscales: Any) -> tuple[Any, Pullback]:
        precision = lengthscales**-2.0
        varying = w * np.exp(-0.5 * precision[:, None] * squares)
        values = np.prod((1 + varying) / (1 + w), axis=0)

        def pullback(weights: Any) -> Any:
            return (varying / (1 + varying) * squares) @ (pairs.folded(weights) * values) * precision

        return pairs.matrix(values), pullback

    return gram
