"""Bands over seeds: the median and the quartiles of the values that seeds have reached at equal x.

Seed s recorded y_s1, y_s2, ... at x_s1 <= x_s2 <= ... What it had reached at x is the last of these
at or before x,

    Y_s(x) = y_sj,  j = max{i : x_si <= x},

a step function: nothing is interpolated between records. A seed that ended keeps its last value; no
curve is drawn before the first record of *every* seed, since a quantile over some of them would
jump when the others join. The median and the quartiles of {Y_s(x)} are then taken at each x of a
grid common to the seeds, which is the set of all recorded x while that is small. A record with y =
NaN counts as not made; y = +-infinity (a run that diverged) takes part in the quantiles like any
other value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["Band", "Floats", "Scale", "band", "quantile", "reached"]

Floats = NDArray[np.float64]
Scale = Literal["linear", "log", "symlog"]


@dataclass(frozen=True)
class Band:
    """Quartiles over seeds on a grid.

    Attributes
    ----------
    x, lower, median, upper : ndarray of float, shape (G,)
    seeds : int
        Number of seeds behind each of them.
    """

    x: Floats
    lower: Floats
    median: Floats
    upper: Floats
    seeds: int


def reached(x: Floats, y: Floats, grid: Floats) -> Floats:
    """Return the last y recorded at or before each grid point; NaN before the first record.

    Parameters
    ----------
    x, y : ndarray of float, shape (R,)
        Records in the order in which they were made; of several at one x the last counts.
    grid : ndarray of float, shape (G,)

    Returns
    -------
    ndarray of float, shape (G,)
    """
    made = ~(np.isnan(y) | np.isnan(x))
    order = np.argsort(x[made], kind="stable")
    xs, ys = x[made][order], y[made][order]
    last = np.searchsorted(xs, grid, side="right") - 1
    if xs.size == 0:
        return np.full(grid.shape, np.nan)
    return np.where(last >= 0, ys[np.maximum(last, 0)], np.nan)


def quantile(values: Floats, level: float) -> Floats:
    """Return the `level` quantile over axis 0, as `numpy.quantile`, but right at the infinities.

    NumPy interpolates between an infinity and a finite value with weight 0 into NaN.

    Parameters
    ----------
    values : ndarray of float, shape (n, G), without NaN
    level : float in [0, 1]

    Returns
    -------
    ndarray of float, shape (G,)
    """
    ordered = np.sort(values, axis=0)
    position = level * (len(ordered) - 1)
    below = int(np.floor(position))
    weight = position - below
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    if weight == 0:
        return np.asarray(low)
    same = low == high  # compared first, as infinity - infinity is NaN
    step = np.subtract(high, low, out=np.zeros_like(low), where=~same)
    return np.asarray(low + weight * step)


def band(results: pd.DataFrame, x: str, y: str, *, points: int = 200, x_scale: Scale = "linear") -> Band:
    """Return the quartiles of y over seeds against x (definition in the module's docstring).

    Parameters
    ----------
    results : DataFrame
        The rows of one case, with the columns `seed`, `x` and `y`.
    x, y : str
    points : int
        Largest size of the grid. Beyond it, recorded x are picked at even distances on `x_scale`.
    x_scale : "linear" | "log" | "symlog"

    Raises
    ------
    KeyError
        If a column is missing.
    """
    if absent := [name for name in ("seed", x, y) if name not in results.columns]:
        raise KeyError(f"results lack the column {absent[0]!r}; there are {list(results.columns)}")
    runs = [
        (run[x].to_numpy(dtype=float), run[y].to_numpy(dtype=float))
        for _, run in results.dropna(subset=[x, y]).groupby("seed", sort=True)
    ]
    if not runs:
        empty = np.empty(0)
        return Band(empty, empty, empty, empty, 0)
    begun = max(xs.min() for xs, _ in runs)
    recorded = np.unique(np.concatenate([xs for xs, _ in runs]))
    grid = _thinned(recorded[recorded >= begun], points, x_scale)
    values = np.stack([reached(xs, ys, grid) for xs, ys in runs])
    lower, median, upper = (quantile(values, level) for level in (0.25, 0.5, 0.75))
    return Band(grid, lower, median, upper, len(runs))


def _thinned(grid: Floats, points: int, scale: Scale) -> Floats:
    if len(grid) <= points:
        return grid
    positive = grid[grid > 0]
    if scale == "linear" or len(positive) < 2:
        wanted = np.linspace(grid[0], grid[-1], points)
    else:
        wanted = np.geomspace(positive[0], positive[-1], points)
    last = len(grid) - 1
    picked = np.minimum(np.searchsorted(grid, wanted), last)
    return grid[np.union1d(picked, [0, last])]
