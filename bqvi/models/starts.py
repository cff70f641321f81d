"""Starting centres of a mixture: K rows of the data."""

from __future__ import annotations

import numpy as np
import scipy.spatial.distance

from bqvi.checks import require_one_of
from bqvi.models.settings import CENTRES

STARTS = ("k-means++", "random")


def starting_centres(
    points: np.ndarray,
    n_components: int,
    how: str,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    unit: bool = False,
) -> np.ndarray:
    """(K, D) centres among ``points`` (N, D); with fewer than K points each is one, and some repeat.

    Parameters
    ----------
    points : (N, D). n_components : K.
    how : 'k-means++' (Arthur and Vassilvitskii 2007, and one Lloyd step) or 'random' rows. rng : draws them.
    weights : (N,), positive: a row is drawn as often as so many copies of it. None for equal ones.
    unit : whether points have length 1, which matrix products are enough for.
    """
    require_one_of("start", how, STARTS)
    n = len(points)
    if n <= n_components:
        return points[np.append(rng.permutation(n), rng.choice(n, n_components - n))]
    if how == "random":
        shares = None if weights is None else weights / weights.sum()
        return points[rng.choice(n, n_components, replace=False, p=shares)]
    spread = _spread(points, n_components, rng, weights, unit)
    return cluster_means(points, points, spread, weights, spread, unit)


def cluster_means(
    values: np.ndarray,
    points: np.ndarray,
    centres: np.ndarray,
    weights: np.ndarray | None,
    empty: np.ndarray,
    unit: bool = False,
) -> np.ndarray:
    """(K, V) means of the rows of ``values`` (N, V) whose points are nearest to each of the ``centres``.

    Parameters
    ----------
    points : (N, D)
    centres : (K, D)
    weights : (N,), positive; None for ones
    empty : (K, V), what a centre has that is nearest to no point
    unit : whether points have length 1
    """
    nearest = _squared_gaps(points, centres, unit).argmin(0)
    member = (nearest[:, None] == np.arange(len(centres))).astype(float)
    if weights is not None:
        member *= weights[:, None]
    counts = member.sum(0)[:, None]
    return np.asarray(
        np.where(counts > 0.0, (member.T @ values) / np.where(counts > 0.0, counts, 1.0), empty)
    )


def scatter(points: np.ndarray, centres: np.ndarray, weights: np.ndarray | None, unit: bool) -> float:
    """The sum of the squared distances of ``points`` to their nearest centres, with ``weights`` (N,)."""
    nearest = _squared_gaps(points, centres, unit).min(axis=0)
    return float(nearest.sum() if weights is None else nearest @ weights)


def _spread(
    points: np.ndarray, n_components: int, rng: np.random.Generator, weights: np.ndarray | None, unit: bool
) -> np.ndarray:
    """Rows drawn in turn with probabilities proportional to the squared distance to the nearest so far.

    Of several draws that one is taken after which the sum of these squared distances is smallest: greedy
    k-means++, of the implementation that Arthur and Vassilvitskii (2007) describe last.
    """
    shares = None if weights is None else weights / weights.sum()
    chosen = [int(rng.integers(len(points)) if shares is None else rng.choice(len(points), p=shares))]
    nearest = _squared_gaps(points, points[chosen], unit)[0]
    for _ in range(n_components - 1):
        odds = nearest if weights is None else nearest * weights
        total = odds.sum()
        # If each row is already a centre (repeated rows), a row is drawn uniformly.
        drawn = rng.choice(len(points), CENTRES.candidates, p=odds / total if total > 0.0 else None)
        gaps = np.minimum(nearest, _squared_gaps(points, points[drawn], unit))
        best = int((gaps.sum(1) if weights is None else gaps @ weights).argmin())
        chosen.append(int(drawn[best]))
        nearest = gaps[best]
    return points[chosen]


def _squared_gaps(points: np.ndarray, centres: np.ndarray, unit: bool) -> np.ndarray:
    """(C, N) squared distances; those of points of length 1 by a product, 0 where they are rounding."""
    if unit:
        gaps = (1.0 + (centres * centres).sum(axis=1))[:, None] - 2.0 * (centres @ points.T)
        return np.asarray(np.where(gaps > 1e-12, gaps, 0.0))
    return np.asarray(scipy.spatial.distance.cdist(centres, points, "sqeuclidean"))


def sample_rows(n: int, rng: np.random.Generator, most: int = CENTRES.rows) -> np.ndarray:
    """Sorted indices of at most ``most`` of ``n`` rows."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False, shuffle=False))
