"""E[ln sigmoid(x)] for x ~ N(m, s^2), to rounding for every s.

ln sigmoid has singularities at +-i pi. For s <= 1 Gauss-Hermite quadrature with 40 nodes is exact to
rounding; its error is 1e-6 at s = 3 and 1e-2 at s = 10. For s > 1 the integrand is split into its asymptotes,
whose expectation has a closed form, and a remainder that decays within a few units:

    ln sigmoid(x) = min(x, 0) - ln(1 + exp(-|x|)),
    E[min(x, 0)]  = m Phi(-m / s) - s phi(m / s),

and the remainder is integrated by Gauss-Legendre panels of width 4 over 0 < |x| < 36 (beyond, it is below
1e-15), on which a Gaussian of s > 1 is smooth.
"""

from __future__ import annotations

import numpy as np
import scipy.special

_HERMITE_NODES, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / np.sqrt(2.0 * np.pi)
_nodes, _weights = np.polynomial.legendre.leggauss(16)
_PANEL_NODES = (np.arange(2.0, 36.0, 4.0)[:, None] + 2.0 * _nodes).ravel()
_PANEL_VALUES = np.log1p(np.exp(-_PANEL_NODES)) * np.tile(2.0 * _weights, 9) / np.sqrt(2.0 * np.pi)
_BLOCK = 4096
"""The number of rows computed together, which bounds the table of (rows, nodes)."""
_WIDE = 8.0
"""The standard deviation from which the 161 nodes below are fewer than those of a rule on the Gaussian."""
_LOGISTIC_NODES = 0.5 * np.arange(-80, 81)
_LOGISTIC_WEIGHTS = 0.5 * scipy.special.expit(_LOGISTIC_NODES) * scipy.special.expit(-_LOGISTIC_NODES)
"""Nodes on the logistic density, by the trapezoidal rule: its error is exp(-2 pi^2 / .5), the tails 1e-17."""


def expected_log_sigmoid(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """E[ln sigmoid(x)], x ~ N(mean, scale^2): (N,) and (N,), scale >= 0 -> (N,)."""
    result = np.empty(mean.shape)
    narrow = scale <= 1.0
    for rows, rule in ((np.flatnonzero(narrow), _hermite), (np.flatnonzero(~narrow), _split)):
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            result[part] = rule(mean[part], scale[part])
    return result


def expected_derivatives(mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E of ln sigmoid and of its first two derivatives, x ~ N(mean, scale^2): three times (N,).

    Wide Gaussians are summed over the logistic density l, of which -ln sigmoid is a mixture of ramps,

        ln sigmoid(x) = -int l(t) max(t - x, 0) dt,

    so that the number of nodes does not grow with ``scale``.
    """
    found = np.empty((3, len(mean)))
    wide = scale > _WIDE
    for rows, rule in ((np.flatnonzero(~wide), _trapezoidal), (np.flatnonzero(wide), _ramps)):
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            found[:, part] = rule(mean[part], scale[part])
    return found[0], found[1], found[2]


def _trapezoidal(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The three expectations, (3, N), on nodes of the Gaussian.

    The error is of the order of exp(-2 pi^2 / (scale h)), 1e-10 for the step h taken; the tails beyond 8.5
    standard deviations hold 2e-17.
    """
    step = min(0.4, 0.85 / max(float(scale.max(initial=0.0)), 1e-300))
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


def _hermite(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    values = np.logaddexp(0.0, -(mean[:, None] + scale[:, None] * _HERMITE_NODES))
    return -values @ _HERMITE_WEIGHTS


def _split(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    ratio = mean / scale
    density = np.exp(-0.5 * ratio * ratio) / np.sqrt(2.0 * np.pi)
    asymptotes = mean * scipy.special.ndtr(-ratio) - scale * density
    near = np.zeros(mean.shape)
    for side in (_PANEL_NODES, -_PANEL_NODES):
        gap = (side - mean[:, None]) / scale[:, None]
        near += np.exp(-0.5 * gap * gap) @ _PANEL_VALUES
    return asymptotes - near / scale
