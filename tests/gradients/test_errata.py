"""The thesis' gradients: the corrected ones are autodiff's, and the misprints of the errata are not."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from oracles import (
    expected_log_weights,
    gaussian_mixture_elbo,
    gaussian_mixture_responsibilities,
    leaf,
    quadratic,
    tensor,
)

from bqvi.families import Dirichlet

N, K, D = 17, 4, 3
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


def spd(rng):
    a = rng.standard_normal((D, D + 2))
    return a @ a.T / D


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    return {
        "x": tensor(rng.normal(scale=2.0, size=(N, D))),
        "r": tensor(rng.dirichlet(np.ones(K), N)),
        "alpha": leaf(rng.uniform(0.5, 6.0, K)),
        "m": leaf(rng.normal(size=(K, D))),
        "c": leaf(np.stack([spd(rng) for _ in range(K)])),
        "alpha_0": tensor(np.full(K, 0.3)),
        "m_0": tensor(rng.normal(size=D)),
        "c_0": tensor(spd(rng)),
        "sigma": tensor(spd(rng)),
    }


def numpy_of(case):
    return {name: value.detach().numpy() for name, value in case.items()}


def g_of(v):
    return v["r"].sum(0) + v["alpha_0"] - v["alpha"]


def trigamma(x):
    return scipy.special.polygamma(1, x)


def test_3_41_is_the_gradient_and_the_printed_one_is_not(case):
    (expected,) = torch.autograd.grad(gaussian_mixture_elbo(**case), case["alpha"])
    v = numpy_of(case)
    g, total = g_of(v), trigamma(v["alpha"].sum())
    np.testing.assert_allclose(g * trigamma(v["alpha"]) - total * g.sum(), expected, **TOLERANCE)
    printed = g * (trigamma(v["alpha"]) - total)
    assert np.abs(printed - expected.numpy()).max() > 0.1
    found = Dirichlet(v["alpha"]).gradient_to_unconstrained((g,))[0] / v["alpha"]
    np.testing.assert_allclose(found, expected, **TOLERANCE)


def test_3_42_and_3_43_as_printed(case):
    by_m, by_c = torch.autograd.grad(gaussian_mixture_elbo(**case), (case["m"], case["c"]))
    v = numpy_of(case)
    counts = v["r"].sum(0)
    centres = v["r"].T @ v["x"] / counts[:, None]
    precision, prior = np.linalg.inv(v["sigma"]), np.linalg.inv(v["c_0"])
    for k in range(K):
        slope = -counts[k] * precision @ (v["m"][k] - centres[k]) - prior @ (v["m"][k] - v["m_0"])
        np.testing.assert_allclose(slope, by_m[k], **TOLERANCE)
        curve = 0.5 * (np.linalg.inv(v["c"][k]) - counts[k] * precision - prior)
        np.testing.assert_allclose(curve, by_c[k], **TOLERANCE)


def test_gradient_with_optimal_responsibilities_is_the_one_with_them_fixed(case):
    """Which is why the E step needs no derivative."""
    r = gaussian_mixture_responsibilities(case["x"], case["alpha"], case["m"], case["c"], case["sigma"])
    leaves = case["alpha"], case["m"], case["c"]
    through = torch.autograd.grad(gaussian_mixture_elbo(**{**case, "r": r}), leaves)
    fixed = torch.autograd.grad(gaussian_mixture_elbo(**{**case, "r": r.detach()}), leaves)
    for a, b in zip(through, fixed, strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


def test_3_40_needs_the_count(case):
    v = numpy_of(case)
    precision = np.linalg.inv(v["sigma"])
    for k in range(K):
        r, m = v["r"][:, k], v["m"][k]
        count = r.sum()
        centre = r @ v["x"] / count
        scatter = (v["x"] - centre).T @ (r[:, None] * (v["x"] - centre)) / count
        gap = v["x"] - m
        whole = r @ (gap @ precision * gap).sum(1)
        between = count * (m - centre) @ precision @ (m - centre)
        np.testing.assert_allclose(between + count * np.trace(precision @ scatter), whole, **TOLERANCE)


def test_5_12_score_of_the_dirichlet(case):
    alpha = case["alpha"]
    log_pi = torch.log(tensor(np.random.default_rng(1).dirichlet(np.ones(K))))
    value = torch.lgamma(alpha.sum()) - torch.lgamma(alpha).sum() + ((alpha - 1.0) * log_pi).sum()
    (expected,) = torch.autograd.grad(value, alpha)
    corrected = torch.digamma(alpha.sum()) - torch.digamma(alpha) + log_pi
    np.testing.assert_allclose(corrected.detach(), expected, **TOLERANCE)
    printed = torch.digamma(alpha.sum()) - torch.digamma(alpha) + alpha * log_pi
    assert (printed - expected).abs().max() > 0.1


def test_5_13_and_5_14_scores_of_the_gaussian(case):
    m, c = leaf(case["m"].detach()[0]), leaf(case["c"].detach()[0])
    mu = tensor(np.random.default_rng(2).normal(size=D))
    value = -0.5 * quadratic(m, mu[None], torch.linalg.inv(c)).sum() - 0.5 * torch.logdet(c)
    by_m, by_c = torch.autograd.grad(value, (m, c))
    inverse, gap = torch.linalg.inv(c).detach(), (mu - m).detach()
    np.testing.assert_allclose(inverse @ gap, by_m, **TOLERANCE)
    solved = inverse @ gap
    np.testing.assert_allclose(0.5 * (torch.outer(solved, solved) - inverse), by_c, **TOLERANCE)
    assert (-0.5 * (torch.outer(gap, gap) + inverse) - by_c).abs().max() > 0.1


def test_5_18_derivative_of_the_integrand_in_mu(case):
    v = {name: value.detach() for name, value in case.items()}
    mu = leaf(np.random.default_rng(3).normal(size=D))
    precision, prior = torch.linalg.inv(v["sigma"]), torch.linalg.inv(v["c_0"])
    posterior = torch.linalg.inv(v["c"][0])
    r = v["r"][:, 0]
    value = -0.5 * (r * quadratic(mu, v["x"], precision)).sum()
    value = value - 0.5 * quadratic(v["m_0"], mu[None], prior).sum()
    value = value + 0.5 * quadratic(v["m"][0], mu[None], posterior).sum()
    (expected,) = torch.autograd.grad(value, mu)
    at = mu.detach()
    likelihood = ((v["x"] - at) * r[:, None]).sum(0) @ precision
    rest = -prior @ (at - v["m_0"]) + posterior @ (at - v["m"][0])
    np.testing.assert_allclose(likelihood + rest, expected, **TOLERANCE)
    assert (-likelihood + rest - expected).abs().max() > 0.1


def test_5_24_and_5_25_have_a_full_jacobian(case):
    v = numpy_of(case)
    g = g_of(v)
    y = leaf(np.random.default_rng(4).gamma(2.0, size=K))
    value = (tensor(g) * torch.log(y / y.sum())).sum()
    (expected,) = torch.autograd.grad(value, y)
    at = y.detach().numpy()
    np.testing.assert_allclose(g / at - g.sum() / at.sum(), expected, **TOLERANCE)
    diagonal = g / (at / at.sum()) * (at.sum() - at) / at.sum() ** 2
    assert np.abs(diagonal - expected.numpy()).max() > 0.01


def test_natural_gradients_4_13_to_4_15(case):
    """F^-1 times autodiff's gradient is eta* - eta, with F autodiff's Hessian of A."""
    alpha = case["alpha"]
    (gradient,) = torch.autograd.grad(gaussian_mixture_elbo(**case), alpha)
    at = alpha.detach().requires_grad_()
    mean = expected_log_weights(at)
    fisher = torch.stack([torch.autograd.grad(entry, at, retain_graph=True)[0] for entry in mean])
    np.testing.assert_allclose(torch.linalg.solve(fisher, gradient), g_of(numpy_of(case)), **TOLERANCE)


# the lecture on a univariate mixture, and two sets of notes


def lecture_elbo(x, m, s2, psi, variance, prior):
    """The terms of the lecture's ELBO that depend on m and s2, by their definitions; nats."""
    prior_term = -0.5 * ((m**2 + s2) / prior).sum()
    likelihood = -0.5 * (psi * ((x[:, None] - m) ** 2 + s2)).sum() / variance
    return prior_term + likelihood + 0.5 * torch.log(s2).sum()


@pytest.mark.parametrize("prior", [1.0, 9.0])
def test_the_lecture_s_updates_and_the_exponent_before_them(prior):
    """Its updates are where autodiff's gradient vanishes; the mode of the printed exponent is elsewhere."""
    rng = np.random.default_rng(5)
    x, psi = tensor(rng.normal(size=12)), tensor(rng.dirichlet(np.ones(3), 12))
    first, count = psi.T @ x, psi.sum(0)
    m, s2 = leaf(first / (1.0 / prior + count)), leaf(1.0 / (1.0 / prior + count))
    slopes = torch.autograd.grad(lecture_elbo(x, m, s2, psi, 1.0, prior), (m, s2))
    for slope in slopes:
        np.testing.assert_allclose(slope, 0.0, atol=1e-10)
    np.testing.assert_allclose(first / (1.0 / prior + count), m.detach())
    printed = first / (2.0 * (0.5 / prior + count))  # of first mu - (1 / (2 prior) + count) mu^2
    assert (printed - m.detach()).abs().max() > 0.05
    if prior != 1.0:  # its first term has the prior N(0, 1)
        (slope,) = torch.autograd.grad(lecture_elbo(x, m, s2, psi, 1.0, 1.0), m)
        assert slope.abs().max() > 0.1


def test_the_entropy_of_a_normal_distribution_has_a_half():
    sd = 0.7
    assert np.isclose(scipy.stats.norm(scale=sd).entropy(), 0.5 * np.log(2.0 * np.pi * sd**2) + 0.5)


def test_em_from_equal_components_stays_at_a_saddle():
    """Two equal components at the mean: a fixed point, from which the likelihood rises along +-mu."""
    x = np.array([-2.0, -1.5, 1.4, 2.1])
    x = x - x.mean()

    def likelihood(means):
        return np.log(0.5 * np.exp(-0.5 * (x[:, None] - means) ** 2).sum(1)).sum()

    r = np.full((4, 2), 0.5)
    np.testing.assert_allclose(r.T @ x / r.sum(0), 0.0, atol=1e-12)
    assert likelihood(np.array([-0.3, 0.3])) > likelihood(np.zeros(2)) > likelihood(np.array([0.3, 0.3]))


def test_a_sampled_divergence_has_no_variance_at_the_posterior():
    """p(z) = N(0, 1), p(x | z) = N(z, 1): the posterior N(x / 2, 1 / 2) as q."""
    x = 1.3
    z = x / 2.0 + np.sqrt(0.5) * np.random.default_rng(6).standard_normal(1000)
    reconstruction = scipy.stats.norm.logpdf(x, z)
    sampled = reconstruction + scipy.stats.norm.logpdf(z) - scipy.stats.norm.logpdf(z, x / 2.0, np.sqrt(0.5))
    assert sampled.std() < 1e-12 < 0.1 < reconstruction.std()


def test_the_factor_of_the_weights_adds_to_the_concentration_and_not_to_one_less():
    """The Dirichlet's parameters at the maximum of E[sum_k (alpha_k - 1 + N_k) ln theta_k] + H[q]."""
    counts, alpha = tensor([3.2, 1.1, 4.7]), 0.8

    def bound(nu):
        return ((alpha - 1.0 + counts) * expected_log_weights(nu)).sum() + torch.distributions.Dirichlet(
            nu
        ).entropy()

    right, printed = leaf(alpha + counts), leaf(alpha - 1.0 + counts)
    np.testing.assert_allclose(torch.autograd.grad(bound(right), right)[0], 0.0, atol=1e-8)
    assert torch.autograd.grad(bound(printed), printed)[0].abs().max() > 0.05
    # nabla = F (E[eta] - lambda), with the sign of the proof
    fisher = torch.autograd.functional.jacobian(expected_log_weights, printed.detach())
    slope = torch.autograd.grad(bound(printed), printed)[0]
    np.testing.assert_allclose(fisher @ (right - printed).detach(), slope, rtol=1e-7, atol=1e-8)
