"""Gradients in the directions in which the climb to the mode made no step.

A climb in many dimensions ends before it has made steps in all directions. In a direction without differences
between evaluations the curvature of the surrogate is not determined, and where it is positive the density
grows without bound. One further gradient is therefore evaluated for each direction e in which no evaluation
so far differs from the best point x, at

    x + s e,      s^-2 the median curvature along the steps that were made, s at most half the plausible box.

The D + 1 gradients determine a quadratic log joint.
"""

from __future__ import annotations

import numpy as np

from bqvi.calls import Evaluations
from bqvi.variational_bmc.settings import CLIMBING
from gp.linalg import complement


def in_a_new_direction(made: Evaluations) -> np.ndarray | None:
    """A point (D,) that differs from the best one in a new direction; None if there is no such direction."""
    best = int(np.argmax(made.values))
    steps = np.delete(made.points - made.points[best], best, axis=0)
    sizes = np.linalg.norm(steps, axis=1)
    new = complement(steps[sizes > 0.0] / sizes[sizes > 0.0, None], CLIMBING.same)
    if not len(new):
        return None
    away = new[0] * (-1.0 if new[0] @ made.points[best] > 0.0 else 1.0)  # towards the middle of the box
    return made.points[best] + _length(made, best, steps, sizes) * away


def _length(made: Evaluations, best: int, steps: np.ndarray, sizes: np.ndarray) -> float:
    """The inverse square root of the median curvature along the ``steps`` (m, D) from the best point."""
    assert made.gradients is not None
    slopes = np.delete(made.gradients[best] - made.gradients, best, axis=0)
    curvatures = np.einsum("nd,nd->n", slopes, steps) / np.maximum(sizes, 1e-300) ** 2
    curvatures = curvatures[np.isfinite(curvatures) & (curvatures > 0.0)]
    if not len(curvatures):
        return CLIMBING.longest
    return float(min(np.median(curvatures) ** -0.5, CLIMBING.longest))
