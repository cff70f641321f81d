"""Evaluations below a cliff: values to which a log joint falls at once, as a floor where a simulation fails.

A log joint may return -1e6, or another very low number, where it has no value. Such a number is no point of
a smooth function, and a process that is fitted to it is wrong beside it. A log joint that merely is low far
from its mode falls gradually. The two are told apart by the radius

    R_i = sqrt(D + 2 s(d_i)),     s(d) = d for d <= r,  r (1 + log(d / r)) beyond,     r = 15 + D / 2,

with d_i the depth below the highest value, in nats. For a Gaussian R grows with the distance from the mode at
about the same rate everywhere, and for an exponential at a falling one. With

    J_ij = |R_i - R_j| / max(|x_i - x_j|, h),     h the median distance of a high point from the nearest one,

a level d > r is a cliff where max J_ij over pairs on either side of it is several times as large as over all
pairs on the same side: the function falls across it, between near points, much faster than anywhere above or
below. What lies below has no value ("at most this"), as where the log joint is -inf. s is the shape that the
surrogate of `vbmc` gives low values, and r its least threshold: what is nearer to the top is never a cliff.
Four values or more are above a cliff, or two or three where all others are about equal.
Of noisy values a difference counts by what exceeds one standard deviation of it. Where there are gradients,
the slopes of R at the points below count as slopes there: a floor has none, and a steep wall has one.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from bqvi.calls.settings import CLIFFS


def below_a_cliff(
    points: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray | None = None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Which evaluations (n,) of a log density lie below a cliff; none of fewer than three.

    Parameters
    ----------
    points : points (n, D), in any units. values : the values there, (n,), all finite.
    gradients : their gradients (n, D), NaN where there is none; or None.
    noise : the variances (n,) of the values' noise; None, or NaN, where it is zero or not known.
    """
    n, dimension = points.shape
    found, threshold = np.zeros(n, bool), CLIFFS.shallowest + 0.5 * dimension
    order = np.argsort(-values, kind="stable")
    depth = values.max(initial=-np.inf) - values[order]
    flat = depth.max(initial=0.0) - depth < 0.01 * depth  # of a level's value and all lower ones
    rows = np.arange(n)
    levels = (depth > threshold) & ((rows >= CLIFFS.above) | ((rows >= CLIFFS.above_a_floor) & flat))
    if not levels.any():
        return found
    excess = np.maximum(depth / threshold, 1.0)
    shaped = np.where(depth > threshold, threshold * (1.0 + np.log(excess)), depth)
    radius = np.sqrt(dimension + 2.0 * shaped)
    high = order[: max(n // 3, CLIFFS.above)]
    spread = points[high].std(0)
    spread = np.where(spread > 0.0, spread, 1.0)
    sds = np.zeros(n) if noise is None else np.sqrt(np.nan_to_num(noise[order]))
    own = np.zeros(n)
    if gradients is not None:
        own = np.linalg.norm(np.nan_to_num(gradients[order]) * spread, axis=1) / (excess * radius)
    nearest = np.asarray(cKDTree(points[high] / spread).query(points[high] / spread, 2)[0])[:, 1]
    shortest = max(float(np.median(nearest)), 1e-300)
    level, ratio = _steepest(points[order] / spread, radius, sds, own, levels, shortest)
    if ratio > CLIFFS.steeper:
        found[order[level:]] = True
    return found


def nothing_above(values: np.ndarray, failed: int, rounding: float = 1e-9) -> tuple[str, ...]:
    """The reason that equal values are no knowledge of a log joint, as they may be those of a floor; or ().

    Parameters
    ----------
    values : (n,), in the user's units. failed : the number of others. rounding : of equal values, relative.
    """
    if failed or not len(values) or not np.ptp(values) <= rounding * np.abs(values).max():
        return ()
    return (
        f"all {len(values)} values are {values[0]:.6g}, as on a floor beside a region that no evaluation has "
        "met: the result is right only if the log joint is a constant",
    )


def _steepest(
    points: np.ndarray, radius: np.ndarray, sds: np.ndarray, own: np.ndarray, levels: np.ndarray, h: float
) -> tuple[int, float]:
    """The level across which the largest slope is the most times that on either side, and this ratio.

    Points (n, D), radii R, noise ``sds``, slopes at the points and ``levels`` (n,) are in decreasing order of
    the values. The pairs i < j are met in the order of i, so that few of them are in memory at a time.
    """
    n = len(points)
    above, below, across, to_higher = np.zeros((4, n))
    step = max(2**17 // n, 1)
    for first in range(0, n, step):
        rows = slice(first, first + step)
        upper, lower = radius[rows, None], radius[first:]
        slopes: np.ndarray = np.abs(upper - lower)
        if sds.any():
            noise = 2.0 * np.hypot(sds[rows, None], sds[first:])
            slopes = np.maximum(slopes - noise / (upper + lower), 0.0)
        slopes /= np.maximum(cdist(points[rows], points[first:]), h)
        square = slopes[:, : len(slopes)]
        square[np.tri(len(square), dtype=bool)] = 0.0
        below[rows] = slopes.max(1)
        above[first:] = np.maximum(above[first:], slopes.max(0))
        slopes[0] = np.maximum(slopes[0], to_higher[first:])
        np.maximum.accumulate(slopes, 0, out=slopes)  # [i, j]: from j to the first i + 1
        to_higher[first:] = slopes[-1]
        square[np.tri(len(square), dtype=bool)] = 0.0
        across[rows] = slopes.max(1)
    above, below = np.maximum.accumulate(above)[:-1], np.maximum.accumulate(below[::-1])[::-1][1:]
    own_below = np.maximum.accumulate(own[::-1])[::-1][1:]
    beside = np.maximum(np.maximum(above, below), np.maximum(own_below, 1e-300))
    ratios = np.where(levels[1:], across[:-1] / beside, 0.0)
    best = int(np.argmax(ratios))
    return 1 + best, float(ratios[best])
