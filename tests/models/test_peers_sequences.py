"""Properties that hmmlearn's test suite holds its models to, held here too, from the mathematics.

Of its tests those are not repeated that other files hold already: recursions, Viterbi paths and posteriors by
all paths, and one by one hmmlearn's values (`test_hidden_markov_model`, `test_hidden_markov_model_peer`);
chains from left to right, the order of sequences, draws, a state without visits, underflow
(`test_peers_properties`); moments of samples, scores (`test_sklearn`); divergences (`tests/families`). There
is nothing here for those of parameters set by hand, of mixtures as emissions, and of AIC and BIC.
"""

import numpy as np
import pytest
from mixture_oracles import one_column

import bqvi
from bqvi.families import Dirichlet, PointMass, Product
from bqvi.models import (
    HiddenMarkovModel,
)
from bqvi.sklearn import HiddenMarkovModel as HiddenStates

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHAPES = ("full", "tied", "diag", "spherical")


def at_a_point(initial, transitions, symbols):
    """q with all its mass at these probabilities: the mode of Dir(1 + p) is p."""
    parts = {"initial": initial, "transitions": transitions, "probabilities": symbols[:, None]}
    return Product({name: PointMass(Dirichlet(1.0 + p)) for name, p in parts.items()})


def rises(found):
    bounds = np.asarray(found.lower_bounds_)
    return np.isfinite(bounds).all() and (np.diff(bounds) > -1e-9 * abs(bounds[-1])).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bayesian", [True, False])
def test_a_column_that_never_changes_leaves_everything_finite(shape, bayesian):
    """Also with as few rows as parameters: nine rows of four columns for three states."""
    rng = np.random.default_rng(4)
    x = np.column_stack(
        [np.full(9, 715.0), 65.0 * np.arange(9.0, 0.0, -1.0), rng.normal(0.0, [[4.0, 40.0]], (9, 2))]
    )
    found = HiddenStates(3, covariance_type=shape, bayesian=bayesian, random_state=0).fit(x)
    assert rises(found)
    assert np.isfinite(found.predict_proba(x)).all()
    draws, _ = found.sample(20)
    assert np.isfinite(draws).all()


def test_symbols_number_from_zero_and_their_number_is_kept():
    """A number of symbols above that of the data leaves room for others; below it is refused."""
    x = np.array([0.0, 0.0, 2.0, 1.0, 3.0, 1.0, 1.0])[:, None]
    for given, expected in ((None, 4), (6, 6)):
        found = HiddenStates(2, emissions="categorical", n_symbols=given, random_state=0).fit(x)
        assert found.posterior_["probabilities"].mean.shape == (2, 1, expected)
        assert rises(found)
    assert np.isfinite(found.score(np.array([[5.0], [4.0]])))
    with pytest.raises(ValueError, match=r"data is 3 in row.*n_categories = 3"):
        HiddenStates(2, emissions="categorical", n_symbols=3).fit(x)
    for bad in (-1.0, 0.5):
        with pytest.raises(ValueError, match="categories must be"):
            HiddenStates(2, emissions="categorical").fit(np.array([[0.0], [bad], [1.0]]))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("initial", (2,)), ("transitions", (2, 3)), ("probabilities", (3, 1, 4)), ("probabilities", (2, 1, 3))],
)
def test_starts_of_other_shapes_are_refused(name, shape):
    """A model of three states and three symbols."""
    q = at_a_point(np.full(3, 1 / 3), np.full((3, 3), 1 / 3), np.full((3, 3), 1 / 3))
    start = Product({n: Dirichlet(np.ones(shape)) if n == name else f.family for n, f in q.factors.items()})
    model = HiddenMarkovModel(3, one_column(3, 1.0))
    with pytest.raises(ValueError, match="start_from"):
        bqvi.fit(model, [np.arange(3)], start_from=start, steps=1)
