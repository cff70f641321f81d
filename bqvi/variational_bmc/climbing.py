"""Maximisation of the log joint itself, where gradients are given, before the surrogate (`bqvi.calls.climb`).

A quasi-Newton method needs few evaluations where a surrogate far from the posterior needs many. They are the
first data of the surrogate. The first step has half the length of the plausible box.

A climb in many dimensions ends before it has made steps in all directions, and without these the surrogate's
density may grow without bound. After the climb one further gradient is therefore evaluated for each direction
e in which no evaluation so far differs from the best point x, at

    x + s e,      s^-2 the median curvature along the steps that were made, s at most half the plausible box.

Where the log joint can be evaluated at fewer of the first points than a surrogate needs, further points lie
near those at which it can: beyond a good point x as seen from the nearest failed one y, and half as far from
it, x + (x - y) / 2. Each failure halves the distance.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from bqvi.calls import AsksError, Evaluations
from bqvi.calls.climb import Asking, Ends, climb
from bqvi.variational_bmc.settings import EXPLORATION
from gp.linalg import complement


def next_step(made: Evaluations, most: int | None = None) -> np.ndarray | None:
    """The next point (D,) before there is a surrogate, or None at the end.

    It is near a good point where there are too few of these, then of the climb, and after it in a direction
    without a step.

    Parameters
    ----------
    made : the evaluations so far, the first of which is the start of the climb.
    most : the largest number of evaluations of the climb; None for 3 D + 5.
    """
    if most is None:
        most = 3 * made.points.shape[1] + 5
    if made.failed.any() and 0 < int((~made.failed).sum()) < 2:
        return _nearer(made)
    if made.gradients is None or made.failed[0]:
        return None
    try:
        climb(Asking(made), made.points[0], Ends(most, EXPLORATION.gain))
    except AsksError as asks:
        return asks.points[0]
    return _in_a_new_direction(made)


def _nearer(made: Evaluations) -> np.ndarray:
    """A point (D,) half as far from a good point as the nearest failed one, and on the other side of it.

    Among the good points it is the one that is farthest from failed ones.
    """
    good, failed = made.points[~made.failed], made.points[made.failed]
    distances, nearest = cKDTree(failed).query(good)
    best = int(np.argmax(distances))
    found: np.ndarray = good[best] + 0.5 * (good[best] - failed[np.asarray(nearest)[best]])
    return found


def _in_a_new_direction(made: Evaluations) -> np.ndarray | None:
    """A point (D,) that differs from the best one in a new direction; None if there is no such direction."""
    best = int(np.argmax(made.values))
    steps = np.delete(made.points - made.points[best], best, axis=0)
    sizes = np.linalg.norm(steps, axis=1)
    # the singular value of a direction without a step
    new = complement(steps[sizes > 0.0] / sizes[sizes > 0.0, None], 0.05)
    if not len(new):
        return None
    direction = new[0] * (-1.0 if new[0] @ made.points[best] > 0.0 else 1.0)  # towards the middle of the box
    return made.points[best] + _length(made, best, steps, sizes) * direction


def _length(made: Evaluations, best: int, steps: np.ndarray, sizes: np.ndarray) -> float:
    """The inverse square root of the median curvature along the ``steps`` (m, D) from the best point."""
    assert made.gradients is not None
    slopes = np.delete(made.gradients[best] - made.gradients, best, axis=0)
    curvatures = np.einsum("nd,nd->n", slopes, steps) / np.maximum(sizes, 1e-300) ** 2
    curvatures = curvatures[np.isfinite(curvatures) & (curvatures > 0.0)]
    if not len(curvatures):
        # half of a half width of the plausible box at the most
        return 0.5
    return float(min(np.median(curvatures) ** -0.5, 0.5))
