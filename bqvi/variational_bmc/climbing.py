"""Maximisation of the log joint itself, where gradients are given, before the surrogate (`bqvi.calls.climb`).

A surrogate whose first data are far from the posterior needs many evaluations until its mode is that of the
posterior, in particular along a curved path; a quasi-Newton method needs few. Its evaluations are the first
data of the surrogate. The first step has half the length of the plausible box.

The climb is followed by one point in each direction in which it made no step (:mod:`new_directions`).
"""

from __future__ import annotations

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.climb import Asking, AsksError, Ends, climb
from bqvi.variational_bmc.new_directions import in_a_new_direction
from bqvi.variational_bmc.settings import CLIMBING


def next_step(made: Evaluations, most: int) -> np.ndarray | None:
    """The next point (D,) of the climb, or after it a point in a direction without a step; None at the end.

    Parameters
    ----------
    made : the evaluations so far, the first of which is the start of the climb.
    most : the largest number of evaluations of the climb.
    """
    if made.gradients is None or made.failed[0]:
        return None
    try:
        climb(Asking(made), made.points[0], Ends(most, CLIMBING.gain))
    except AsksError as asks:
        return asks.points[0]
    return in_a_new_direction(made)
