"""Low-discrepancy points mapped to a measure, for designs, plans and candidates."""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, as_like
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Measure

__all__ = ["carried_sobol", "require_count"]


def carried_sobol(measure: Measure, n: int, seed: int | np.random.Generator) -> Array:
    """Return the first n points of a scrambled Sobol set, mapped to the measure, (n, D)."""
    require_count("n", n)
    cube = scrambled_sobol(measure.dimension, n, seed)
    return measure.from_unit_cube(as_like(cube, measure.mean))


def require_count(name: str, n: int) -> None:
    """Raise ValueError unless n is an integer of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"{name} = {n!r}: give a number of points of at least 1")
