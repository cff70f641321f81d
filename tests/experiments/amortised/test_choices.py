"""Discrete z, and an autoencoder's choices: against autodiff, integrals and the experiments' quick forms."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch

from experiments.amortised import choices, discrete


def test_the_exact_gradient_is_autodiff_s_and_the_score_is_without_bias():
    x, mu, logits = discrete._problem(3)
    leaf = logits.clone().requires_grad_()
    value = torch.softmax(leaf, 0) @ (-0.5 * (x - mu).square().sum(1))
    (expected,) = torch.autograd.grad(value, leaf)
    exact = discrete.exact(x, mu, logits)
    torch.testing.assert_close(exact, expected)
    for baseline in (False, True):
        found = discrete.scores(x, mu, logits, 4000, baseline, 0)
        # 5 standard errors, of 10 entries: a false alarm in 6e-6
        assert ((found.mean(0) - exact).abs() < 5.0 * found.std(0) / np.sqrt(4000.0)).all()
    warm, cold = (discrete.relaxed(x, mu, logits, 4000, t, 0) for t in (5.0, 0.1))
    assert (warm.mean(0) - exact).norm() > 2.0 * (cold.mean(0) - exact).norm()
    assert warm.var(0).sum() < 0.1 * cold.var(0).sum()


def test_the_density_of_couplings_integrates_to_one():
    """E_q[phi(z) / q(z)] = 1 for a density phi, by draws of q: 5 standard errors."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = choices.Couplings(4)
        with torch.no_grad():
            z, log_q = encoder(torch.full((40_000, 1), 1.2))
    narrow = scipy.stats.multivariate_normal(z.mean(0).numpy(), 0.05 * np.eye(2))
    ratio = narrow.pdf(z.numpy()) / np.exp(log_q.numpy())
    assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(ratio)) < 0.2


def test_the_evidence_of_rings_is_an_integral():
    x = torch.tensor([[0.5], [4.0]])

    def integrand(r, at):
        return scipy.stats.norm.pdf(at, r, choices._NOISE) * 0.5 * np.exp(-0.5 * r)

    for at, found in zip((0.5, 4.0), choices.log_evidence_of_rings(x), strict=True):
        exact = scipy.integrate.quad(integrand, 0.0, 60.0, args=(at,), points=[at])[0]
        assert float(found) == pytest.approx(np.log(exact), abs=1e-3)


def test_a_decoder_with_its_own_variance_has_a_normal_density():
    output = torch.tensor([[[0.3, -0.2, 0.4, 1.0]]])
    x = torch.tensor([[0.5, 0.1]])
    sd = choices._LEAST_SD + np.log1p(np.exp([0.4, 1.0]))
    expected = scipy.stats.norm.logpdf([0.5, 0.1], [0.3, -0.2], sd)
    np.testing.assert_allclose(choices.OwnVariance().log_prob(output, x, {})[0, 0], expected, rtol=1e-5)
