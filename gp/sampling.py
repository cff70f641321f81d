"""Draws from Gaussian distributions, from a seed and without global state."""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, as_like
from gp.linalg import cholesky


def sample_gaussian(
    mean: Array, covariance: Array, n: int, seed: int | np.random.Generator, scale: Array
) -> Array:
    """Return n draws (n, m) from N(mean, covariance).

    ``scale`` (m,) are the prior variances, which the jitter of the factorisation is relative to: a
    posterior covariance may be singular, and zero at noise-free observations.
    """
    if n < 0:
        raise ValueError(f"n = {n}: give the number of draws, 0 or more")
    rng = np.random.default_rng(seed)
    normal = as_like(rng.standard_normal((n, mean.shape[0])), mean)
    lower = cholesky(covariance, scale).lower
    return mean + normal @ lower.T
