"""A regression of any size that is simulated from a seed, for timings and memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["simulated"]


def simulated(n: int, dimension: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x (n, D) and y (n,): a smooth function of some of the columns, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, dimension))
    slopes = np.geomspace(1.0, 0.05, dimension)
    return x, np.sin(2 * x @ slopes) + 0.5 * x[:, 0] + 0.1 * rng.standard_normal(n)
