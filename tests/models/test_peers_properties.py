"""Properties that the test suites of scikit-learn, hmmlearn and gensim hold their models to, held here too.

Those that tests of a model or an estimator hold already are not repeated.
"""

import numpy as np
import pytest
from mixture_oracles import one_column
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import bqvi
from bqvi.families import Dirichlet, Product
from bqvi.models import HiddenMarkovModel
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
