"""The chains of the comparison with variational inference: against enumeration, and closed moments."""

from itertools import islice, product

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal

from experiments.thesis import mcmc

X = np.array([[0.0, 0.2], [0.4, -0.3], [2.4, 1.9], [2.0, 2.6], [1.0, 1.2]])
AT = np.array([[0.5, 0.5], [2.0, 2.0], [-1.0, 3.0]])
ALPHA = 0.7


def enumerated():
    """ln p(x' | X) of two components with means from N(0, I), over all assignments."""
    parts, found = [], []
    for z in product((0, 1), repeat=len(X)):
        counts = np.bincount(z, minlength=2)
        weight, densities = gammaln(counts + ALPHA).sum(), np.zeros(len(AT))
        for k in (0, 1):
            own = X[np.array(z) == k]
            n = len(own)
            total = own.sum(0)
            # ln of the integral of prod N(x; mu, I) N(mu; 0, I), less what all assignments share
            weight += 0.5 * (total @ total) / (n + 1.0) - np.log(n + 1.0)
            predictive = multivariate_normal(total / (n + 1.0), (1.0 + 1.0 / (n + 1.0)) * np.eye(2))
            densities += (n + ALPHA) / (len(X) + 2.0 * ALPHA) * predictive.pdf(AT)
        parts.append(weight)
        found.append(densities)
    shares = np.exp(np.array(parts) - logsumexp(parts))
    return shares @ np.array(found)


def predictions(draws, n):
    return np.array([np.exp(mcmc._predicted(AT, *draw)) for draw in islice(draws, n)])


def within(found, exact):
    """Means of twenty blocks: 5 standard errors, which normal errors exceed in 6e-7 of the tests."""
    blocks = found.reshape(20, -1, len(AT)).mean(1)
    return np.abs(blocks.mean(0) - exact) < 5.0 * blocks.std(0, ddof=1) / np.sqrt(20.0)


def test_both_chains_have_the_predictions_of_an_enumeration(monkeypatch):
    monkeypatch.setattr(mcmc, "_CONCENTRATION", ALPHA)
    start = np.array([[0.0, 0.0], [2.0, 2.0]])
    chain = mcmc.gibbs(X, start, np.random.default_rng(0))
    assert within(predictions(chain, 8000), enumerated()).all()
    chain = mcmc._of_hmc(X, start, 200, np.random.default_rng(1))
    assert within(predictions(islice(chain, 200, None), 300), enumerated()).all()


def test_the_prediction_under_q_is_the_mean_over_its_draws():
    """Covariances are wider by those of the means: 4,000 draws of Dir x N, within 5 standard errors."""
    rng, alpha = np.random.default_rng(3), np.array([2.0, 5.0])
    means, variances = np.array([[0.0, 0.2], [2.0, 2.4]]), np.array([0.3, 0.6])
    closed = np.exp(mcmc._predicted(AT, np.log(alpha / alpha.sum()), means, 1.0 + variances))
    draws = (
        (np.log(rng.dirichlet(alpha)), means + np.sqrt(variances)[:, None] * rng.standard_normal((2, 2)))
        for _ in range(4000)
    )
    assert within(predictions(draws, 4000), closed).all()


def test_a_dirichlet_with_small_concentrations_has_finite_logarithms():
    rng = np.random.default_rng(2)
    draws = np.array([mcmc.log_dirichlet(np.array([1e-3, 1e-3, 2.0]), rng) for _ in range(2000)])
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(logsumexp(draws, axis=1), 0.0, atol=1e-12)
    # Var = a (s - a) / (s^2 (s + 1)) of the last weight, 5 standard errors
    expected = 2.0 / 2.002
    error = np.sqrt(expected * (1.0 - expected) / 3.002 / 2000)
    assert abs(np.exp(draws[:, 2]).mean() - expected) < 5.0 * error
