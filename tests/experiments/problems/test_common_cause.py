"""Judgements of a common cause in twelve dimensions: against simulated observers, and independent draws."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, multivariate_t, norm

from experiments.problems import common_cause as c


def test_judgements_are_those_of_simulated_observers():
    """Of three coherences and five pairs of headings, 1,500 each; 4.5 sds, a false-alarm rate of 1e-4."""
    theta, n, rng = c.SIMULATED, 1_500, np.random.default_rng(0)
    sds, webers = np.exp(theta[:4]), np.exp(theta[4:8])
    lapse, mu, prior = 1.0 / (1.0 + np.exp(-theta[8])), theta[9], np.exp(theta[10])
    log_odds = theta[11]
    shares = c.common(torch.tensor(theta)[None])[0].numpy()
    for k in range(3):
        for i in (0, 40, 49, 55, 98):
            senses = ((c.headings()[0][i], k), (c.headings()[1][i], 3))
            z = np.stack([s + np.hypot(sds[m], webers[m] * s) * rng.standard_normal(n) for s, m in senses])
            noise = np.stack(
                [sds[m] ** 2 + (webers[m] * x) ** 2 for x, (_, m) in zip(z, senses, strict=True)]
            )
            two = norm.logpdf(z, mu, np.sqrt(noise + prior**2)).sum(0)
            one = [
                multivariate_normal.logpdf(x, [mu, mu], np.diag(v) + prior**2)
                for x, v in zip(z.T, noise.T, strict=True)
            ]
            judged = (1.0 - lapse) / (1.0 + np.exp(two - one - log_odds)) + 0.5 * lapse
            assert abs(judged.mean() - shares[k, i]) < 4.5 * judged.std() / np.sqrt(n) + 1e-4


def test_nodes_suffice():
    theta = torch.tensor(c.CENTRE + c.SPREAD * np.random.default_rng(1).uniform(-1.0, 1.0, (8, 12)))
    assert (c.common(theta) - c.common(theta, 41)).abs().max() < 2e-3


def test_the_evidence_is_that_of_independent_draws():
    """Of a Student t with 12 degrees of freedom, not adapted; 4 sds, with a false-alarm rate of 6e-5."""
    exact = c.common_cause()
    proposal = multivariate_t(exact.mean, 0.9 * exact.covariance, df=12, seed=3)
    points = proposal.rvs(2000)
    logs = exact.log_density(points) - proposal.logpdf(points)
    weights = np.exp(logs - logs.max())
    sd = weights.std() / weights.mean() / np.sqrt(len(points))
    assert sd < 0.15
    estimate = np.log(weights.mean()) + logs.max()
    assert estimate == pytest.approx(exact.log_evidence, abs=4.0 * sd)
