"""The distance from the q of its base over which a process on gradients has predicted new evaluations.

The process was made at some q_0. When q has moved, its predictions at the new evaluations are
compared with their values. If the squared errors are a small share of the squared values,

    sum_n |y(u_n) - prediction|^2 <= CACHE.missed sum_n |y(u_n)|^2,

the process is taken as valid over the distance from q_0 to q. The posterior standard deviations are not used,
as small ones do not exclude that a long step is wrong.
"""

from __future__ import annotations

import numpy as np

from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.settings import CACHE
from bqvi.gradients.surrogates import Process
from bqvi.gradients.whitened import WhitenedFrame


def predicted_divergence(
    before: Process | None, after: Process | None, base: WhitenedFrame, q: WhitenedFrame
) -> float:
    """Distance in nats from the mean of q_0 to that of q, in units of q_0; 0 where predictions were wrong.

    It is also 0 where q has hardly moved, as the check takes time and no step needs it then.

    Parameters
    ----------
    before, after : the process without and with the evaluations at q; 0 if it is not a `GradientProcess`
    base : the units of q_0
    q : the units of q
    """
    if not isinstance(before, GradientProcess) or not isinstance(after, GradientProcess):
        return 0.0
    gap = base.whiten(q.mean[None])[0]
    nats = 0.5 * float(gap @ gap)
    if nats <= CACHE.divergence:
        return 0.0
    new = slice(len(before.given.points), None)
    points = after.given.points[new]
    targets = after.given.targets[new] + after.prior_slope * points
    missed = targets - before.predict(points)
    if not len(points) or not np.vdot(missed, missed) <= CACHE.missed * np.vdot(targets, targets):
        return 0.0
    return nats
