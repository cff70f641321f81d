"""The way to the mode, where gradients are given: L-BFGS on the log joint itself.

A surrogate that starts far from the posterior needs as many evaluations to get there as there are bends on
the way; a quasi-Newton method takes a handful. Its evaluations are the surrogate's first data. The first step
is as long as half the plausible box.

The method is run anew for each next point and fed from the evaluations made so far, in which it finds all the
points that it asks for but the last: so nothing but the evaluations has to be kept for a run to be resumed.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize

from bqvi.calls import Evaluations
from bqvi.variational_bmc.settings import CLIMBING

Vector = np.ndarray

_WORST = 1e10
"""Objective at a point where the log joint failed, nats."""


class _AsksError(Exception):
    """The first point that has not been evaluated yet."""

    def __init__(self, point: Vector) -> None:
        super().__init__("a point that has not been evaluated")
        self.point = point


def next_step(made: Evaluations, most: int) -> Vector | None:
    """The next point (D,) of the climb from the first evaluation; ``None`` once it has ended.

    Parameters
    ----------
    most : evaluations of the climb, after which it ends.
    """
    if made.gradients is None or made.failed[0]:
        return None
    known = {point.tobytes(): i for i, point in enumerate(made.points)}
    asked: list[int] = []

    def objective(x: Vector) -> tuple[float, Vector]:
        at = known.get(x.tobytes())
        if at is None:
            raise _AsksError(x.copy())
        asked.append(at)
        assert made.gradients is not None
        slope = made.gradients[at]
        if made.failed[at] or not np.isfinite(slope).all():
            return _WORST, np.zeros_like(x)
        return -float(made.values[at]), -slope

    try:
        scipy.optimize.minimize(objective, made.points[0], jac=True, method="L-BFGS-B", callback=_Enough())
    except _AsksError as asks:
        return asks.point if len(set(asked)) < most else None
    except StopIteration:
        return None
    return None


class _Enough:
    """Ends the climb once a step gains little."""

    def __init__(self) -> None:
        self.last = np.inf

    def __call__(self, intermediate_result: scipy.optimize.OptimizeResult) -> None:
        if self.last - intermediate_result.fun < CLIMBING.gain:
            raise StopIteration
        self.last = intermediate_result.fun
