"""The way to the mode, where gradients are given: a climb of the log joint itself (`bqvi.calls.climb`).

A surrogate whose first data are far from the posterior needs many evaluations until its mode is that of the
posterior, the more the more the path to it bends; a quasi-Newton method takes a handful. Its evaluations are
the surrogate's first data. The first step is as long as half the plausible box.

In directions that the climb left out, one point each follows (:mod:`new_directions`).
"""

from __future__ import annotations

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.climb import Asking, AsksError, Ends, climb
from bqvi.variational_bmc.new_directions import in_a_new_direction
from bqvi.variational_bmc.settings import CLIMBING


def next_step(made: Evaluations, most: int) -> np.ndarray | None:
    """The next point (D,) of the climb from the first evaluation, then in a direction that it left out.

    ``None`` once there is none.

    Parameters
    ----------
    most : evaluations of the climb, after which it ends.
    """
    if made.gradients is None or made.failed[0]:
        return None
    try:
        climb(Asking(made), made.points[0], Ends(most, CLIMBING.gain))
    except AsksError as asks:
        point: np.ndarray = asks.points[0]
        return point
    return in_a_new_direction(made)
