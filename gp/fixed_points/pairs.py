"""The pairs i < j of fixed points, by coordinate: half of a symmetric matrix is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Pairs:
    """The P = n (n - 1) / 2 pairs i < j of n points.

    Attributes
    ----------
    count : n. places : (P,), of (i, j) in a flat (n, n) matrix. gaps : |x_i - x_j|, (D, P).
    """

    count: int
    places: np.ndarray
    gaps: np.ndarray

    @staticmethod
    def of(x: np.ndarray) -> Pairs:
        """Return those of points x (n, D)."""
        n = len(x)
        first, second = np.triu_indices(n, 1)
        return Pairs(n, first * n + second, np.abs(x[first] - x[second]).T.copy())

    def matrix(self, values: np.ndarray, diagonal: float = 1.0) -> np.ndarray:
        """Return the symmetric matrix (n, n) of values (P,) beside a constant diagonal."""
        half = np.zeros((self.count, self.count))
        half.reshape(-1)[self.places] = values
        full: np.ndarray = half + half.T
        full.flat[:: self.count + 1] = diagonal
        return full

    def folded(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights (P,) of the pairs in a sum over both (i, j) and (j, i)."""
        folded: np.ndarray = 2 * weights.reshape(-1).take(self.places)
        return folded
