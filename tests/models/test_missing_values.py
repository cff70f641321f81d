"""Missing values in mixtures against marginal densities, optima and whole rows."""

import numpy as np
import pytest
import scipy.stats
from scipy.special import logsumexp

import bqvi
from bqvi.models import (
    DirichletProcessMixture,
    GaussianMixture,
    component_estimates,
)
from bqvi.models.predictive import log_predictive

SHAPES = ("full", "tied", "diagonal", "spherical")
RNG = np.random.default_rng(0)
WHOLE = np.concatenate([RNG.normal(size=(40, 3)), RNG.normal(size=(40, 3)) @ np.diag([1.0, 0.5, 2.0]) + 5.0])
WHOLE[:, 1] += 0.8 * WHOLE[:, 0]
X = np.where(RNG.random(WHOLE.shape) < 0.25, np.nan, WHOLE)
X = X[~np.isnan(X).all(axis=1)]


def marginal_density(weights, means, covariances, row):
    o = ~np.isnan(row)
    parts = [
        np.log(w) + scipy.stats.multivariate_normal(m[o], c[np.ix_(o, o)]).logpdf(row[o])
        for w, m, c in zip(weights, means, covariances, strict=True)
    ]
    return logsumexp(parts)


@pytest.mark.parametrize("shape", SHAPES)
def test_em_maximises_the_likelihood_of_what_is_there(shape):
    model = GaussianMixture(2, shape, flat=True, concentration=1.0)
    fit = bqvi.fit(model, X, family="point", steps=3000, tolerance=1e-11)
    settled = fit.problem.model
    weights = settled.expected_weights(fit.q)
    means, covariances = component_estimates(settled, fit.q)
    by_hand = sum(marginal_density(weights, means, covariances, row) for row in X)
    assert fit.elbo == pytest.approx(by_hand, rel=1e-10)
    assert settled.log_likelihood(X, fit.q.mean) == pytest.approx(by_hand, rel=1e-10)
    assert log_predictive(settled, fit.q, X).sum() == pytest.approx(by_hand, rel=1e-10)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    # no slope is left: what a step h changes is of second order
    h = 1e-4
    for k, d in ((0, 0), (1, 2)):
        moved = [means.copy(), means.copy()]
        moved[0][k, d] += h
        moved[1][k, d] -= h
        up, down = (sum(marginal_density(weights, m, covariances, row) for row in X) for m in moved)
        assert abs(up - down) / (2.0 * h) < 1e-3
        assert up + down < 2.0 * by_hand
    for factor in (1.02, 0.98):
        assert sum(marginal_density(weights, means, factor * covariances, row) for row in X) < by_hand


@pytest.mark.parametrize("shape", SHAPES)
def test_whole_rows_take_the_same_step(shape):
    model = GaussianMixture(3, shape).for_data(WHOLE)
    q = model.initial(WHOLE, "random", np.random.default_rng(0))
    model.incomplete = True
    both = [model.local_step(q, WHOLE)]
    model.incomplete = False
    both.append(model.local_step(q, WHOLE))
    assert both[0].bound == pytest.approx(both[1].bound, rel=1e-12)
    for a, b in zip(both[0].statistics, both[1].statistics, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


SIGMA = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, 0.3], [0.2, 0.3, 0.5]])


def test_a_known_covariance_at_a_point_is_the_likelihood_of_what_is_there():
    fit = bqvi.fit(GaussianMixture(2, SIGMA, concentration=1.0), X, family="point", steps=100)
    model, theta = fit.problem.model, fit.q.mean
    by_hand = sum(marginal_density(theta["weights"], theta["means"], [SIGMA, SIGMA], row) for row in X)
    assert model.log_likelihood(X, theta) == pytest.approx(by_hand, rel=1e-10)
    prior = sum(float(np.sum(model.prior[name].log_prob(fit.q[name].mode[None]))) for name in fit.q.factors)
    assert fit.elbo == pytest.approx(by_hand + prior, rel=1e-10)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    process = bqvi.fit(DirichletProcessMixture(SIGMA, 4, tail="tied"), X, steps=40)
    assert np.diff(process.trace["elbo"]).min() > -1e-9 * abs(process.elbo)
