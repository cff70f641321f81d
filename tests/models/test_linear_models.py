"""Linear regression and factor analysis against closed forms, scikit-learn, brute force and monotonicity."""

import numpy as np
import pytest
import scipy.stats
from sklearn import decomposition

import bqvi
from bqvi import Constant
from bqvi.models import FactorAnalysis, LinearRegression, RegressionPrior

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(30, 2)), np.ones(30)])
Y = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=30)
Z = RNG.normal(size=(60, 2))
DATA = (
    Z @ RNG.normal(size=(2, 5))
    + [1.0, 0.0, -1.0, 2.0, 0.0]
    + RNG.normal(size=(60, 5)) * [0.3, 0.5, 0.7, 0.2, 0.4]
)


def test_one_step_reaches_the_evidence():
    model = LinearRegression(3, prior=RegressionPrior(0.5, 2.0, 5.0))
    fit = bqvi.fit(model, (X, Y))
    # y is multivariate t: s_0 / nu_0 (I + X X^T / strength), nu_0 degrees of freedom
    shape = 2.0 / 5.0 * (np.eye(30) + X @ X.T / 0.5)
    evidence = scipy.stats.multivariate_t(np.zeros(30), shape, df=5.0).logpdf(Y)
    assert fit.elbo == pytest.approx(evidence, rel=1e-10)
    assert fit.state.iteration <= 2
    beta = np.linalg.solve(X.T @ X + 0.5 * np.eye(3), X.T @ Y)
    assert model.coefficients(fit.q)[0] == pytest.approx(beta)


def test_a_bound_of_draws_of_the_posterior_is_the_evidence():
    """ln p(y, theta) - ln q(theta) is the same at every theta."""
    model = LinearRegression(3, prior=RegressionPrior(0.5, 2.0, 5.0))
    exact = bqvi.fit(model, (X, Y))
    drawn = bqvi.fit(model, (X, Y), "iwae", samples=3, start_from=exact.q, steps=1, schedule=Constant(1e-9))
    assert drawn.trace["bound"][0] == pytest.approx(exact.elbo, rel=1e-9)


def test_predictions_are_the_ratio_of_evidences():
    model = LinearRegression(3, prior=RegressionPrior(0.5, 2.0, 5.0))
    rest, one = (X[:-1], Y[:-1]), (X[-1:], Y[-1:])
    both, part = bqvi.fit(model, (X, Y)), bqvi.fit(model, rest)
    assert model.log_predictive(part.q, one)[0] == pytest.approx(both.elbo - part.elbo, rel=1e-9)


def test_a_flat_prior_gives_least_squares_and_a_mini_batch_comes_near():
    fit = bqvi.fit(LinearRegression(3, prior=RegressionPrior(flat=True)), (X, Y), family="point")
    model = fit.problem.model
    beta, (residual,), _, _ = np.linalg.lstsq(X, Y, rcond=None)
    assert model.coefficients(fit.q)[0] == pytest.approx(beta)
    assert fit.q.mode[-1, 0] == pytest.approx(residual / 30)
    theta = {"coefficients": beta, "variance": residual / 30}
    assert fit.elbo == pytest.approx(model.log_likelihood((X, Y), theta))
    full = bqvi.fit(LinearRegression(3), (X, Y))
    part = bqvi.fit(LinearRegression(3), (X, Y), "sngd", minibatch=10, steps=2000)
    assert part.elbo == pytest.approx(full.elbo, abs=0.5)


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
@pytest.mark.parametrize("kind", ["full", "point"])
def test_the_bound_rises_and_is_below_the_evidence(noise, kind):
    fit = bqvi.fit(FactorAnalysis(2, noise), DATA, family=kind, start_from="random", steps=200)
    rises = np.diff(fit.trace["elbo"])
    assert rises.min() > -1e-9 * abs(fit.elbo)
    if kind == "full":
        model, q = fit.problem.model, fit.q
        # with z integrated out E_q ln p(X | theta) - KL is above the bound
        q = q["columns"]
        draws = q.sample(400, 0)
        logs = [_log_likelihood(model, q, draw) for draw in draws]
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


def test_missing_entries_are_integrated_out():
    holes = DATA.copy()
    holes[RNG.random(DATA.shape) < 0.2] = np.nan
    holes = holes[~np.isnan(holes).all(axis=1)]
    fit = bqvi.fit(FactorAnalysis(2, prior=RegressionPrior(flat=True)), holes, family="point", steps=60)
    model = fit.problem.model
    theta = model.parameters(fit.q)
    covariance = theta["loadings"] @ theta["loadings"].T + np.diag(theta["variances"])
    by_hand = sum(
        scipy.stats.multivariate_normal(theta["centre"][shown], covariance[np.ix_(shown, shown)]).logpdf(
            row[shown]
        )
        for row in holes
        for shown in [~np.isnan(row)]
    )
    assert fit.elbo == pytest.approx(by_hand)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    bayes = bqvi.fit(FactorAnalysis(2), holes, steps=20)
    assert np.diff(bayes.trace["elbo"]).min() > -1e-9 * abs(bayes.elbo)


@pytest.mark.parametrize(
    "data",
    [
        np.ones((5, 3)),
        np.zeros((1, 2)),
        np.column_stack([np.arange(6.0), 2.0 * np.arange(6.0)]),
        1e6 + np.random.default_rng(0).normal(size=(20, 3)),
    ],
    ids=["copies", "one row", "collinear", "far away"],
)
def test_degenerate_data(data):
    fit = bqvi.fit(FactorAnalysis(2), data, steps=50)
    assert np.isfinite(fit.elbo)
    assert np.isfinite(fit.q["columns"].mean).all()


def test_the_number_of_factors_by_the_bound():
    bounds = [bqvi.fit(FactorAnalysis(k), DATA, steps=500).elbo for k in (1, 2, 3)]
    assert int(np.argmax(bounds)) == 1


@pytest.mark.parametrize("family", ["full", "point"])
@pytest.mark.parametrize("size", [1e6, 1e7, 1e8, 1e12])
def test_a_large_column_that_stands_twice_shares_its_coefficient(size, family):
    """Against the fit with the column once, of order 1; rounding would leave nothing of the default prior."""
    once = bqvi.fit(LinearRegression(X.shape[1]), (X, Y), family=family)
    twice = LinearRegression(X.shape[1] + 1)
    with pytest.warns(UserWarning, match="rounding leaves nothing of prior.strength beside"):
        fit = bqvi.fit(twice, (size * np.column_stack([X, X[:, :1]]), Y), family=family)
    found = size * twice.coefficients(fit.q)[0]
    assert np.isfinite(fit.elbo)
    assert found[0] == pytest.approx(found[-1], abs=1e-4)
    np.testing.assert_allclose(
        [found[0] + found[-1], *found[1:-1]],
        LinearRegression(X.shape[1]).coefficients(once.q)[0],
        rtol=2e-3,
        atol=2e-3,
    )


@pytest.mark.parametrize("family", ["full", "point"])
@pytest.mark.parametrize("size", [1e7, 1e8, 1e12])
def test_outputs_that_are_explained_exactly_leave_a_noise_that_is_reported(size, family):
    """The coefficient is 1, and the noise as small as double precision allows."""
    with pytest.warns(UserWarning, match="rounding leaves nothing of prior.scale beside"):
        fit = bqvi.fit(LinearRegression(1), (np.full((30, 1), size), np.full(30, size)), family=family)
    coefficient, variance = np.asarray(fit.q.mean).ravel()
    assert np.isfinite(fit.elbo)
    assert coefficient == pytest.approx(1.0, abs=1e-6)
    assert 0.0 < variance < 1e-9 * size**2


@pytest.mark.filterwarnings("error")
def test_a_prior_that_rounding_leaves_is_not_changed():
    """For columns of very different sizes, and for a column that occurs twice where the prior is not lost to
    rounding.
    """
    for x in (X * [1e-6, *[1.0] * (X.shape[1] - 2), 1e6], np.column_stack([X, X[:, :1]])):
        model = LinearRegression(x.shape[1], prior=RegressionPrior(0.5, 2.0, 5.0))
        assert model.for_data((x, Y)) is model


def test_what_rounding_makes_singular_is_named():
    """Under a flat prior the maximum of the likelihood does not exist or is not unique. There is no warning
    of arithmetic, no NaN, and no advice on step sizes, of which there are none. Whether rounding leaves a
    pivot of zero or of 1e-16 depends on the machine.
    """
    x, y = np.column_stack([X, X[:, :1]]), Y
    model = LinearRegression(x.shape[1], prior=RegressionPrior(flat=True))
    try:
        bound, message = bqvi.fit(model, (x, y), family="point", steps=50).elbo, ""
    except bqvi.RunError as told:
        bound, message = 0.0, str(told)
    assert np.isfinite(bound)
    assert not message or "columns of the inputs that depend on each other" in message
    assert "steps are too large" not in message
    assert "component" not in message


@pytest.mark.parametrize("scale", [1e-12, 1e8])
def test_the_evidence_of_other_units_is_that_of_these_less_their_logarithm(scale):
    """The prior of the noise is taken from y, and a coefficient's scale from the noise's."""
    here, there = (bqvi.fit(LinearRegression(3), (X, factor * Y)) for factor in (1.0, scale))
    assert there.elbo == pytest.approx(here.elbo - 30.0 * np.log(scale), rel=1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="data has shapes"):
        bqvi.fit(LinearRegression(2), (X, Y))
    with pytest.raises(ValueError, match=r"prior.strength contains -1"):
        RegressionPrior(strength=-1.0)
    with pytest.raises(ValueError, match="noise"):
        FactorAnalysis(2, "full")
    with pytest.raises(ValueError, match="row 1 all NaN"):
        bqvi.fit(FactorAnalysis(1), np.array([[1.0, 2.0], [np.nan, np.nan]]))
    with pytest.raises(ValueError, match="spherical"):
        bqvi.fit(FactorAnalysis(1, "spherical"), np.array([[1.0, 2.0], [np.nan, 1.0]]))
