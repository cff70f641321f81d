"""The pairs i < j of fixed points, by coordinate: half of a symmetric matrix is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Pairs"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The P = n (n - 1) / 2 pairs i < j of n points.

    Attributes
    ----------
    places : (P,), indices of (i, j) in a flat (n, n) matrix. pair : (n, n), the index of each entry's pair; P
        on the diagonal. gaps : |x_i - x_j|, (D, P).
    """

    places: np.ndarray
    pair: np.ndarray
    gaps: np.ndarray

    @staticmethod
    def of(x: np.ndarray) -> Pairs:
        """Return the pairs of points x (n, D)."""
        n = len(x)
        first, second = np.triu_indices(n, 1)
        pair = np.full((n, n), len(first))
        pair[first, second] = pair[second, first] = np.arange(len(first))
        return Pairs(first * n + second, pair, np.abs(x[first] - x[second]).T.copy())

    def matrix(self, values: np.ndarray, diagonal: float = 1.0) -> np.ndarray:
        """Return the symmetric matrix (n, n) of values (P,) beside a constant diagonal."""
        return np.append(values, diagonal).take(self.pair)

    def folded(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights (P,) of the pairs in a sum over both (i, j) and (j, i)."""
        return 2 * weights.reshape(-1).take(self.places)
