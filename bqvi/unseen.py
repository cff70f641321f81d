"""Modes that no point has shown: what they are expected to add to the logarithm of an integral.

Points that are spread over a region are counted by the mode to which they lead. Let n of them lead to known
modes, f of these modes be reached from a single point each, s points lead nowhere, and g points be expected
to lead to further modes. The odds that the next point leads to an unseen mode are about

    (f + s / 2 + g + 1) / (n + 2 - f).

For f = s = g = 0 this is Laplace's rule of succession. For large f it is the estimate of Good (1953), by
which the unseen modes have the share f / n of all points. A point that leads nowhere is counted half as one
of a known mode and half as one of an unseen mode.

If an unseen mode has as much mass as the known ones with probability 1/2, and none otherwise, the log
integral is too low by log(2) / 2 times these odds on average. Where the odds are large, log(1 + odds) is
less; these are the missing nats if points lead to modes in proportion to their mass.
"""

from __future__ import annotations

import numpy as np


def expected_rise(count: float, once: float = 0.0, nowhere: float = 0.0, unknown: float = 0.0) -> float:
    """Return the nats that unseen modes are expected to add to the log integral, the smaller of the two.

    Parameters
    ----------
    count : the number of points that lead to known modes.
    once : the number of modes to which at most one of these points leads.
    nowhere : the number of points that lead nowhere.
    unknown : the number of points that lead to modes not yet found.
    """
    odds = (once + 0.5 * nowhere + unknown + 1.0) / max(count + 2.0 - once, 1.0)
    return min(0.5 * float(np.log(2.0)) * odds, float(np.log1p(odds)))
