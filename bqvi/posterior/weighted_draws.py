"""Draws with importance weights, and their quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.importance import effective_size, normalised

__all__ = ["WeightedDraws", "weighted_quantiles"]


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws that represent the posterior together with their weights.

    Attributes
    ----------
    points : (n, D), in the coordinates.
    log_weights : (n,), of any common size.
    """

    points: np.ndarray
    log_weights: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights, (n,)."""
        return normalised(self.log_weights)

    @property
    def effective_sample_size(self) -> float:
        """1 / sum of the squared weights."""
        return float(effective_size(self.weights))


def weighted_quantiles(theta: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles (J, P) at J levels of draws theta (n, P) with weights (n,) of sum one."""
    columns = []
    for x in theta.T:
        order = np.argsort(x)
        reached = np.cumsum(weights[order]) - 0.5 * weights[order]
        columns.append(np.interp(levels, reached, x[order]))
    return np.stack(columns, axis=1)
