"""Counts with a latent Gaussian process: the evidence against draws that use no grid, gradients."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import gamma, halfnorm, poisson

from experiments.problems import latent_counts as lc
from experiments.problems.torch_posteriors import reference


def test_likelihoods_of_hyperparameters_are_those_of_draws_of_the_prior():
    """400,000 draws for each of three; 4 sds, with a false-alarm rate of 2e-4."""
    log_alpha, log_rho, n = np.array([-0.5, 0.0, 0.3]), np.array([1.6, 2.0, 1.8]), 400_000
    _, logs = lc.given_hyperparameters(log_alpha, log_rho)
    found = logsumexp(logs, axis=1) - np.log(lc.DRAWS)
    scale = np.exp(log_alpha)[:, None, None] * lc.factor(torch.tensor(log_rho)).numpy()
    z = np.random.default_rng(0).standard_normal((n, 11))
    for one, estimate in zip(scale, found, strict=True):
        likelihood = poisson.logpmf(lc.counts(), np.exp(z @ one.T)).sum(1)
        exact = logsumexp(likelihood) - np.log(n)
        sd = np.std(np.exp(likelihood - exact)) / np.sqrt(n)
        assert sd < 0.2
        assert estimate == pytest.approx(exact, abs=4.0 * sd + 0.01)


def test_the_evidence_is_that_of_adapted_importance_sampling():
    """In all coordinates at once; its weights have a heavy tail: it lies .04 to .07 nats too low."""
    _, logs = reference(lc.model(), 15, 0)
    assert logsumexp(logs) - np.log(len(logs)) == pytest.approx(lc.latent_counts().log_evidence, abs=0.1)


def test_the_prior_of_hyperparameters_is_that_of_the_distributions():
    a, r = np.array([-1.0, 0.5]), np.array([1.2, 2.0])
    expected = (
        halfnorm(scale=lc.SD).logpdf(np.exp(a))
        + a
        + gamma(lc.SHAPE, scale=1.0 / lc.RATE).logpdf(np.exp(r))
        + r
    )
    np.testing.assert_allclose(lc.log_hyperprior(torch.tensor(a), torch.tensor(r)), expected)
