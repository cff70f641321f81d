"""Properties that the test suites of scikit-learn, hmmlearn and gensim hold their models to, held here too.

Those that tests of a model or an estimator hold already are not repeated.
"""

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from mixture_oracles import one_column
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import bqvi
from bqvi.families import Dirichlet, Product
from bqvi.models import DirichletProcessMixture as DirichletProcessModel
from bqvi.models import DirichletWeights, HiddenMarkovModel, Mixture, gaussian_components
from bqvi.models import GaussianMixture as MixtureModel
from bqvi.models.gaussian_mixture import component_estimates
from bqvi.sklearn import (
    BayesianGaussianMixture,
    DirichletProcessMixture,
    GaussianMixture,
    LatentDirichletAllocation,
)
from bqvi.sklearn import HiddenMarkovModel as HiddenStates

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [6.0, 1.0], [-3.0, 7.0]])
LABELS = np.arange(150) % 3
X = RNG.normal(size=(150, 2)) @ [[1.0, 0.4], [0.0, 0.7]] + CENTRES[LABELS]
MIXTURES = [
    GaussianMixture(3, random_state=0),
    GaussianMixture(3, flat=True, random_state=0),
    BayesianGaussianMixture(3, random_state=0),
    DirichletProcessMixture(6, random_state=0),
]
SHAPES = ("full", "tied", "diag", "spherical")
TOPICS = np.kron(np.eye(3), np.full(4, 0.25))
COUNTS = RNG.multinomial(40, RNG.dirichlet(np.full(3, 0.1), 90) @ TOPICS)
each_mixture = pytest.mark.parametrize("mixture", MIXTURES, ids=lambda m: type(m).__name__)


@pytest.mark.parametrize("distance", [100.0, 1e6])
@pytest.mark.parametrize("shape", ["full", "tied", "diagonal", "spherical", "known"])
@pytest.mark.parametrize("kind", ["maximum likelihood", "Bayes", "sticks"])
def test_data_moved_elsewhere_move_the_means_alone(kind, shape, distance):
    """Priors are computed from the data, or moved with them, so that nothing else can change."""
    x, moved = np.round(X, 3), distance * np.array([1.0, -2.5])
    family = "point" if kind == "maximum likelihood" else "full"

    def fitted(shift):
        of_known = gaussian_components(np.eye(2), prior_mean=shift, prior_covariance=9.0 * np.eye(2))
        if kind == "sticks":
            model = DirichletProcessModel(of_known if shape == "known" else shape, 6)
        elif shape == "known":
            model = Mixture(DirichletWeights(3, 1.0), of_known)
        else:
            model = MixtureModel(3, shape, concentration=1.0, flat=kind == "maximum likelihood")
        return bqvi.fit(model, x + shift, family=family, tolerance=1e-9, steps=500)

    here, there = fitted(0.0 * moved), fitted(moved)
    # x + shift holds x to 1e-10 at 1e6; natural parameters of means cancel 1e12 * 1e-16 per component
    assert there.elbo == pytest.approx(here.elbo, rel=1e-8 if distance < 1e3 else 1e-6)
    ends = [component_estimates(fit.problem.model, fit.q) for fit in (here, there)]
    within = 1e-5 if distance < 1e3 else 1e-3
    np.testing.assert_allclose(ends[1][0] - moved, ends[0][0], atol=within)
    np.testing.assert_allclose(ends[1][1], ends[0][1], atol=within)


@pytest.mark.parametrize(
    "estimator", [*MIXTURES, HiddenStates(3, random_state=0)], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize(("scale", "by"), [(1.0, [100.0, -250.0]), (4.0, [0.0, 0.0])])
def test_estimators_predict_the_same_of_data_moved_or_scaled(estimator, scale, by):
    """On noise, where another start would end elsewhere."""
    noise = np.random.default_rng(4).normal(size=(200, 2))
    lengths = {"lengths": [10] * 20} if isinstance(estimator, HiddenStates) else {}
    here, there = (clone(estimator).fit(x, **lengths) for x in (noise, scale * noise + by))
    np.testing.assert_array_equal(
        there.predict(scale * noise + by, **lengths), here.predict(noise, **lengths)
    )


@pytest.mark.parametrize("covariance_type", SHAPES)
def test_draws_have_the_mixtures_weights_and_moments(covariance_type):
    """By 5 standard errors: a false alarm in 1e-5 of the runs, seeds being fixed."""
    found = BayesianGaussianMixture(3, covariance_type=covariance_type, random_state=1).fit(X)
    draws, labels = found.sample(20000)
    for k in range(3):
        own = draws[labels == k]
        assert abs(len(own) / 20000 - found.weights_[k]) < 5.0 * np.sqrt(found.weights_[k] / 20000)
        error = np.sqrt(found.covariances_[k].diagonal() / len(own))
        assert (np.abs(own.mean(0) - found.means_[k]) < 5.0 * error).all()
        spread = np.sqrt(2.0 / len(own)) * found.covariances_[k].diagonal().max()
        assert (np.abs(np.cov(own.T) - found.covariances_[k]) < 5.0 * spread).all()


@each_mixture
def test_the_best_of_several_starts_is_kept_and_iterations_are_counted(mixture):
    noise = np.random.default_rng(4).normal(size=(60, 2))
    starts = [
        clone(mixture).set_params(n_init=n, init_params="random", max_iter=5).fit(noise) for n in (1, 12)
    ]
    assert starts[1].lower_bound_ >= starts[0].lower_bound_
    with pytest.warns(ConvergenceWarning, match="max_iter = 1"):
        short = clone(mixture).set_params(max_iter=1, tol=1e-12).fit(X)
    assert (short.n_iter_, short.converged_) == (1, False)
    long = clone(mixture).fit(X)
    assert long.converged_
    assert 1 < long.n_iter_ <= long.max_iter
    assert (np.diff(long.lower_bounds_) > -1e-9 * abs(long.lower_bound_)).all()


@pytest.mark.parametrize("method", ["batch", "online", "memoised", "stream"])
@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_of_words_are_found_as_topics(method, sparse):
    counts = scipy.sparse.csr_array(COUNTS) if sparse else COUNTS
    topics = LatentDirichletAllocation(3, batch_size=30, max_iter=30, total_samples=90, random_state=0)
    if method == "stream":
        for turn in range(60):
            topics.partial_fit(counts[(turn % 3) * 30 : (turn % 3) * 30 + 30])
    else:
        topics.set_params(method=method).fit(counts)
    best = np.sort(np.argsort(-topics.components_, axis=1)[:, :4], axis=1)
    assert sorted(map(tuple, best)) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    shares = topics.transform(counts)
    assert shares.sum(axis=1) == pytest.approx(np.ones(90))
    assert (shares > 0.0).all()
    words = COUNTS.sum()
    base = scipy.stats.multinomial.logpmf(COUNTS, 40, COUNTS / 40.0)
    base = (base - np.where(COUNTS > 0, COUNTS * np.log(np.maximum(COUNTS, 1) / 40.0), 0.0).sum(1)).sum()
    assert topics.perplexity(counts) == pytest.approx(np.exp((base - topics.score(counts)) / words))
    assert topics.get_feature_names_out().tolist() == [f"latentdirichletallocation{k}" for k in range(3)]


def test_more_passes_lower_the_perplexity_and_raise_the_score():
    ends = [LatentDirichletAllocation(3, max_iter=n, random_state=0).fit(COUNTS) for n in (1, 10)]
    assert ends[1].perplexity(COUNTS) < ends[0].perplexity(COUNTS)
    assert ends[1].score(COUNTS) > ends[0].score(COUNTS)


SEQUENCES = [RNG.integers(3, size=size) for size in (12, 1, 30, 7)]


def chain(zeros):
    """A point under flat priors whose transitions and first state have probability 0 where ``zeros``."""
    return Product(
        {
            "initial": Dirichlet(np.where(zeros[0], 1.0, 3.0)),
            "transitions": Dirichlet(np.where(zeros, 1.0, 3.0)),
            "probabilities": Dirichlet(1.0 + np.random.default_rng(1).uniform(1.0, 2.0, (3, 1, 3))),
        }
    )


def test_a_chain_from_left_to_right_stays_one():
    """What EM starts at 0 remains 0: there is no transition back, and the first state is always first."""
    zeros = np.array([[False, False, True], [True, False, False], [True, True, False]])
    start = chain(zeros)
    start = Product({**start.factors, "initial": Dirichlet(np.array([3.0, 1.0, 1.0]))})
    model = HiddenMarkovModel(3, one_column(3, concentration=1.0))
    fit = bqvi.fit(model, SEQUENCES, family="point", start_from=start, steps=15)
    assert (np.asarray(fit.q["transitions"].mean)[zeros] == 0.0).all()
    np.testing.assert_allclose(fit.q["initial"].mean, [1.0, 0.0, 0.0])
    assert np.isfinite(fit.elbo)
    assert (np.diff(fit.trace["elbo"]) > -1e-9 * abs(fit.elbo)).all()
    for path in fit.problem.model.viterbi(fit.q, SEQUENCES):
        assert path[0] == 0
        assert set(np.diff(path)) <= {0, 1}


@pytest.mark.parametrize("family", ["full", "point"])
def test_the_order_of_sequences_changes_nothing(family):
    model = HiddenMarkovModel(3, one_column(3, concentration=1.0))
    start = chain(np.zeros((3, 3), bool))
    ends = [
        bqvi.fit(model, [SEQUENCES[n] for n in order], family=family, start_from=start, steps=20)
        for order in ([0, 1, 2, 3], [3, 1, 0, 2])
    ]
    assert ends[0].elbo == pytest.approx(ends[1].elbo, rel=1e-10)
    np.testing.assert_allclose(ends[0].q["transitions"].mean, ends[1].q["transitions"].mean, rtol=1e-7)


def test_a_state_that_little_visits_stays_near_its_prior():
    """Its symbols do not occur: it has its prior and its few visits, and is not NaN."""
    model = HiddenMarkovModel(3, one_column(4, concentration=1.0), transition_concentration=0.1)
    lean = 1.0 + 1e4 * np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    start = Product(
        {
            "initial": Dirichlet(np.array([1e4, 1e4, 1e-2])),
            "transitions": Dirichlet(np.array([[1e4, 1e4, 1e-2]] * 3)),
            "probabilities": Dirichlet(lean[:, None]),
        }
    )
    fit = bqvi.fit(model, SEQUENCES, start_from=start, steps=200)
    visits = np.concatenate(fit.problem.model.posteriors(fit.q, SEQUENCES)).sum(axis=0)
    assert visits[2] < 0.1
    np.testing.assert_allclose(
        fit.q["probabilities"].concentration[:, 0].sum(1) - 4.0, visits, rtol=1e-3, atol=1e-3
    )
    assert (np.abs(fit.q["transitions"].concentration[2] - 0.1) < visits[2]).all()
    assert np.isfinite(fit.elbo)
