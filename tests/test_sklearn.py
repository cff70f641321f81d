"""The scikit-learn estimators: scikit-learn's own checks, its numbers, and SciPy's predictive densities."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.stats
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation as PeerTopics
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture as PeerMixture
from sklearn.utils.estimator_checks import check_estimator

import bqvi
import gp
from acquisition.minibatch.strategy import Selection
from bqvi.models.weighted import weighted
from bqvi.sklearn import (
    BayesianGaussianMixture,
    DirichletProcessMixture,
    GaussianMixture,
    GaussianProcessRegressor,
    HiddenMarkovModel,
    LatentDirichletAllocation,
)
from bqvi.sklearn.shared import STREAM, generator_of
from experiments.problems.data import simulate_states

ESTIMATORS = [
    GaussianMixture(),
    BayesianGaussianMixture(n_components=2),
    DirichletProcessMixture(n_components=3, max_iter=10),
    LatentDirichletAllocation(n_components=2, max_iter=2),
    HiddenMarkovModel(max_iter=5),
]
RNG = np.random.default_rng(0)
X = np.concatenate(
    [RNG.normal(size=(60, 2)), RNG.normal(size=(60, 2)) @ [[1.0, 0.8], [0.0, 0.5]] + [6.0, 2.0]]
)
SHAPES = ("full", "tied", "diag", "spherical")


@pytest.mark.parametrize(
    "estimator", [*ESTIMATORS, GaussianProcessRegressor(n_starts=1)], ids=lambda e: type(e).__name__
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator):
    state = np.random.get_state()  # noqa: NPY002 (scikit-learn's checks draw from it)
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    np.random.set_state(state)  # noqa: NPY002
    failed = [(row["check_name"], row["exception"]) for row in found if row["status"] == "failed"]
    assert not failed
    assert len(found) >= 40  # the one of NaN is left out where NaN is a missing value


def test_a_regressor_is_a_fit_of_gp():
    y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=len(X))
    ours = GaussianProcessRegressor(n_starts=2).fit(X[:40], y[:40])
    direct = gp.fit(X[:40], y[:40], n_starts=2)
    mean, sd = ours.predict(X[40:50], return_std=True)
    np.testing.assert_array_equal(mean, direct.mean(X[40:50]))
    np.testing.assert_allclose(sd**2, direct.variance(X[40:50]) + direct.noise)
    _, covariance = ours.predict(X[40:50], return_cov=True, include_noise=False)
    np.testing.assert_array_equal(covariance, direct.covariance(X[40:50]))
    assert ours.sample_y(X[40:50], 3).shape == (10, 3)
    with pytest.raises(ValueError, match="ask for one"):
        ours.predict(X, return_std=True, return_cov=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_maximum_likelihood_and_its_score_are_scikit_learns(shape):
    chosen = GaussianMixture(2, covariance_type=shape, flat=True, tol=1e-10, max_iter=5000, random_state=0)
    ours = chosen.fit(X)
    precisions = np.linalg.inv(ours.covariances_)
    starts = {
        "full": precisions,
        "tied": precisions[0],
        "diag": np.diagonal(precisions, axis1=1, axis2=2),
        "spherical": precisions[:, 0, 0],
    }
    peer = PeerMixture(
        2, covariance_type=shape, reg_covar=0.0, tol=1e-12, max_iter=3000,
        weights_init=ours.weights_, means_init=ours.means_, precisions_init=starts[shape],
    ).fit(X)  # fmt: skip
    assert ours.lower_bound_ == pytest.approx(peer.score(X) * len(X), rel=1e-7)
    np.testing.assert_allclose(ours.score_samples(X), peer.score_samples(X), atol=1e-2)
    np.testing.assert_allclose(ours.weights_, peer.weights_, atol=1e-3)
    np.testing.assert_allclose(ours.means_, peer.means_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=2e-3)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))


def predictive(q, j, shape, x):
    """ln of one component's Student t by SciPy."""
    strength = q.precision[j, j] if shape == "tied" else q.precision[j].item(0)
    scale, dof = (q.scale, q.dof) if shape == "tied" else (q.scale[j], q.dof[j])
    mean = q.coefficients[0, :, j] if shape == "tied" else q.coefficients[j].ravel()
    if shape == "diag":
        width = np.sqrt(scale[:, 0, 0] / dof * (strength + 1.0) / strength)
        return scipy.stats.t(dof, mean, width).logpdf(x).sum(1)
    dof = dof if shape == "spherical" else dof - 1.0
    spread = scale * np.eye(2) if shape == "spherical" else scale
    return scipy.stats.multivariate_t(mean, spread * (strength + 1.0) / (strength * dof), df=dof).logpdf(x)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_predictive_density_is_scipys_student(shape):
    found = BayesianGaussianMixture(n_components=2, covariance_type=shape, random_state=0).fit(X)
    x = X[::7] + 3.0
    q = found.posterior_["components"]
    table = np.column_stack([np.log(found.weights_[j]) + predictive(q, j, shape, x) for j in range(2)])
    np.testing.assert_allclose(found.score_samples(x), scipy.special.logsumexp(table, axis=1), rtol=1e-9)


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("x", [np.vstack([X[:30], [[50.0, 50.0]]]), np.outer(np.arange(20.0), [1.0, 2.0])])
def test_the_bounds_of_both_phases_of_a_process_never_fall(shape, x):
    found = DirichletProcessMixture(5, covariance_type=shape, random_state=0).fit(x)
    assert found.lower_bound_ == found.lower_bounds_[-1]
    assert (np.diff(found.lower_bounds_) > -1e-9 * abs(found.lower_bound_)).all()


COUNTS = RNG.multinomial(40, RNG.dirichlet(np.full(3, 0.2), 80) @ RNG.dirichlet(np.full(15, 0.2), 3))
WEIGHED = [
    (GaussianMixture(3, random_state=0), X),
    (GaussianMixture(3, flat=True, init_params="random", random_state=1), X),
    (BayesianGaussianMixture(4, covariance_type="diag", n_init=2, random_state=0), X),
    (BayesianGaussianMixture(3, covariance_type="tied", random_state=0), X),
    (BayesianGaussianMixture(3, random_state=0), np.where(np.arange(240).reshape(120, 2) % 11, X, np.nan)),
    (DirichletProcessMixture(5, random_state=0), X),
    (LatentDirichletAllocation(3, random_state=0), COUNTS),
]


LENGTHS = np.random.default_rng(1).integers(1, 9, 12)
SYMBOLS = np.random.default_rng(1).integers(0, 3, (LENGTHS.sum(), 1)).astype(float)
for kind, values in (("gaussian", X[: LENGTHS.sum()]), ("categorical", SYMBOLS), ("poisson", SYMBOLS)):
    states = HiddenMarkovModel(2, emissions=kind, max_iter=30, random_state=0)
    WEIGHED.append((states, np.split(values, np.cumsum(LENGTHS)[:-1])))


def fitted(estimator, rows, weights=None):
    """To rows, or to sequences."""
    if isinstance(rows, np.ndarray):
        return clone(estimator).fit(rows, sample_weight=weights)
    lengths = [len(row) for row in rows]
    return clone(estimator).fit(np.concatenate(rows), lengths=lengths, sequence_weight=weights)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "data"), WEIGHED, ids=lambda e: type(e).__name__)
def test_whole_weights_are_copies(estimator, data):
    """For every shape of the input: the prior, the start, merges, the bound with its constants."""
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, len(data))
    order = rng.permutation(len(data))
    rows = data[order] if isinstance(data, np.ndarray) else [data[n] for n in order]
    copies = [row for row, count in zip(data, weights, strict=True) for _ in range(count)]
    one = fitted(estimator, rows, weights[order].astype(float))
    other = fitted(estimator, np.stack(copies) if isinstance(data, np.ndarray) else copies)
    assert one.n_iter_ == other.n_iter_
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, rel=1e-9)
    for a, b in zip(one.posterior_.natural, other.posterior_.natural, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_a_point_estimate_of_states_is_scored_by_its_likelihood():
    states = np.repeat([0, 1, 0, 1], 30)
    point = HiddenMarkovModel(2, emissions="categorical", bayesian=False, random_state=0).fit(states[:, None])
    theta = point.posterior_.mean
    assert point.score(states[:, None]) == pytest.approx(point.model_.log_likelihood(states, theta))
    with pytest.raises(ValueError, match=r"sequence_weight has shape \(3,\)"):
        point.fit(states[:, None], lengths=[60, 60], sequence_weight=np.ones(3))


class InTurn:
    """Consecutive batches, one after the other; a mini-batch strategy."""

    def __init__(self, size):
        self.size = size

    def start(self, n, rng):
        return (n, 0)

    def draw(self, state, rng):
        n, first = state
        rows = np.arange(first, first + self.size)
        return Selection(rows, np.full(self.size, n / self.size)), (n, (first + self.size) % n)

    def observe(self, state, selection, gradients):
        return state


STREAMED = [  # a first batch of ten rows for each component: no start is made anew from two batches
    (GaussianMixture(2, total_samples=120, random_state=0), X),
    (BayesianGaussianMixture(3, covariance_type="spherical", total_samples=120, random_state=0), X),
    (DirichletProcessMixture(3, total_samples=120, random_state=0), X),
    (LatentDirichletAllocation(2, total_samples=80, random_state=0), COUNTS),
]


@pytest.mark.parametrize(("estimator", "data"), STREAMED, ids=lambda e: type(e).__name__)
def test_partial_fit_is_the_engines_stochastic_variational_inference(estimator, data):
    data = data[np.random.default_rng(0).permutation(len(data))]
    batches = np.split(data, 4)
    streamed = clone(estimator)
    first = None
    for batch in batches * 2:
        if first is None:  # the engine starts where the stream does
            first = streamed.partial_fit(batch)
            model = first.model_
            rows = (batch, np.ones(len(batch)))
            start = weighted(model).initial(weighted(model).check(rows), "k-means++", generator_of(0))
            continue
        streamed.partial_fit(batch)
    family = "point" if isinstance(estimator, GaussianMixture) else "full"
    engine = bqvi.fit(
        model,
        data.astype(float),
        "sngd",
        minibatch=InTurn(len(batches[0])),
        schedule=STREAM,
        family=family,
        start_from=start,
        steps=8,
        record=[8],
    )
    for a, b in zip(engine.q.natural, streamed.posterior_.natural, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert streamed.n_samples_seen_ == 2 * len(data)


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_a_stream_of_pairs_begins_at_the_first_of_them_together(seed):
    """Two clusters eight standard deviations apart: as one component their score is .9 nats lower."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 2)) + 8.0 * rng.integers(0, 2, (400, 1))
    stream = GaussianMixture(2, random_state=0)
    for pair in x.reshape(200, 2, 2):
        stream.partial_fit(pair)
    assert stream.n_samples_seen_ == 400
    assert stream.score(x) == pytest.approx(GaussianMixture(2, random_state=0).fit(x).score(x), abs=0.1)


def _clusters(rng):
    return rng.normal(size=(240, 2)) + 9.0 * rng.integers(0, 3, (240, 1))


def _chain(rng):
    states = simulate_states(np.full(3, 1 / 3), 0.85 * np.eye(3) + 0.05, np.full(60, 4), rng.integers(99))
    return rng.normal(4.0 * states, 0.7)[:, None]


def _documents(rng):
    return rng.multinomial(60, rng.dirichlet(np.full(3, 0.2), 240) @ np.kron(np.eye(3), np.full(5, 0.2)))


PIECES = {
    "maximum likelihood": (GaussianMixture(3, flat=True), _clusters, 1),
    "bayesian": (BayesianGaussianMixture(6), _clusters, 2),
    "dirichlet process": (DirichletProcessMixture(8), _clusters, 3),
    "chain": (HiddenMarkovModel(3), _chain, 4),
    "topics": (LatentDirichletAllocation(3), _documents, 2),
    "sparse": (LatentDirichletAllocation(3), lambda rng: csr_array(_documents(rng)), 3),
}


@pytest.mark.parametrize("name", PIECES)
def test_a_stream_of_pieces_with_fewer_rows_than_components_ends_near_the_fit(name):
    """Within .08 nats a row, or a word; from the first piece alone they raised, or were .1 to .7 off."""
    estimator, draw, size = PIECES[name]
    x = draw(np.random.default_rng(33))
    stream, whole = clone(estimator).set_params(random_state=0), clone(estimator).set_params(random_state=0)
    for start in range(0, 240, size):
        assert stream.partial_fit(x[start : start + size]) is stream
    if hasattr(stream, "perplexity"):
        ours, theirs = (-np.log(each.perplexity(x)) for each in (stream, whole.fit(x)))
    else:
        of_chain, total = ({"lengths": np.full(60, 4)}, 240) if name == "chain" else ({}, 1)
        ours, theirs = (each.score(x, **of_chain) / total for each in (stream, whole.fit(x, **of_chain)))
    assert ours > theirs - 0.08


def test_a_stream_with_too_few_rows_is_not_fitted():
    stream = BayesianGaussianMixture(3, random_state=0).partial_fit(X[:2])
    with pytest.raises(NotFittedError, match="n_components is 3, but there were 2 rows so far"):
        stream.predict(X)
    assert stream.partial_fit(X[2:4]).predict(X).shape == (len(X),)


@pytest.mark.parametrize("size", [4, 30, 150])
def test_batches_of_one_cluster_each_are_told_and_shuffled_ones_are_not(size):
    """Heavy tails, a constant column and missing entries; at a level of 1e-9."""
    rng = np.random.default_rng(size)
    x = rng.standard_t(3, size=(600, 3)) * [1.0, 1.0, 0.0]
    x[:, 0] += 5.0 * np.repeat([0.0, 1.0, 2.0, 3.0], 150)
    x[rng.random(600) < 0.1, 1] = np.nan
    said = []
    for rows in (x, rng.permutation(x)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            stream = BayesianGaussianMixture(4, covariance_type="diag", random_state=0)
            for batch in np.split(rows, 600 // size):
                stream.partial_fit(batch)
        said.append(sum("differ from those of earlier calls" in str(one.message) for one in found))
    assert said[0] >= 3
    assert said[1] == 0


SORTED = {
    "sparse": (lambda k, rng: csr_array(rng.multinomial(30, np.roll(np.arange(12.0) ** 2 / 506, k), 20)), {}),
    "topics": (lambda k, rng: rng.multinomial(30, np.roll(np.arange(12.0) ** 2 / 506, k), 20), {}),
    "chains": (lambda k, rng: rng.normal(3.0 * k, 1.0, (50, 2)), {"lengths": np.full(10, 5)}),
}


@pytest.mark.parametrize("name", SORTED)
def test_sorted_documents_and_sequences_are_told(name):
    draw, lengths = SORTED[name]
    kind = HiddenMarkovModel if lengths else LatentDirichletAllocation
    sorted_stream, stream, rng = kind(3, random_state=0), kind(3, random_state=0), np.random.default_rng(2)
    sorted_stream.partial_fit(draw(0, rng), **lengths)
    with pytest.warns(UserWarning, match="differ from those of earlier calls"):
        sorted_stream.partial_fit(draw(4, rng), **lengths)
    for _ in range(8):
        stream.partial_fit(draw(0, rng), **lengths)  # warnings are errors


def test_outliers_in_rows_in_any_order_are_not_taken_for_sorted_ones():
    """Cauchy's have no mean; each of these streams was said to be sorted, by two to seven of its batches."""
    for seed in (4, 6, 7):
        stream = BayesianGaussianMixture(2, covariance_type="diag", random_state=0)
        for batch in np.split(np.random.default_rng(seed).standard_cauchy((2000, 8)), 100):
            stream.partial_fit(batch)  # warnings are errors


def test_a_stream_of_sequences_learns_the_chain():
    rng = np.random.default_rng(0)
    transitions = np.array([[0.95, 0.05], [0.1, 0.9]])
    states = simulate_states(np.array([0.5, 0.5]), transitions, np.full(60, 50), 0)
    values = rng.normal(4.0 * states, 1.0)[:, None]
    stream = HiddenMarkovModel(2, covariance_type="diag", random_state=0)
    for batch in np.split(values, 20):
        stream.partial_fit(batch, lengths=[50, 50, 50])
    path = stream.predict(values, lengths=np.full(60, 50))
    assert max(np.mean(path == states), np.mean(path != states)) > 0.95
    # the steps weigh about 7 of the 20 batches: a standard deviation of 0.016 of the smaller one
    assert np.sort(stream.transmat_.diagonal()) == pytest.approx([0.9, 0.95], abs=0.08)


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


@pytest.mark.parametrize("bayesian", [False, True])
def test_sequences_are_scored_by_the_sum_over_all_paths(bayesian):
    symbols, lengths = np.array([0, 1, 1, 2, 0, 2, 1, 0]), [4, 1, 3]
    found = HiddenMarkovModel(2, emissions="categorical", bayesian=bayesian, random_state=0)
    found.fit(symbols[:, None], lengths=lengths)
    initial, transitions, emitted = (
        np.exp(found.posterior_[name].expected_statistics[0]) for name in found.posterior_.factors
    )
    expected = [
        sum(
            initial[path[0]]
            * np.prod(transitions[path[:-1], path[1:]])
            * np.prod(emitted[list(path), 0, sequence])
            for path in map(np.array, itertools.product(range(2), repeat=len(sequence)))
        )
        for sequence in np.split(symbols, np.cumsum(lengths)[:-1])
    ]
    scores = found.score_sequences(symbols[:, None], lengths)
    np.testing.assert_allclose(scores, np.log(expected), rtol=1e-10)
    assert found.score(symbols[:, None], lengths=lengths) == pytest.approx(scores.sum())
    assert found.score_sequences(symbols[:, None]).shape == (1,)


def test_a_list_of_sequences_is_told_how_they_are_given():
    with pytest.raises(ValueError, match=r"np\.concatenate\(X\), with lengths"):
        HiddenMarkovModel().fit([np.zeros((3, 1)), np.zeros((4, 1))])


@pytest.mark.parametrize("bayesian", [False, True])
@pytest.mark.parametrize("emissions", ["gaussian", "categorical", "poisson"])
def test_a_row_is_scored_by_what_it_adds_to_the_rows_before(emissions, bayesian):
    """Against the same sequence cut after each row, whose score is a sum over paths by another recursion."""
    rng, lengths = np.random.default_rng(5), [7, 1, 4]
    values = np.append(rng.integers(0, 4, 11), 3).astype(float)[:, None]
    values[3] = np.nan
    found = HiddenMarkovModel(3, emissions=emissions, bayesian=bayesian, random_state=0, tol=1e-2)
    found.fit(values, lengths=lengths)
    rows = found.score_samples(values, lengths)
    assert rows.shape == (12,)
    ends = np.cumsum(lengths)
    for first, last in zip(ends - lengths, ends, strict=True):
        parts = [found.score(values[first:end]) for end in range(first + 1, last + 1)]
        np.testing.assert_allclose(np.cumsum(rows[first:last]), parts, rtol=1e-9)
    if not bayesian:
        assert abs(rows[3]) < 1e-12  # nothing was observed


@pytest.mark.parametrize("bayesian", [True, False])
@pytest.mark.parametrize("emissions", ["gaussian", "categorical", "poisson"])
def test_sequences_are_drawn_from_what_was_learnt(emissions, bayesian):
    """Transitions and means of 4000 steps within 5 standard errors: a false alarm in 1e-5 of the runs."""
    rng = np.random.default_rng(3)
    states = np.repeat(rng.integers(2, size=40), 5)
    values = {
        "gaussian": rng.normal(6.0 * states, 1.0),
        "categorical": states,
        "poisson": rng.poisson(1 + 9 * states),
    }
    data = values[emissions][:, None].astype(float)
    found = HiddenMarkovModel(2, emissions=emissions, bayesian=bayesian, random_state=0).fit(data)
    x, z = found.sample(4000)
    assert x.shape == (4000, 1)
    theta = found.posterior_
    means = {
        "gaussian": lambda: found.model_.emissions.each(theta["components"])[0][:, 0],
        "categorical": lambda: (
            theta["probabilities"].mean[:, 0] @ np.arange(theta["probabilities"].mean.shape[2])
        ),
        "poisson": lambda: theta["rates"].mean[:, 0],
    }[emissions]()
    shares = found.predict_proba(data)
    np.testing.assert_allclose(means, shares.T @ data[:, 0] / shares.sum(0), rtol=0.05, atol=0.1)
    for k in range(2):
        own, after = x[z == k, 0], z[1:][z[:-1] == k]
        assert abs(own.mean() - means[k]) < 5 * own.std() / np.sqrt(len(own)) + 1e-12
        stay = found.transmat_[k, 0] / found.transmat_[k].sum()
        assert abs(np.mean(after == 0) - stay) < 5 * np.sqrt(stay * (1 - stay) / len(after))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="n_components is 200"):
        GaussianMixture(200).fit(X)


SETTINGS = [
    ({"n_components": 0}, "n_components is 0"),
    ({"n_components": 2.5}, r"n_components is 2\.5"),
    ({"max_iter": 0}, "max_iter is 0"),
    ({"covariance_type": "FULL"}, "covariance_type is 'FULL'.*full"),
    ({"covariance_type": None}, "covariance_type"),
    ({"verbose": -1}, "verbose is -1"),
    ({"tol": -1.0}, "tol is -1"),
    ({"init_params": "kmeans"}, "init_params is 'kmeans'.*k-means"),
    ({"total_samples": -5}, "total_samples is -5"),
    ({"total_samples": "all"}, "total_samples is 'all'"),
    ({"n_init": 0}, "n_init is 0"),
    ({"bayesian": "yes"}, "bayesian is 'yes'"),
    ({"flat": 1}, "flat is 1"),
    ({"merge": None}, "merge is None"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_settings_and_weights_that_cannot_be_are_named_as_the_user_knows_them(estimator, call):
    rows = np.abs(X[:20])
    for setting, message in SETTINGS:
        if setting.keys() <= estimator.get_params().keys():
            with pytest.raises((ValueError, TypeError), match=message):
                getattr(clone(estimator).set_params(**setting), call)(rows)
    name = "sequence_weight" if isinstance(estimator, HiddenMarkovModel) else "sample_weight"
    size = 1 if name == "sequence_weight" else 20
    with pytest.raises(ValueError, match=f"{name} has -1"):
        getattr(clone(estimator), call)(rows, **{name: -np.ones(size)})
    with pytest.raises(ValueError, match=r"infinity|too large"):
        getattr(clone(estimator), call)(np.where(rows == rows[3, 1], np.inf, rows))


def test_symbols_and_words_that_cannot_be():
    symbols = HiddenMarkovModel(emissions="categorical")
    for column, message in ((np.full(5, np.nan), "no observation"), ([0.0, 1e300, 1.0], r"symbol 1e\+300")):
        with pytest.raises(ValueError, match=message):
            symbols.fit(np.asarray(column)[:, None])
    symbols.fit(np.array([0.0, 1.0, 0.0])[:, None])
    with pytest.raises(ValueError, match="data is 5 in row"):
        symbols.predict(np.array([[5.0]]))
    topics = LatentDirichletAllocation(2, max_iter=2, tol=1e9).fit(np.eye(3))
    with pytest.raises(ValueError, match="X has no word"):
        topics.perplexity(np.zeros((2, 3)))
    with pytest.raises(NotFittedError):
        LatentDirichletAllocation(2).perplexity(np.eye(3))
    for count in (-1, 2.5):
        with pytest.raises((ValueError, TypeError), match="n_samples is"):
            GaussianMixture(2).fit(X).sample(count)
