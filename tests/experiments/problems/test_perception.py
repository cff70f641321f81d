"""Models of perception: responses against simulated observers, evidences against a grid and exact values."""

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from experiments.problems import perception
from experiments.problems.laplace import laplace
from experiments.problems.perception import DIFFERENCES, INTERVALS, LONGEST


def test_responses_to_intervals_are_those_of_simulated_observers():
    """Shares of 40,000 responses below five levels; 4.5 sds, with a false-alarm rate of 30 * 7e-6."""
    theta, n = perception.timing_model().start, 40_000
    responses = perception.simulated_responses(theta, n, 1)
    r = np.linspace(0.0, LONGEST, 4001)
    grid = torch.tensor(np.tile(r, (len(INTERVALS), 1)))
    density = perception.response_log_density(torch.tensor(theta)[None], grid)[0].exp().numpy()
    total = (
        np.concatenate([np.zeros((6, 1)), np.cumsum(0.5 * (density[:, 1:] + density[:, :-1]), 1)], 1) * r[1]
    )
    np.testing.assert_allclose(total[:, -1], 1.0, atol=1e-3)
    for i, mean in enumerate(responses.mean(1)):
        levels = mean + 0.1 * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        share = np.interp(levels, r, total[i])
        drawn = (responses[i, :, None] < levels).mean(0)
        assert (np.abs(drawn - share) < 4.5 * np.sqrt(share * (1.0 - share) / n) + 1e-3).all()


def test_judgements_of_a_common_cause_are_those_of_simulated_observers():
    """27 shares of 40,000 judgements; 4.5 sds, with a false-alarm rate of 27 * 7e-6."""
    theta, n, rng = perception.multisensory_model().start, 40_000, np.random.default_rng(2)
    visual, vestibular, kappa = np.exp(theta[:3]), np.exp(theta[3]), np.exp(theta[4])
    lapse = 1.0 / (1.0 + np.exp(-theta[5]))
    share = perception.common(torch.tensor(theta)[None], torch.tensor(DIFFERENCES))[0].numpy()
    for c, sd in enumerate(visual):
        apart = DIFFERENCES + sd * rng.standard_normal((n, 9)) - vestibular * rng.standard_normal((n, 9))
        guess = rng.random((n, 9)) < 0.5
        judged = np.where(rng.random((n, 9)) < lapse, guess, np.abs(apart) < kappa).mean(0)
        assert (np.abs(judged - share[c]) < 4.5 * np.sqrt(share[c] * (1.0 - share[c]) / n)).all()


def test_the_evidence_of_the_multisensory_model_is_that_of_a_grid():
    """Given the vestibular sd, kappa and lambda, the visual sds are independent, so that product rules
    suffice.
    """
    model, exact = perception.multisensory_model(), perception.multisensory()
    sd = np.sqrt(np.diag(exact.covariance))
    u = np.linspace(-3.5, 3.5, 49) * 0.8 + np.log(10.0)
    kappas, logits = (np.linspace(-5.0, 5.0, m) * sd[i] + exact.mean[i] for i, m in ((4, 27), (5, 21)))
    step = u[1] - u[0]
    prior = norm.logpdf(u, np.log(10.0), 0.8)
    total = np.hypot(np.exp(u)[:, None], np.exp(u))  # visual, vestibular
    counts = model.counts
    logs = np.empty((len(kappas), len(logits), len(u)))
    for k, kappa in enumerate(np.exp(kappas)):
        high = log_ndtr((kappa - DIFFERENCES) / total[..., None])
        inside = np.exp(high) - np.exp(log_ndtr((-kappa - DIFFERENCES) / total[..., None]))
        for j, logit in enumerate(logits):
            lapse = 1.0 / (1.0 + np.exp(-logit))
            p = (1.0 - lapse) * inside + 0.5 * lapse
            each = np.log(p) @ counts.T + np.log1p(-p) @ (perception.EACH[1] - counts).T  # (u, v, 3)
            logs[k, j] = (logsumexp(each + prior[:, None, None], axis=0) + np.log(step)).sum(1)
    logs += prior + norm.logpdf(kappas, model.centre[4], 0.8)[:, None, None]
    logs += norm.logpdf(logits, model.centre[5], 1.0)[:, None]
    cell = step * (kappas[1] - kappas[0]) * (logits[1] - logits[0])
    assert logsumexp(logs) + np.log(cell) == pytest.approx(exact.log_evidence, abs=0.01)


def test_the_evidence_of_the_timing_model_is_that_of_independent_draws():
    """From Laplace's approximation and a wider Gaussian, unadapted; 4 sds, a false-alarm rate of 6e-5."""
    model = perception.timing_model()
    proposal = laplace(model.log_joint, model.start).heavy_tailed()
    points = np.asarray(proposal.sample(4096, 3))
    logs = model.log_density(points) - np.asarray(proposal.log_density(points))
    weights = np.exp(logs - logs.max())
    sd = weights.std() / weights.mean() / 64.0
    assert sd < 0.1
    estimate = np.log(weights.mean()) + logs.max()
    assert estimate == pytest.approx(perception.timing().log_evidence, abs=4.0 * sd)
