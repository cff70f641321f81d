"""Moments of the posterior from weighted draws and q, and how much two of them differ by the draws alone."""

import itertools

import numpy as np

from bqvi.variational_bmc.correction import moments_of, weighed
from bqvi.variational_bmc.surrogate import Surrogate, noise_shaped, prior_of
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.matrices import symmetric_divergence


def exact(dimension):
    """A surrogate that is N(0, I) exactly: the prior's quadratic is right, and nothing else varies."""
    x = np.random.default_rng(0).standard_normal((dimension + 2, dimension))
    data = noise_shaped(x, -0.5 * (x**2).sum(1), -x, None, 10.0 * dimension)
    psi = prior_of(dimension, False).lower.copy()
    psi[dimension + 1] = -14.0
    return Surrogate.of(data, psi)


def mixture(dimension, shift, scale):
    return DiagonalMixture(np.ones(1), np.full((1, dimension), shift), np.full((1, dimension), scale))


def test_the_floor_is_what_moments_of_the_same_posterior_differ_by():
    """Six samples: the mean of five divergences is within 1.5 of its bound, and not far below."""
    surrogate, q = exact(10), mixture(10, 0.15, 0.85)
    found = [moments_of(weighed(surrogate, q, 1024, seed), q) for seed in range(6)]
    for one in found:
        np.testing.assert_allclose(one.mean, 0.0, atol=0.15)
        np.testing.assert_allclose(one.covariance, np.eye(10), atol=0.3)
    pairs = itertools.pairwise(found)
    apart = np.mean([symmetric_divergence(a.mean, a.covariance, b.mean, b.covariance) for a, b in pairs])
    floor = np.mean([one.floor for one in found])
    assert 0.2 * floor < apart < 1.5 * floor
