"""The scikit-learn estimators: scikit-learn's own checks, its numbers, and SciPy's predictive densities."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.stats
from sklearn.decomposition import LatentDirichletAllocation as PeerTopics
from sklearn.mixture import GaussianMixture as PeerMixture
from sklearn.utils.estimator_checks import check_estimator

from bqvi.sklearn import (
    BayesianGaussianMixture,
    DirichletProcessMixture,
    GaussianMixture,
    HiddenMarkovModel,
    LatentDirichletAllocation,
)

ESTIMATORS = [
    GaussianMixture(),
    BayesianGaussianMixture(n_components=2),
    DirichletProcessMixture(n_components=3),
    LatentDirichletAllocation(n_components=2, max_iter=5),
    HiddenMarkovModel(max_iter=20),
]
DRAWN = {
    "check_sample_weight_equivalence_on_dense_data": "starts are drawn from rows: repeated rows draw others",
}
IN_ORDER = {
    "check_methods_sample_order_invariance": "a sequence in another order is another sequence",
    "check_methods_subset_invariance": "a part of a sequence is another sequence",
}
RNG = np.random.default_rng(0)
X = np.concatenate(
    [RNG.normal(size=(60, 2)), RNG.normal(size=(60, 2)) @ [[1.0, 0.8], [0.0, 0.5]] + [6.0, 2.0]]
)
SHAPES = ("full", "tied", "diag", "spherical")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator):
    expected = {} if isinstance(estimator, GaussianMixture | LatentDirichletAllocation) else DRAWN
    expected = IN_ORDER if isinstance(estimator, HiddenMarkovModel) else expected
    state = np.random.get_state()  # noqa: NPY002 (scikit-learn's checks draw from it)
    found = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=expected)
    np.random.set_state(state)  # noqa: NPY002
    failed = [(row["check_name"], row["exception"]) for row in found if row["status"] == "failed"]
    assert not failed
    assert len(found) > 40


@pytest.mark.parametrize("shape", SHAPES)
def test_maximum_likelihood_and_its_score_are_scikit_learns(shape):
    ours = GaussianMixture(2, covariance_type=shape, flat=True, tol=1e-9, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = PeerMixture(
            2,
            covariance_type=shape,
            means_init=ours.means_,
            tol=1e-12,
            max_iter=3000,
            reg_covar=0.0,
            random_state=0,
        ).fit(X)
    assert ours.lower_bound_ == pytest.approx(peer.score(X) * len(X), rel=1e-6)
    np.testing.assert_allclose(ours.score_samples(X), peer.score_samples(X), atol=1e-2)
    np.testing.assert_allclose(ours.weights_, peer.weights_, atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))


def predictive(q, j, shape, x):
    """ln of one component's Student t by SciPy."""
    if shape in ("full", "tied"):
        scale, dof = (q.scale, q.dof) if shape == "tied" else (q.scale[j], q.dof[j])
        mean, strength = (q.means[j], q.strength[j]) if shape == "tied" else (q.means[j, 0], q.strength[j, 0])
        spread = scale * (strength + 1.0) / (strength * (dof - 1.0))
        return scipy.stats.multivariate_t(mean, spread, df=dof - 1.0).logpdf(x)
    if shape == "spherical":
        spread = q.scale[j] / q.dof[j] * (q.strength[j] + 1.0) / q.strength[j]
        return scipy.stats.multivariate_t(q.means[j], np.eye(2) * spread, df=q.dof[j]).logpdf(x)
    width = np.sqrt(q.scale[j] / q.dof[j] * (q.strength[j] + 1.0) / q.strength[j])
    return scipy.stats.t(q.dof[j], q.means[j, :, 0], width).logpdf(x).sum(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_predictive_density_is_scipys_student(shape):
    found = BayesianGaussianMixture(n_components=2, covariance_type=shape, random_state=0).fit(X)
    x = X[::7] + 3.0
    q = found.posterior_["components"]
    table = np.column_stack([np.log(found.weights_[j]) + predictive(q, j, shape, x) for j in range(2)])
    np.testing.assert_allclose(found.score_samples(x), scipy.special.logsumexp(table, axis=1), rtol=1e-9)


def test_the_dirichlet_process_finds_two():
    found = DirichletProcessMixture(random_state=1).fit(X)
    labels = found.predict(X)
    assert len(np.unique(labels)) == 2
    assert len(np.unique(labels[:60])) == 1
    assert (np.diff(found.lower_bounds_) > -1e-9 * abs(found.lower_bound_)).all()
    draws, drawn = found.sample(500)
    assert draws.shape == (500, 2)
    assert drawn.shape == (500,)
    np.testing.assert_allclose(draws.mean(0), X.mean(0), atol=1.0)


def test_integer_weights_are_copies():
    """From the same start, by the bound's constants too: weight 3 is three times the row."""
    weights = RNG.integers(0, 4, len(X)).astype(float)
    choices = {"n_components": 1, "prior_mean": [0.0, 0.0], "prior_scale": np.eye(2)}
    one = BayesianGaussianMixture(**choices).fit(X, sample_weight=weights)
    other = BayesianGaussianMixture(**choices).fit(np.repeat(X, weights.astype(int), axis=0))
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, rel=1e-10)
    np.testing.assert_allclose(one.means_, other.means_)


@pytest.mark.parametrize("method", ["batch", "online", "memoised"])
def test_topics_are_those_of_the_model(method):
    rng = np.random.default_rng(0)
    counts = rng.multinomial(40, rng.dirichlet(np.full(3, 0.2), 80) @ rng.dirichlet(np.full(15, 0.2), 3))
    found = LatentDirichletAllocation(3, method=method, batch_size=20, max_iter=20, tol=1e-6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = found.fit_transform(counts)
    assert shares == pytest.approx(found.model_.transform(found.posterior_, counts))
    assert found.components_.shape == (3, 15)
    assert found.lower_bound_ < found.score(counts)  # the topics are known there
    peer = PeerTopics(3, max_iter=50, topic_word_prior=0.1, random_state=0).fit(counts)
    theirs = found.posterior_["topics"].from_natural((peer.components_,))
    model = found.model_
    assert model.perplexity(found.posterior_, counts) < 1.02 * model.perplexity(
        type(found.posterior_)({"topics": theirs}), counts
    )
    if method == "batch":
        again = LatentDirichletAllocation(3, random_state=0, total_samples=80)
        for _ in range(10):
            for part in np.array_split(counts, 4):
                again.partial_fit(part)
        assert again.perplexity(counts) < 1.05 * found.perplexity(counts)


def test_states_are_those_of_the_model():
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1, 0, 1], 30)
    values = rng.normal(4.0 * states, 1.0)[:, None]
    found = HiddenMarkovModel(2, covariance_type="diag", random_state=0).fit(values, lengths=[60, 60])
    path = found.predict(values, lengths=[60, 60])
    assert max(np.mean(path == states), np.mean(path != states)) > 0.95
    assert found.predict_proba(values).sum(1) == pytest.approx(np.ones(120))
    assert (np.diff(found.lower_bounds_) > -1e-9 * abs(found.lower_bound_)).all()
    holes = values.copy()
    holes[::7] = np.nan
    assert np.isfinite(HiddenMarkovModel(2, random_state=0).fit(holes).lower_bound_)
    point = HiddenMarkovModel(2, emissions="categorical", bayesian=False, random_state=0).fit(states[:, None])
    theta = point.posterior_.mean
    assert point.score(states[:, None]) == pytest.approx(point.model_.log_likelihood(states, theta))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="n_components is 200"):
        GaussianMixture(200).fit(X)
    with pytest.raises(ValueError, match=r"covariance_type is 'fulll'.*'full'"):
        GaussianMixture(2, covariance_type="fulll").fit(X)
    with pytest.raises(ValueError, match="negative"):
        GaussianMixture(2).fit(X, sample_weight=-np.ones(len(X)))


def test_the_core_does_not_import_scikit_learn():
    code = "import bqvi, bqvi.models, sys; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
