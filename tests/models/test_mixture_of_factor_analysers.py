"""Mixtures of factor analysers against SciPy, Monte Carlo, factor analysis, and planted subspaces."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from scipy.special import logsumexp

import bqvi
from bqvi.models import FactorAnalysis, MixtureOfFactorAnalysers, RegressionPrior, elbo
from bqvi.models.factor_analysis import NOISES

RNG = np.random.default_rng(0)
LOADINGS = RNG.normal(size=(2, 5, 2))
LABELS = RNG.integers(2, size=200)
X = (
    np.einsum("ndq,nq->nd", LOADINGS[LABELS], RNG.normal(size=(200, 2)))
    + 3.0 * LABELS[:, None]
    + 0.2 * RNG.normal(size=(200, 5))
)
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
each_noise = pytest.mark.parametrize("noise", NOISES)


def mixture(noise, k=2, **choices):
    return MixtureOfFactorAnalysers(k, 2, noise, concentration=1.0, **choices)


@each_noise
def test_the_bound_rises_and_the_planted_subspaces_are_found(noise):
    fit = bqvi.fit(mixture(noise), X, steps=100)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    model = fit.problem.model
    found = model.responsibilities(fit.q, X).argmax(1)
    flipped = found[0] != LABELS[0]
    assert (found == (1 - LABELS if flipped else LABELS)).mean() > 0.98
    loadings = model.parameters(fit.q)["loadings"]
    for own, planted in zip(loadings[::-1] if flipped else loadings, LOADINGS, strict=True):
        assert np.degrees(scipy.linalg.subspace_angles(own, planted).max()) < 5.0
    assert fit.elbo > bqvi.fit(FactorAnalysis(2, noise), X, steps=100).elbo + 100.0
    scores = model.transform(fit.q, X)[np.arange(len(X)), found]
    back = np.einsum("ndq,nq->nd", loadings[found], scores) + model.parameters(fit.q)["centre"][found]
    assert np.sqrt(((back - X) ** 2).mean()) < 0.25


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    ("noise", "x"), [("spherical", X[:60]), ("diagonal", HOLES[:60])], ids=["whole", "missing"]
)
def test_a_point_has_the_likelihood_by_scipy(noise, x, k):
    flat = RegressionPrior(flat=True)
    made = FactorAnalysis(2, noise, prior=flat) if k == 1 else mixture(noise, prior=flat)
    fit = bqvi.fit(made, x, family="point", steps=20)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    model = fit.problem.model
    theta = model.parameters(fit.q)
    parts = theta if k == 2 else {"weights": np.ones(1)} | {name: part[None] for name, part in theta.items()}
    table = np.empty((len(x), k))
    for j in range(k):
        w, centre = parts["loadings"][j], parts["centre"][j]
        covariance = w @ w.T + np.diag(parts["variances"][j])
        for n, row in enumerate(x):
            o = ~np.isnan(row)
            normal = scipy.stats.multivariate_normal(centre[o], covariance[np.ix_(o, o)])
            table[n, j] = np.log(parts["weights"][j]) + normal.logpdf(row[o])
    assert fit.elbo == pytest.approx(logsumexp(table, axis=1).sum())
    assert model.log_likelihood(x, theta) == pytest.approx(fit.elbo)
    np.testing.assert_allclose(
        model.responsibilities(fit.q, x), np.exp(table - logsumexp(table, axis=1, keepdims=True)), atol=1e-9
    )


@each_noise
def test_the_bound_with_its_constants_is_the_average_of_draws(noise):
    """E_q[ln p(X, S, Z, theta) - ln q] over draws of theta, s and z, at seven standard errors."""
    x, rows = X[:8], np.arange(8)
    fit = bqvi.fit(mixture(noise), x, steps=5)
    model, q, rng = fit.problem.model, fit.q, np.random.default_rng(1)
    r, means = model.responsibilities(q, x), model.transform(q, x)
    (one,) = model._passes(q, x)
    roots = np.linalg.cholesky(np.stack([covariance for _, covariance in one.factors]))
    levels = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
    draws = {name: factor.sample(300, rng) for name, factor in q.factors.items()}
    values = model.prior.log_prob(draws) - q.log_prob(draws)
    for i in range(300):
        w, variances = q["columns"].unpacked(draws["columns"][i])
        w, variances = w.reshape(2, 5, 3), variances.reshape(2, -1)
        s = (rng.random(8) > r[:, 0]).astype(int)
        white = rng.standard_normal((8, 2))
        z = means[rows, s] + np.einsum("nij,nj->ni", roots[s], white)
        gaps = x - model.origin - np.einsum("ndq,nq->nd", w[s], np.column_stack([z, np.ones(8)]))
        values[i] += scipy.stats.norm(0.0, np.sqrt(variances[s])).logpdf(gaps).sum()
        values[i] += 0.5 * (white**2 - z**2).sum() + levels[s].sum()  # ln p(z) - ln q(z)
        values[i] += draws["weights"][i][s].sum() - np.log(r[rows, s]).sum()
    error = values.std(ddof=1) / np.sqrt(300)
    assert elbo(model, q, x) == pytest.approx(values.mean(), abs=7.0 * error)
    assert error < 2.0
