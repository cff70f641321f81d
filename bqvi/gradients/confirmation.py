"""How far a process on gradients has been seen to be right.

It was made at some q_0; then q moved, and what is evaluated there had been predicted. Where the squared
errors of the prediction are a small share of what was to be predicted,

    sum_n |y(u_n) - prediction|^2 <= MISSED sum_n |y(u_n)|^2,

the process is right over the way from q_0 to q. Its own error bars are not asked: a step that is long for
them may be wrong all the same.
"""

from __future__ import annotations

import numpy as np

from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.recall import STILL
from bqvi.gradients.surrogates import Process
from bqvi.gradients.whitened import Frame

MISSED = 0.01
"""Share of the squares. With .1 one run in ten on non-centred schools, begun with q ten times too narrow,
jumps to where the log joint is steep, and has a gap of 1e3 at 300 evaluations; with .01 none does."""


def confirmed(before: Process | None, after: Process | None, made_at: Frame, q: Frame) -> float:
    """Nats from the mean of q_0 to that of q, in units of q_0; 0 of a process that was wrong.

    Also 0 for what is of no use to a step, and is not worth its time: while q is still.

    Parameters
    ----------
    before, after : the process without and with what was evaluated at q; 0 if it is of another kind
    made_at : q_0's units
    """
    if not isinstance(before, GradientProcess) or not isinstance(after, GradientProcess):
        return 0.0
    gap = made_at.whiten(q.mean[None])[0]
    way = 0.5 * float(gap @ gap)
    if way <= STILL:
        return 0.0
    new = slice(len(before.points), None)
    points, targets = after.points[new], after.targets[new]
    missed = targets - before.predict(points)
    if not len(points) or not np.vdot(missed, missed) <= MISSED * np.vdot(targets, targets):
        return 0.0
    return way
