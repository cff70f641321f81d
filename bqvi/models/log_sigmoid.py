"""E[ln sigmoid(x)] and its derivatives for x ~ N(m, s^2), to rounding for every s.

ln sigmoid has singularities at +-i pi, so that the trapezoidal rule on the nodes m + s k h is off by the
order of exp(-2 pi^2 / (s h)). Where s is large, it is summed over the logistic density instead (`_ramps`).
"""

from __future__ import annotations

import numpy as np
import scipy.special

_BLOCK = 4096
"""The number of rows computed together, which bounds the table of (rows, nodes)."""
_WIDE = 8.0
"""The standard deviation from which the 161 nodes below are fewer than those of a rule on the Gaussian."""
_LOGISTIC_NODES = 0.5 * np.arange(-80, 81)
_LOGISTIC_WEIGHTS = 0.5 * scipy.special.expit(_LOGISTIC_NODES) * scipy.special.expit(-_LOGISTIC_NODES)
"""Nodes on the logistic density, by the trapezoidal rule: its error is exp(-2 pi^2 / .5), the tails 1e-17."""


def expected_derivatives(
    mean: np.ndarray, scale: np.ndarray, step: float = 0.85
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E of ln sigmoid and of its first two derivatives, x ~ N(mean, scale^2): three times (N,).

    With the distance ``step`` between nodes, in units of x, errors are 1e-10; with .5 they are rounding's.

    Wide Gaussians are summed over the logistic density l, of which -ln sigmoid is a mixture of ramps,

        ln sigmoid(x) = -int l(t) max(t - x, 0) dt,

    so that the number of nodes does not grow with ``scale``.
    """
    found = np.empty((3, len(mean)))
    wide = scale > _WIDE
    for narrow, rows in ((True, np.flatnonzero(~wide)), (False, np.flatnonzero(wide))):
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            m, s = mean[part], scale[part]
            found[:, part] = _trapezoidal(m, s, step) if narrow else _ramps(m, s)
    return found[0], found[1], found[2]


def _trapezoidal(mean: np.ndarray, scale: np.ndarray, step: float) -> np.ndarray:
    """The three expectations, (3, N), on nodes of the Gaussian, beyond whose tails are 2e-17."""
    step = min(0.4, step / max(float(scale.max(initial=0.0)), 1e-300))
    half = int(np.ceil(8.5 / step))
    nodes = step * np.arange(-half, half + 1)
    weights = step * np.exp(-0.5 * nodes * nodes) / np.sqrt(2.0 * np.pi)
    x = mean[:, None] + scale[:, None] * nodes
    above = scipy.special.expit(-x)
    return np.stack([-np.logaddexp(0.0, -x) @ weights, above @ weights, -(above * (1.0 - above)) @ weights])


def _ramps(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The three expectations, (3, N), on nodes of the logistic density."""
    gap = _LOGISTIC_NODES - mean[:, None]
    z = gap / scale[:, None]
    below, density = scipy.special.ndtr(z), np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    ramps = gap * below + scale[:, None] * density
    return np.stack(
        [-ramps @ _LOGISTIC_WEIGHTS, below @ _LOGISTIC_WEIGHTS, -(density @ _LOGISTIC_WEIGHTS) / scale]
    )
