"""Moments of the posterior from weighted draws and q, and how much two of them differ by the draws alone."""

import itertools

import numpy as np
import pytest

from bqvi.variational_bmc.correction import moments_of, weighed
from bqvi.variational_bmc.settings import CONVERGENCE
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


@pytest.mark.parametrize("dimension", [10, 20])
def test_a_posterior_that_does_not_change_has_settled(dimension):
    surrogate, q = exact(dimension), mixture(dimension, 0.0, 1.0)
    drawn = [weighed(surrogate, q, 1024, seed) for seed in (1, 2)]
    first, second = (moments_of(found, q) for found in drawn)
    np.testing.assert_allclose(first.covariance, np.eye(dimension), atol=1e-3)
    assert first.floor < 1e-6
    assert symmetric_divergence(first.mean, first.covariance, second.mean, second.covariance) < 1e-6
    # the draws alone: in twenty dimensions nothing could ever fall below the threshold
    plain = [np.cov(found.u.T, aweights=found.weights, ddof=0) for found in drawn]
    apart = symmetric_divergence(*(x for s in plain for x in (np.zeros(dimension), s)))
    assert (apart > CONVERGENCE.divergence) == (dimension == 20)


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


def test_a_control_variate_leaves_the_moments_unbiased():
    """Against closed forms, from many draws of a q that is shifted and too wide."""
    surrogate, q = exact(3), mixture(3, 0.5, 1.3)
    found = moments_of(weighed(surrogate, q, 2**15, 0), q)
    np.testing.assert_allclose(found.mean, 0.0, atol=0.01)
    np.testing.assert_allclose(found.covariance, np.eye(3), atol=0.01)
