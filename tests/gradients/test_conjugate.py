"""eta* - eta against automatic differentiation of the ELBO, written term by term, at 1e-10."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    gaussian_mixture_elbo,
    gaussian_mixture_responsibilities,
    leaf,
    multinomial_mixture_elbo,
    multinomial_mixture_responsibilities,
    tensor,
)

from bqvi.families import Dirichlet, Gaussian, Product
from bqvi.gradients import Batch, Conjugate
from bqvi.models import GaussianMixture, MultinomialMixture

few = settings(deadline=None, derandomize=True, max_examples=10)
sizes = given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20), k=st.integers(1, 4), d=st.integers(1, 3))


def spd(rng, d):
    a = rng.standard_normal((d, d + 3))
    return a @ a.T / d


def conjugate(model, q, x):
    return Conjugate()(model, q, Batch(x, len(x)), np.random.default_rng(0)).values


def agree(found, expected):
    for a, b in zip(found, expected, strict=True):
        # rounding of sums of N terms of the gradient's size through a 3 by 3 inverse
        expected = b.numpy()
        atol = 1e-10 * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(a, expected, rtol=1e-10, atol=atol)


@few
@sizes
def test_gaussian_mixture(seed, n, k, d):
    rng = np.random.default_rng(seed)
    x, sigma, c_0 = rng.normal(scale=2.0, size=(n, d)), spd(rng, d), spd(rng, d)
    alpha_0, m_0 = rng.uniform(0.1, 2.0, k), rng.normal(size=d)
    model = GaussianMixture(
        k, sigma, concentration=alpha_0, prior_mean=m_0, prior_covariance=0.5 * (c_0 + c_0.T)
    )
    covariances = np.stack([spd(rng, d) for _ in range(k)])
    q = Product(
        {
            "weights": Dirichlet(rng.uniform(0.3, 5.0, k)),
            "means": Gaussian(rng.normal(size=(k, d)), 0.5 * (covariances + covariances.swapaxes(1, 2))),
        }
    )

    def elbo(alpha, m, c):
        r = gaussian_mixture_responsibilities(tensor(x), alpha, m, c, tensor(sigma))
        fixed = (tensor(alpha_0), tensor(m_0), tensor(c_0), tensor(sigma))
        return gaussian_mixture_elbo(tensor(x), r, alpha, m, c, *fixed)

    # in the unconstrained coordinates: ln alpha, m, and a Cholesky factor with a log diagonal
    u = tuple(map(leaf, q.unconstrained))
    factor = torch.tril(u[2], -1) + torch.diag_embed(torch.exp(torch.diagonal(u[2], 0, -2, -1)))
    by_u = torch.autograd.grad(elbo(torch.exp(u[0]), u[1], factor @ factor.mT), u)
    natural = conjugate(model, q, x)
    agree(q.gradient_to_unconstrained(natural), by_u)

    # in the natural parameters: the plain gradient is the Fisher matrix times the natural one
    eta = tuple(map(leaf, q.natural))
    c = torch.linalg.inv(-(eta[2] + eta[2].mT))
    by_eta = torch.autograd.grad(elbo(eta[0], (c @ eta[1][..., None])[..., 0], c), eta)
    agree(q.fisher_product(natural), by_eta)


@few
@sizes
def test_multinomial_mixture(seed, n, k, d):
    rng = np.random.default_rng(seed)
    x, alpha_0, gamma_0 = rng.poisson(2.0, (n, d)), rng.uniform(0.1, 2.0, k), rng.uniform(0.1, 2.0, d)
    model = MultinomialMixture(k, d, concentration=alpha_0, word_concentration=gamma_0)
    q = Product(
        {
            "weights": Dirichlet(rng.uniform(0.3, 5.0, k)),
            "words": Dirichlet(rng.uniform(0.3, 5.0, (k, d))),
        }
    )
    u = tuple(map(leaf, q.unconstrained))
    alpha, gamma = torch.exp(u[0]), torch.exp(u[1])
    r = multinomial_mixture_responsibilities(tensor(x), alpha, gamma)
    value = multinomial_mixture_elbo(tensor(x), r, alpha, gamma, tensor(alpha_0), tensor(gamma_0))
    agree(q.gradient_to_unconstrained(conjugate(model, q, x)), torch.autograd.grad(value, u))


@pytest.mark.parametrize("strategy", ["Uniform", "Replacement", "Reshuffled"])
def test_a_mini_batch_is_the_sum_over_its_weighted_rows(strategy):
    """Unbiasedness follows by linearity from the strategies' own test, in `tests/acquisition`."""
    from acquisition import minibatch

    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 2))
    model = GaussianMixture(3, np.eye(2))
    q = model.initial(x, "random", rng)
    made = {
        "Uniform": minibatch.Uniform(4),
        "Replacement": minibatch.Uniform(4, replacement=True),
        "Reshuffled": minibatch.Reshuffled(4),
    }[strategy]
    selection, _ = made.draw(made.start(12, rng), rng)
    batch = Batch(x[selection.indices], 4, selection.weights)
    found = Conjugate()(model, q, batch, rng)
    each = [conjugate(model, q, x[[i]]) for i in selection.indices]
    rest = [p - e for p, e in zip(model.prior.natural, q.natural, strict=True)]
    for leaf_index, value in enumerate(found.values):
        expected = rest[leaf_index] + sum(
            w * (own[leaf_index] - rest[leaf_index]) for w, own in zip(selection.weights, each, strict=True)
        )
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-11)
    assert found.n_evaluations == 4
    assert found.local is None
