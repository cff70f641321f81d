"""Whether given gradients are those of the values: asked of evaluations that are made anyway.

Between two evaluations that are near each other the trapezoid rule says by how much the values differ,

    f(y) - f(x)  =  (grad f(x) + grad f(y)) . (y - x) / 2  +  O(|y - x|^3),

exactly where f is quadratic. A gradient with a wrong sign, a wrong factor or a missing term says something
else nearly everywhere.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

_FEWEST = 6
"""Pairs from which a median tells; with fewer a single rough place could speak for all."""


def disagreement(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> float:
    """Median of |a - b| / (|a| + |b|), a difference of values to the nearest neighbour, b its trapezoid.

    Parameters
    ----------
    points : (n, D). values : (n,). gradients : (n, D); all finite.

    Returns
    -------
    float
        Between 0 and 1; 0 also where fewer than six pairs tell.
    """
    if len(points) < _FEWEST:
        return 0.0
    scale = np.maximum(points.std(axis=0), 1e-300)
    distances, nearest = cKDTree(points / scale).query(points / scale, k=2)
    apart = np.asarray(distances)[:, 1] > 0.0
    first, second = np.flatnonzero(apart), np.asarray(nearest)[apart, 1]
    a = values[second] - values[first]
    slopes = 0.5 * (gradients[first] + gradients[second])
    b = np.einsum("nd,nd->n", slopes, points[second] - points[first])
    size = np.abs(a) + np.abs(b)
    seen = size > 1e-6 * (1.0 + np.abs(values).max())  # below it values are rounded
    if seen.sum() < _FEWEST:
        return 0.0
    return float(np.median(np.abs(a - b)[seen] / size[seen]))
