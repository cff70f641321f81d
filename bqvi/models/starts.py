"""Places to start a mixture from: K rows of the data."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2

from bqvi.checks import require_one_of

STARTS = ("k-means++", "random")
MOST_ROWS = 20_000
"""k-means++ uses no more rows than this, drawn at random: its cost stays bounded at any N."""


def starting_centres(points: np.ndarray, n_components: int, how: str, rng: np.random.Generator) -> np.ndarray:
    """(K, D) centres among ``points`` (N, D); with fewer than K points, rows repeat.

    'k-means++' (Arthur and Vassilvitskii 2007, and one Lloyd step) or 'random' rows.
    """
    require_one_of("start", how, STARTS)
    if how == "random" or len(points) <= n_components:
        return points[rng.choice(len(points), n_components, replace=len(points) < n_components)]
    seeds = _spread(points, n_components, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster keeps its centre: fine here
        centres, _ = kmeans2(points, seeds, iter=1, minit="matrix")
    return np.asarray(centres)


def _spread(points: np.ndarray, n_components: int, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn in turn with probabilities proportional to the squared distance to the nearest so far."""
    chosen = [int(rng.integers(len(points)))]
    nearest = np.full(len(points), np.inf)
    for _ in range(n_components - 1):
        gap = points - points[chosen[-1]]
        nearest = np.minimum(nearest, np.einsum("nd,nd->n", gap, gap))
        total = nearest.sum()
        # every row may already be a centre (repeated rows): then any row is as good as another
        chosen.append(int(rng.choice(len(points), p=nearest / total if total > 0.0 else None)))
    return points[chosen]


def sample_rows(n: int, rng: np.random.Generator) -> np.ndarray:
    """Sorted indices of at most MOST_ROWS of ``n`` rows."""
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(rng.choice(n, MOST_ROWS, replace=False, shuffle=False))
