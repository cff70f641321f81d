"""Point masses: EM by hand, soft k-means, scikit-learn's MAP, and a log posterior that never falls."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

import bqvi
from bqvi.models import GaussianMixture, LogisticRegression, MultinomialMixture

few = settings(deadline=None, derandomize=True, max_examples=20)
seeds = st.integers(0, 2**32 - 1)


def em_gaussian(model, x, pi, mu):
    """MAP EM for weights and means."""
    noise = scipy.stats.multivariate_normal(np.zeros(x.shape[1]), model.covariance)
    log_joint = np.stack([np.log(p) + noise.logpdf(x - m) for p, m in zip(pi, mu, strict=True)], axis=-1)
    r = scipy.special.softmax(log_joint.reshape(len(x), len(pi)), axis=1)
    excess = r.sum(0) + model.concentration - 1.0
    precision, prior = np.linalg.inv(model.covariance), np.linalg.inv(model.prior_covariance)
    means = [
        np.linalg.solve(
            r[:, k].sum() * precision + prior, precision @ (r[:, k] @ x) + prior @ model.prior_mean
        )
        for k in range(len(pi))
    ]
    return excess / excess.sum(), np.stack(means)


def problem(seed, k=3, d=2, concentration=1.7):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((d, d + 2))
    model = GaussianMixture(
        k,
        a @ a.T / d,
        concentration=concentration,
        prior_mean=rng.normal(size=d),
        prior_covariance=9.0 * np.eye(d),
    )
    return model, rng.normal(size=(25, d)) * 2.0


@few
@given(seed=seeds)
def test_cavi_on_a_point_mass_is_em(seed):
    model, x = problem(seed)
    start = bqvi.fit(model, x, family="point", steps=0, seed=seed)
    pi, mu = start.q["weights"].mean, start.q["means"].mean
    for steps in (1, 2, 3):
        pi, mu = em_gaussian(model, x, pi, mu)
        found = bqvi.fit(model, x, family="point", steps=steps, seed=seed, tolerance=1e-300).q
        np.testing.assert_allclose(found["weights"].mean, pi, rtol=1e-8)
        np.testing.assert_allclose(found["means"].mean, mu, rtol=1e-7, atol=1e-8)


def log_posterior(model, x, q):
    pi, mu = q["weights"].mean, q["means"].mean
    noise = scipy.stats.multivariate_normal(np.zeros(x.shape[1]), model.covariance)
    each = [np.log(p) + noise.logpdf(x - m) for p, m in zip(pi, mu, strict=True)]
    value = scipy.special.logsumexp(each, axis=0).sum()
    value += scipy.stats.dirichlet(model.concentration).logpdf(pi / pi.sum())
    prior = scipy.stats.multivariate_normal(model.prior_mean, model.prior_covariance)
    return value + prior.logpdf(mu).sum()


@few
@given(seed=seeds, k=st.integers(2, 5))
def test_log_posterior_never_falls_and_is_what_the_trace_says(seed, k):
    model, x = problem(seed, k)
    found = bqvi.fit(
        model,
        x,
        family="point",
        steps=30,
        record=bqvi.Record(metrics={"own": lambda q: log_posterior(model, x, q)}),
    )
    elbo = found.trace["elbo"]
    np.testing.assert_allclose(elbo, found.trace["own"], rtol=1e-9)
    assert np.diff(elbo).min(initial=0.0) > -1e-10 * np.abs(elbo).max()


@few
@given(seed=seeds, sparse=st.booleans())
def test_maximum_likelihood_of_counts_with_words_never_seen(seed, sparse):
    """With flat priors a word that never occurs has probability zero, and the likelihood does not fall."""
    import scipy.sparse

    rng = np.random.default_rng(seed)
    x = rng.poisson(1.0, (20, 6)).astype(float)
    x[:, 2] = 0.0
    x[4] = 0.0
    model = MultinomialMixture(3, 6, concentration=1.0, word_concentration=1.0)
    found = bqvi.fit(model, scipy.sparse.csr_array(x) if sparse else x, family="point", steps=20, seed=seed)
    elbo = found.trace["elbo"]
    assert np.isfinite(elbo).all()
    assert np.diff(elbo).min(initial=0.0) > -1e-10 * np.abs(elbo).max()
    beta, pi = found.q["words"].mean, found.q["weights"].mean
    assert (beta[:, 2] == 0.0).all()
    flat = scipy.special.gammaln(3) + 3 * scipy.special.gammaln(6)  # densities of the flat priors
    likelihood = model.log_likelihood(x, {"weights": pi, "words": beta})
    assert found.elbo == pytest.approx(likelihood + flat, rel=1e-9)


@pytest.mark.parametrize("method", ["pathwise", "iwae", "dreg"])
def test_map_of_logistic_regression_is_scikit_learns(method):
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(80, 3)), 1.3
    y = (rng.random(80) < scipy.special.expit(x @ [1.0, -2.0, 0.5])).astype(float)
    theirs = SklearnLogisticRegression(C=s**2, fit_intercept=False, tol=1e-12, max_iter=1000).fit(x, y)
    steepest = 0.25 * np.linalg.eigvalsh(x.T @ x).max() + 1.0 / s**2
    found = bqvi.fit(
        LogisticRegression(3, prior_scale=s),
        (x, y),
        method,
        samples=1,
        family="point",
        steps=150,
        record=150,
        schedule=bqvi.Constant(1.0 / steepest),
    )
    # gradient ascent contracts by at most 1 - flattest / steepest < 0.9 a step: 0.9^150 = 1e-7
    np.testing.assert_allclose(found.q.mean, theirs.coef_[0], atol=1e-6)
    own = -0.5 * (theirs.coef_[0] ** 2).sum() / s**2 - 3.0 * np.log(s * np.sqrt(2.0 * np.pi))
    own -= np.logaddexp(0.0, -(2.0 * y - 1.0) * (x @ theirs.coef_[0])).sum()
    assert found.elbo == pytest.approx(own, abs=1e-9)


def test_concentrations_below_one_have_no_mode_and_are_refused():
    x = np.random.default_rng(0).normal(size=(20, 2))
    for model, data in (
        (GaussianMixture(3, np.eye(2)), x),
        (MultinomialMixture(3, 2, concentration=1.0), np.abs(x)),
    ):
        with pytest.raises(ValueError, match="Dirichlet concentrations of at least 1"):
            bqvi.fit(model, data, family="point")


def test_what_a_point_mass_cannot_do_is_refused_before_any_work():
    model = LogisticRegression(2)
    data = (np.eye(2), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="family is 'point', which has no score function"):
        bqvi.fit(model, data, "score", family="point")
    with pytest.raises(ValueError, match="geometry is Riemannian, but q is a PointMass"):
        bqvi.fit(model, data, "pathwise", family="point", geometry=bqvi.Riemannian())
    mixture = GaussianMixture(2, np.eye(2), concentration=1.0)
    with pytest.raises(TypeError, match="no Euclidean coordinates"):
        bqvi.fit(mixture, np.eye(2), "gd", family="point")
