"""ELBO by quadrature against adaptive integration, scrambled Sobol points and the prior's closed forms."""

import itertools

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.models import LogisticRegression
from bqvi.models.logistic_regression import expected_derivatives


def test_expected_log_sigmoid_without_spread_and_across_the_switch():
    mean = np.linspace(-50.0, 50.0, 101)
    np.testing.assert_allclose(
        expected_derivatives(mean, np.zeros(101), 0.5)[0], -np.logaddexp(0.0, -mean), rtol=1e-13, atol=1e-300
    )
    below = expected_derivatives(mean, np.full(101, 8.0), 0.5)[0]
    above = expected_derivatives(mean, np.full(101, 8.0 + 1e-14), 0.5)[0]
    np.testing.assert_allclose(below, above, rtol=1e-12, atol=1e-13)


def problem(seed, spread):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(25, 3)) * spread, (rng.random(25) < 0.6).astype(float)
    a = rng.normal(size=(3, 3))
    return x, y, Gaussian(rng.normal(size=3), a @ a.T / 3.0 + 0.1 * np.eye(3))


@pytest.mark.parametrize("spread", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("diagonal", [False, True])
def test_elbo_is_scrambled_sobols(spread, diagonal):
    x, y, q = problem(0, spread)
    if diagonal:
        q = DiagonalGaussian(q.mean, np.diagonal(q.covariance).copy())
    model = LogisticRegression(3, prior_scale=1.7)
    factor = np.linalg.cholesky(np.asarray(q.covariance))
    averages = []
    for seed in range(16):
        uniform = scipy.stats.qmc.Sobol(3, seed=seed).random_base2(12)
        theta = q.mean + scipy.special.ndtri(uniform) @ factor.T
        value = scipy.stats.norm(0.0, 1.7).logpdf(theta).sum(1)
        value += (
            scipy.stats.bernoulli.logpmf(y[:, None], scipy.special.expit(x @ theta.T)).sum(0)
            if spread < 1
            else (-np.logaddexp(0.0, -(2.0 * y - 1.0)[:, None] * (x @ theta.T)).sum(0))
        )
        value -= scipy.stats.multivariate_normal(q.mean, q.covariance).logpdf(theta)
        averages.append(value.mean())
    error = np.std(averages, ddof=1) / 4.0
    # sixteen independent scramblings: |t| with 15 degrees of freedom above 7.5 has probability 2e-6
    assert abs(np.mean(averages) - model.elbo(q, model.check((x, y)))) < 7.5 * error + 1e-10
    assert error < 1e-2


def test_log_joint_is_scipys():
    x, y, _ = problem(1, 1.0)
    model = LogisticRegression(3, prior_scale=0.6)
    data = model.check((x, y))
    theta = np.random.default_rng(2).normal(size=(4, 3))
    prior = model.log_prior(torch.tensor(theta))
    np.testing.assert_allclose(prior, scipy.stats.norm(0.0, 0.6).logpdf(theta).sum(1), rtol=1e-12)
    terms = model.log_likelihood_terms(torch.tensor(theta), data)
    expected = scipy.stats.bernoulli.logpmf(y, scipy.special.expit(theta @ x.T))
    np.testing.assert_allclose(terms, expected, rtol=1e-10)


def test_inputs_are_left_as_they_were_and_may_be_read_only():
    x, y, q = problem(3, 1.0)
    x.flags.writeable = y.flags.writeable = False
    model = LogisticRegression(3)
    assert np.isfinite(model.elbo(q, model.check((x, y))))


@pytest.mark.parametrize("scale", [0.5, 7.9, 8.1, 50.0, 1e4, 1e7])
def test_expected_derivatives_are_those_of_adaptive_quadrature_at_any_width(scale):
    """Around zero in the variable itself, beyond it in units of the scale."""
    means = scale * np.array([-3.0, 0.0, 0.1, 2.0])
    found = np.array(expected_derivatives(means, np.full(4, scale)))
    functions = (
        lambda x: -np.logaddexp(0.0, -x),
        lambda x: scipy.special.expit(-x),
        lambda x: -scipy.special.expit(x) * scipy.special.expit(-x),
    )
    for j, mean in enumerate(means):
        edges = np.unique(np.clip([mean - 12 * scale, mean, -40.0, 0.0, 40.0, mean + 12 * scale],
                                  mean - 12 * scale, mean + 12 * scale))  # fmt: skip
        for i, function in enumerate(functions):
            parts = [
                scipy.integrate.quad(
                    lambda x, function=function, mean=mean: (
                        function(x) * scipy.stats.norm.pdf(x, mean, scale)
                    ),
                    *ends,
                    epsabs=1e-15,
                    limit=200,
                )[0]
                for ends in itertools.pairwise(edges)
            ]
            np.testing.assert_allclose(found[i, j], np.sum(parts), rtol=1e-8)
