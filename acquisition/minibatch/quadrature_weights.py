"""Weights of a given mini-batch for the sum over all data, by Bayesian quadrature.

With K the kernel of the S rows and z their kernel means over the data, the mean of a Gaussian process over
the data has the posterior mean sum_i w_i f(x_i), w = K^-1 z, for every f, so that one solve serves all
coordinates of a gradient. The posterior variance is the squared MMD of the weighted batch to the data.

    plain      w = (K + s^2 I)^-1 (z + s^2 / N)       shrinks towards 0: biased
    shrunk     w = 1/S + (K + s^2 I)^-1 (z - K 1/S)   shrinks towards equal weights: biased, less so
    debiased   w + P d,  P = (K + s^2 I)^-1,  d_i = ((N - S + 1) / N - w_i) / (S P_ii)

The debiased rule is unbiased over a uniformly random mini-batch. It is the mean, over i, of leave-one-out
estimates: without datum i the prediction of the mean is sum_n k_n^T K_-i^-1 f_-i / N. Datum i is uniformly
random among the N - S + 1 rows that are not among the other S - 1, so its residual estimates the residuals of
those rows. The noise s^2 is the variance of a part of f that is independent between rows. That part
contributes to the mean over the data, hence the term s^2 / N; with all N rows each weight is 1 / N. All
weights are scaled by N, since they stand for a sum.
"""

from __future__ import annotations

import numpy as np

from acquisition.minibatch.features import Features
from gp.linalg import Factor, inverse
from gp.triangular import cholesky

__all__ = ["RULES", "quadrature_weights"]

RULES = ("plain", "shrunk", "debiased")
_JITTER = 1e-10
"""Share of the largest k(x, x) that is added to the diagonal, as rows may be nearly equal."""


def quadrature_weights(
    features: Features, indices: np.ndarray, rule: str = "plain", noise: float = 0.0
) -> np.ndarray:
    """Weights (S,) of distinct rows ``indices``, for a sum over the data.

    Parameters
    ----------
    features : of the data
    indices : (S,)
    rule : one of RULES
    noise : s^2 >= 0, variance that the kernel does not explain, in units of k(x, x)
    """
    size, n = len(indices), len(features)
    gram, z = features.gram(indices), features.kernel_mean(indices)
    nugget = noise + _JITTER * gram.diagonal().max()
    factor = Factor(cholesky(gram + nugget * np.eye(size)))
    if rule == "shrunk":
        rest = z - gram.mean(axis=1)
        return np.asarray(n * (1.0 / size + _solved(factor, rest)))
    z = z + nugget / n
    if rule == "plain":
        return np.asarray(n * _solved(factor, z))
    precision = inverse(factor)
    weights = precision @ z
    correction = ((n - size + 1) / n - weights) / (size * precision.diagonal())
    return np.asarray(n * (weights + precision @ correction))


def _solved(factor: Factor, right: np.ndarray) -> np.ndarray:
    """K^-1 ``right``, (S,)."""
    return np.asarray(factor.solve(factor.solve(right), transposed=True))
