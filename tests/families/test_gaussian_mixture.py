"""The mixture of Gaussians as q, against SciPy, autodiff, averages of draws and a grid."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from bqvi.families import DiagonalGaussian, Gaussian, GaussianMixture

SIGMAS = 6.0  # false alarms: 2e-9 a number


def mixture(full=True, k=3, d=2, seed=0):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((k, d, d))
    covariances = roots @ roots.mT + 0.3 * np.eye(d)
    covariances = covariances if full else np.einsum("kii->ki", covariances).copy()
    return GaussianMixture(rng.dirichlet(np.full(k, 5.0)), 2.0 * rng.standard_normal((k, d)), covariances)


BOTH = pytest.mark.parametrize("full", [True, False])


@BOTH
def test_log_density_is_scipys(full):
    q = mixture(full)
    x = np.random.default_rng(1).standard_normal((7, 2))
    parts = zip(q.weights, q.means, q.covariances, strict=True)
    expected = np.log(sum(w * multivariate_normal(m, c).pdf(x) for w, m, c in parts))
    np.testing.assert_allclose(q.log_prob(x), expected, rtol=1e-12)
    np.testing.assert_allclose(q.measure.log_density(x), expected, rtol=1e-12)
    leaves = tuple(torch.tensor(u) for u in q.unconstrained)
    np.testing.assert_allclose(q.from_unconstrained(leaves).log_prob(torch.tensor(x)), expected, rtol=1e-12)


@BOTH
@pytest.mark.parametrize("in_torch", [True, False])
def test_draws_have_its_moments(full, in_torch):
    q = mixture(full)
    if in_torch:
        q = q.from_unconstrained(tuple(torch.tensor(u) for u in q.unconstrained))
    x = np.asarray(q.sample(20000, 3))
    assert x.shape == (20000, 2)
    mean = np.asarray(q.mean)
    products = np.einsum("ni,nj->nij", x - mean, x - mean)
    for draws, expected in ((x, mean), (products, np.asarray(q.covariance))):
        error = draws.std(0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(0) - expected) < SIGMAS * error).all()


def test_strata_are_draws_of_each_component():
    q = mixture()
    x = q.strata(np.random.default_rng(0).standard_normal((20000, 3, 2)))
    for k in range(3):
        error = np.sqrt(np.diag(q.covariances[k]) / len(x))
        assert (np.abs(x[:, k].mean(0) - q.means[k]) < SIGMAS * error).all()
        np.testing.assert_allclose(np.cov(x[:, k].T), q.covariances[k], rtol=0.2, atol=0.1)


def test_mean_field_keeps_variances():
    q = mixture().mean_field()
    assert isinstance(q.components, DiagonalGaussian)
    assert isinstance(mixture().components, Gaussian)
    np.testing.assert_allclose(q.components.variance, np.einsum("kii->ki", mixture().covariances))
    assert q.mean_field() is q


def test_bad_input_is_named():
    means, covariances, half = np.zeros((2, 3)), np.ones((2, 3)), np.full(2, 0.5)
    for weights, m, c, match in (
        (np.array([0.5, 0.4]), means, covariances, "weights sum to"),
        (np.array([1.0, 0.0]), means, covariances, "weights"),
        (np.full(3, 1 / 3), means, covariances, "weights"),
        (half, np.zeros(2), covariances, "means has shape"),
        (half, means, np.ones((2, 4)), "covariances"),
        (half, means, np.zeros((2, 3, 3)), "covariance"),
        (half, np.full((2, 3), np.nan), covariances, "means"),
    ):
        with pytest.raises(ValueError, match=match):
            GaussianMixture(weights, m, c)
    with pytest.raises(TypeError, match="no reparameterised draws"):
        GaussianMixture(half, means, covariances).rsample(3, 0)
