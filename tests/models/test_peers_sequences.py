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
    Multinomial,
    Sequences,
    gaussian_components,
    poisson,
)
from bqvi.sklearn import HiddenMarkovModel as HiddenStates

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHAPES = ("full", "tied", "diag", "spherical")
EMISSIONS = ("gaussian", "categorical", "poisson")


def at_a_point(initial, transitions, symbols):
    """q with all its mass at these probabilities: the mode of Dir(1 + p) is p."""
    parts = {"initial": initial, "transitions": transitions, "probabilities": symbols[:, None]}
    return Product({name: PointMass(Dirichlet(1.0 + p)) for name, p in parts.items()})


def values_of(emissions, size, rng):
    """Values (size, 1) of two states far apart."""
    states = rng.integers(2, size=size)
    drawn = {
        "gaussian": rng.normal(8.0 * states, 1.0),
        "categorical": states + 2 * rng.integers(2, size=size),
        "poisson": rng.poisson(1.0 + 30.0 * states),
    }
    return drawn[emissions][:, None].astype(float)


def rises(found):
    bounds = np.asarray(found.lower_bounds_)
    return np.isfinite(bounds).all() and (np.diff(bounds) > -1e-9 * abs(bounds[-1])).all()


@pytest.mark.parametrize("family", ["full", "point"])
def test_one_draw_from_several_words_is_a_symbol(family):
    """Counts of a multinomial of one trial, against the symbol."""
    x = np.random.default_rng(1).integers(4, size=60)
    lengths, start = np.array([25, 1, 34]), np.random.default_rng(2).uniform(1.0, 5.0, (3, 4))
    first = {"initial": Dirichlet(np.array([2.0, 3.0, 4.0])), "transitions": Dirichlet(1.0 + np.eye(3))}
    ends = []
    for emissions, name, values in (
        (one_column(4, concentration=1.5), "probabilities", x),
        (Multinomial(4, concentration=1.5), Multinomial.name, np.eye(4)[x]),
    ):
        model, data = HiddenMarkovModel(3, emissions), Sequences(values, lengths)
        shape = (3, 1, 4) if name == "probabilities" else (3, 4)
        begin = Product({**first, name: Dirichlet(1.5 + start.reshape(shape))})
        fit = bqvi.fit(model, data, family=family, start_from=begin, steps=25)
        ends.append((fit.elbo, np.reshape(fit.q[name].mean, (3, 4)), np.asarray(fit.q["transitions"].mean)))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


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


def test_priors_worth_much_hold_the_estimates():
    """Posterior modes lie between the prior's and the frequencies, and at the prior's where that counts as
    1e9 observations.
    """
    x = [np.random.default_rng(5).integers(3, size=200)]
    wanted = np.array([[0.8, 0.2], [0.3, 0.7]])
    for weight, within in ((1e9, 1e-5), (1.0, 1.0)):
        model = HiddenMarkovModel(
            2, one_column(3, 1.0), transition_concentration=1.0 + weight * wanted,
            initial_concentration=1.0 + weight * np.array([0.9, 0.1]),
        )  # fmt: skip
        fit = bqvi.fit(model, x, family="point", steps=50, start_from="random")
        assert (np.abs(fit.q["transitions"].mean - wanted) < within).all()
        assert (np.diff(fit.trace["elbo"]) > -1e-9 * abs(fit.elbo)).all()


def cycles(n, length, rng):
    """Sequences (n, length) that go 0, 1, 2, 0, .. from any of the three."""
    return (rng.integers(3, size=(n, 1)) + np.arange(length)) % 3


def test_variational_bayes_leaves_states_empty_that_are_not_needed():
    """Three of five states remain, each with one symbol and one transition, from the best of twenty starts.
    Sparse priors (0.1) favour fewer states; the bound is compared with that of the model of three.
    """
    data = list(cycles(7, 100, np.random.default_rng(6)))

    def fitted(k):
        emissions = one_column(3, concentration=0.1)
        model = HiddenMarkovModel(k, emissions, initial_concentration=0.1, transition_concentration=0.1)
        return model, bqvi.fit(model, data, starts=20, start_from="random", steps=300, tolerance=1e-6, seed=0)

    model, fit = fitted(5)
    visits = np.concatenate(model.posteriors(fit.q, data)).sum(axis=0)
    used = visits > 1.0
    assert used.sum() == 3
    np.testing.assert_allclose(visits[used], 700.0 / 3.0, rtol=0.02)
    assert (fit.q["probabilities"].mean[used, 0].max(axis=1) > 0.99).all()
    assert (fit.q["transitions"].mean[used].max(axis=1) > 0.98).all()
    assert fit.elbo < fitted(3)[1].elbo


@pytest.mark.parametrize("emissions", EMISSIONS)
def test_the_bound_is_highest_at_the_number_of_states(emissions):
    """Data of two states far apart, models of one to four: the bound is the criterion, without a penalty."""
    rng = np.random.default_rng(8)
    states = np.repeat(rng.integers(2, size=60), 10)
    x = {
        "gaussian": rng.normal(8.0 * states, 1.0),
        "categorical": states + 2 * rng.integers(2, size=len(states)),
        "poisson": rng.poisson(2.0 + 30.0 * states),
    }[emissions]
    made = {
        "gaussian": gaussian_components("full"),
        "categorical": one_column(4, 1.0),
        "poisson": poisson(),
    }[emissions]
    bounds = [
        bqvi.fit(HiddenMarkovModel(k, made), [x], starts=2, steps=200, tolerance=1e-4, seed=0).elbo
        for k in (1, 2, 3, 4)
    ]
    assert int(np.argmax(bounds)) == 1
