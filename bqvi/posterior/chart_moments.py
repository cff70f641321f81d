"""Moments and quantiles of parameters whose charts' coordinates t follow a mixture of Gaussians.

theta_i depends on t_i alone, so that a mean is an integral over one dimension and a covariance one over two,
by Gauss-Hermite nodes in each component. Quantiles of t_i are found by bisection.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from bqvi.calls.coordinates import Coordinates
from gp.measures import GaussianMixture

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_BISECTIONS = 80
"""The number of bisections: 2^-80 of the bracket is below rounding."""


def moments(coordinates: Coordinates, raw: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D,) and covariance (D, D) of the free parameters for t ~ raw."""
    d = raw.dimension
    sds = np.sqrt(np.einsum("kii->ki", raw.covariances))  # (K, D)
    at = coordinates.chart_values(raw.means[:, None] + sds[:, None] * _NODES[:, None])  # (K, m, D)
    inner = np.einsum("m,kmd->kd", _WEIGHTS, at)
    mean = raw.weights @ inner
    covariance = np.empty((d, d))
    for i in range(d):
        spread = np.einsum("m,km->k", _WEIGHTS, (at[:, :, i] - mean[i]) ** 2)
        covariance[i, i] = raw.weights @ spread
        for j in range(i):
            # t_j given t_i is Gaussian: for each node of t_i there are nodes of t_j
            slope = raw.covariances[:, i, j] / sds[:, i]
            conditional_sd = np.sqrt(np.maximum(raw.covariances[:, j, j] - slope**2, 0.0))
            t = raw.means[:, j, None, None] + slope[:, None, None] * _NODES[:, None]
            t = t + conditional_sd[:, None, None] * _NODES
            other = coordinates.axis(j).chart_values(t[..., None])[..., 0] - mean[j]
            product = np.einsum("m,n,km,kmn->k", _WEIGHTS, _WEIGHTS, at[:, :, i] - mean[i], other)
            covariance[i, j] = covariance[j, i] = raw.weights @ product
    return mean, covariance


def mixture_quantiles(raw: GaussianMixture, i: int, levels: np.ndarray) -> np.ndarray:
    """Quantiles of t_i, by bisection of its distribution function.

    Parameters
    ----------
    raw : the mixture of t. i : the coordinate. levels : probabilities (J,).
    """
    means, sds = raw.means[:, i], np.sqrt(raw.covariances[:, i, i])
    low = np.full(len(levels), (means - 40 * sds).min())
    high = np.full(len(levels), (means + 40 * sds).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below = raw.weights @ ndtr((middle - means[:, None]) / sds[:, None]) < levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
