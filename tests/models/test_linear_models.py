"""Factor analysis against closed forms, scikit-learn, brute force and monotonicity."""

import numpy as np
import pytest
from sklearn import decomposition

import bqvi
from bqvi.models import FactorAnalysis, RegressionPrior

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(30, 2)), np.ones(30)])
Y = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=30)
Z = RNG.normal(size=(60, 2))
DATA = (
    Z @ RNG.normal(size=(2, 5))
    + [1.0, 0.0, -1.0, 2.0, 0.0]
    + RNG.normal(size=(60, 5)) * [0.3, 0.5, 0.7, 0.2, 0.4]
)


@pytest.mark.parametrize("noise", ["diagonal", "spherical"])
def test_em_reaches_the_likelihood_of_scikit_learn(noise):
    fit = bqvi.fit(
        FactorAnalysis(2, noise, prior=RegressionPrior(flat=True)),
        DATA,
        family="point",
        steps=3000,
        tolerance=1e-10,
    )
    peer = decomposition.FactorAnalysis(2, tol=1e-10, max_iter=20_000, svd_method="lapack")
    if noise == "spherical":
        peer = decomposition.PCA(2)
    best = peer.fit(DATA).score(DATA) * len(DATA)
    if noise == "spherical":
        # theirs divides by N - 1; the maximum likelihood is in closed form (Tipping and Bishop 1999)
        values = np.linalg.eigvalsh(np.cov(DATA.T, bias=True))[::-1]
        rest = values[2:].mean()
        best = -0.5 * len(DATA) * (5 * np.log(2 * np.pi) + np.log(values[:2]).sum() + 3 * np.log(rest) + 5)
    assert fit.elbo == pytest.approx(best, abs=1e-4)
    model = fit.problem.model
    assert model.log_likelihood(DATA, model.parameters(fit.q)) == pytest.approx(fit.elbo, rel=1e-9)


@pytest.mark.parametrize("noise", ["diagonal", "spherical"])
def test_the_bound_is_below_the_evidence(noise):
    """With z integrated out E_q ln p(X | theta) - KL is above the bound."""
    fit = bqvi.fit(FactorAnalysis(2, noise), DATA, start_from="random", steps=200)
    model, q = fit.problem.model, fit.q["columns"]
    logs = [_log_likelihood(model, q, draw) for draw in q.sample(400, 0)]
    gap = np.mean(logs) - float(np.sum(q.kl(model.prior["columns"]))) - fit.elbo
    assert -4.0 * np.std(logs) / 20.0 < gap < 30.0


def _log_likelihood(model, q, point):
    w, variances = q.unpacked(point[None])
    rows = w.reshape(-1, 3)
    variances = np.broadcast_to(variances.ravel(), (5,))
    return model.log_likelihood(
        DATA, {"loadings": rows[:, :2], "centre": model.origin + rows[:, 2], "variances": variances}
    )


def test_the_local_step_is_the_posterior_of_the_factors():
    fit = bqvi.fit(FactorAnalysis(2, prior=RegressionPrior(flat=True)), DATA, family="point", steps=50)
    model = fit.problem.model
    theta = model.parameters(fit.q)
    w, precision = theta["loadings"], 1.0 / theta["variances"]
    posterior = np.linalg.inv(np.eye(2) + (w.T * precision) @ w)
    expected = (DATA - theta["centre"]) * precision @ w @ posterior
    assert model.transform(fit.q, DATA) == pytest.approx(expected)


def test_the_number_of_factors_by_the_bound():
    bounds = [bqvi.fit(FactorAnalysis(k), DATA, steps=500).elbo for k in (1, 2, 3)]
    assert int(np.argmax(bounds)) == 1
