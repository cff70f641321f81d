"""Weights of a given mini-batch for the sum over all data, by Bayesian quadrature.

With K the kernel of the S rows and z their kernel means over the data, the mean of a Gaussian process over
the data has the posterior mean sum_i w_i f(x_i), w = K^-1 z, for every f, so that one solve serves all
coordinates of a gradient. The posterior variance is the squared MMD of the weighted batch to the data.

    w = (K + s^2 I)^-1 (z + s^2 / N)

The noise s^2 is the variance of a part of f that is independent between rows. That part contributes to the
mean over the data, hence the term s^2 / N; with all N rows each weight is 1 / N. All weights are scaled by N,
since they stand for a sum.
"""

from __future__ import annotations

import numpy as np

from acquisition.minibatch.features import Features
from gp.linalg import Factor
from gp.triangular import cholesky

_JITTER = 1e-10
"""Share of the largest k(x, x) that is added to the diagonal, as rows may be nearly equal."""


def quadrature_weights(features: Features, indices: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """Weights (S,) of distinct rows ``indices``, for a sum over the data.

    Parameters
    ----------
    features : of the data
    indices : (S,)
    noise : s^2 >= 0, variance that the kernel does not explain, in units of k(x, x)
    """
    size, n = len(indices), len(features)
    gram, z = features.gram(indices), features.kernel_mean(indices)
    nugget = noise + _JITTER * gram.diagonal().max()
    factor = Factor(cholesky(gram + nugget * np.eye(size)))
    return np.asarray(n * factor.solve(factor.solve(z + nugget / n), transposed=True))
