"""The exact ELBO against the thesis' terms, averages of draws, and the log evidence by enumeration."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    gaussian_mixture_elbo,
    gaussian_mixture_responsibilities,
    multinomial_mixture_elbo,
    multinomial_mixture_responsibilities,
    tensor,
    z_scores,
)

from bqvi.families import Dirichlet, Gaussian, Product
from bqvi.models import GaussianMixture, MultinomialMixture, elbo

seeds = st.integers(0, 2**32 - 1)
few = settings(deadline=None, derandomize=True, max_examples=25)


def spd(rng, d):
    a = rng.standard_normal((d, d + 2))
    return a @ a.T / d


def gaussian_case(rng, n, k, d):
    x = rng.normal(scale=2.0, size=(n, d)) + rng.normal(scale=3.0, size=d)
    model = GaussianMixture(
        k,
        spd(rng, d),
        concentration=rng.uniform(0.01, 3.0, k),
        prior_mean=rng.normal(size=d),
        prior_covariance=spd(rng, d),
    )
    q = Product(
        {
            "weights": Dirichlet(rng.uniform(0.05, 6.0, k)),
            "means": Gaussian(rng.normal(size=(k, d)), np.stack([spd(rng, d) for _ in range(k)])),
        }
    )
    return x, model, q


def gaussian_arguments(x, model, q):
    """The arguments of the oracle except r."""
    return {
        "x": tensor(x),
        "alpha": tensor(q["weights"].concentration),
        "m": tensor(q["means"].mean),
        "c": tensor(q["means"].covariance),
        "alpha_0": tensor(model.concentration),
        "m_0": tensor(model.prior_mean),
        "c_0": tensor(model.prior_covariance),
        "sigma": tensor(model.covariance),
    }


def multinomial_case(rng, n, k, v):
    x = rng.poisson(2.0, (n, v)).astype(float)
    model = MultinomialMixture(
        k, v, concentration=rng.uniform(0.01, 3.0, k), word_concentration=rng.uniform(0.05, 2.0, v)
    )
    q = Product(
        {
            "weights": Dirichlet(rng.uniform(0.05, 6.0, k)),
            "words": Dirichlet(rng.uniform(0.05, 6.0, (k, v))),
        }
    )
    return x, model, q


@few
@given(seed=seeds, n=st.integers(1, 30), k=st.integers(1, 5), d=st.integers(1, 4))
def test_gaussian_mixture_elbo_is_the_thesis_sum(seed, n, k, d):
    x, model, q = gaussian_case(np.random.default_rng(seed), n, k, d)
    v = gaussian_arguments(x, model, q)
    r = gaussian_mixture_responsibilities(v["x"], v["alpha"], v["m"], v["c"], v["sigma"])
    expected = float(gaussian_mixture_elbo(r=r, **v))
    assert elbo(model, q, x) == pytest.approx(expected, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(model.responsibilities(q, x), r, atol=1e-9)


@few
@given(seed=seeds, n=st.integers(1, 30), k=st.integers(1, 5), v=st.integers(1, 6), sparse=st.booleans())
def test_multinomial_mixture_elbo_is_the_sum_of_its_terms(seed, n, k, v, sparse):
    """Sparse words too: E[ln beta] = psi(1e-4) - ... = -1e4 is a number like any other."""
    x, model, q = multinomial_case(np.random.default_rng(seed), n, k, v)
    if sparse:
        words = np.where(np.arange(k * v).reshape(k, v) % 2, 1e-4, q["words"].concentration)
        q = Product({**q.factors, "words": Dirichlet(words)})
    alpha, gamma = tensor(q["weights"].concentration), tensor(q["words"].concentration)
    r = multinomial_mixture_responsibilities(tensor(x), alpha, gamma)
    expected = multinomial_mixture_elbo(
        tensor(x), r, alpha, gamma, tensor(model.concentration), tensor(model.word_concentration)
    )
    assert elbo(model, q, x) == pytest.approx(float(expected), rel=1e-11, abs=1e-9)


def test_gaussian_mixture_elbo_is_the_average_of_its_integrand():
    rng = np.random.default_rng(1)
    x, model, q = gaussian_case(rng, 8, 3, 2)
    r = model.responsibilities(q, x)
    draws = 20_000
    theta = q.sample(draws, 0)
    z = np.array([rng.choice(3, draws, p=p) for p in r]).T  # (draws, N)
    pi, mu = np.exp(theta["weights"]), theta["means"]
    value = scipy.stats.dirichlet(model.concentration).logpdf((pi / pi.sum(1, keepdims=True)).T)
    value = value - scipy.stats.dirichlet(q["weights"].concentration).logpdf(
        (pi / pi.sum(1, keepdims=True)).T
    )
    prior = scipy.stats.multivariate_normal(model.prior_mean, model.prior_covariance)
    noise = scipy.stats.multivariate_normal(np.zeros(2), model.covariance)
    for k in range(3):
        own = scipy.stats.multivariate_normal(q["means"].mean[k], q["means"].covariance[k])
        value += prior.logpdf(mu[:, k]) - own.logpdf(mu[:, k])
    for n in range(8):
        chosen = z[:, n]
        value += np.log(pi[np.arange(draws), chosen]) - np.log(r[n, chosen])
        value += noise.logpdf(x[n] - mu[np.arange(draws), chosen])
    assert z_scores(value[:, None], np.array([elbo(model, q, x)])).max() < 5.0  # 6e-7
