"""Messages of each model for invalid data and settings: the argument, what was given, before any work."""

import numpy as np
import pytest
import scipy.sparse
from mixture_oracles import one_column
from torch import nn

import bqvi
from bqvi.families import Gamma
from bqvi.models import (
    ConjugateComponents,
    DirichletProcessMixture,
    DirichletWeights,
    GaussianMixture,
    HiddenMarkovModel,
    LatentDirichletAllocation,
    LogisticRegression,
    Mixture,
    MixtureOfExperts,
    Multinomial,
    MultinomialMixture,
    Sequences,
    Sticks,
    bernoulli,
    categorical,
    exponential,
    gaussian_components,
    poisson,
)
from experiments.models.network_experts import NetworkExperts
from experiments.models.semantic_analysis import ProbabilisticLatentSemanticAnalysis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
COUNTS = RNG.integers(0, 2, (20, 3)).astype(float)
"""Also categories, symbols and labels 0 and 1."""
NOT_POSITIVE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def mixture(components):
    return Mixture(DirichletWeights(2), components)


def states(emissions):
    return HiddenMarkovModel(2, emissions)


GAUSSIAN = {
    **{shape: GaussianMixture(2, shape) for shape in ("full", "tied", "diagonal", "spherical")},
    "known": GaussianMixture(2, np.eye(3)),
    "process": DirichletProcessMixture("full", 3),
}
INDEPENDENT = {
    "poisson": mixture(poisson()),
    "bernoulli": mixture(bernoulli()),
    "categorical": mixture(categorical(2)),
    "exponential": mixture(exponential()),
}
WORDS = {
    "multinomial": MultinomialMixture(2, 3),
    "topics": LatentDirichletAllocation(2, 3),
    "latent semantics": ProbabilisticLatentSemanticAnalysis(2, 3),
}
SEQUENCES = {
    "states, gaussian": states(gaussian_components("full")),
    "states, known": states(gaussian_components(np.eye(3))),
    "states, poisson": states(poisson()),
    "states, bernoulli": states(bernoulli()),
}


def good(name):
    real = name in GAUSSIAN or name in ("states, gaussian", "states, known")
    return X.copy() if real else COUNTS.copy()


def refused(model, data, message):
    method = "ngd" if isinstance(model, LogisticRegression) else "cavi"
    with pytest.raises((ValueError, TypeError), match=message):
        bqvi.fit(model, data, method, steps=2)


@pytest.mark.parametrize("name", [*GAUSSIAN, *INDEPENDENT, *WORDS, *SEQUENCES])
def test_entries_that_are_missing_infinite_or_too_large(name):
    models = {**GAUSSIAN, **INDEPENDENT, **WORDS, **SEQUENCES}
    model = models[name]
    for value, words in (
        (np.inf, "infinity in row 4|data (is|has a count of) inf in row 4"),
        (1e300, r"1e\+300"),
    ):
        data = good(name)
        data[4, 1] = value
        refused(model, data, words)
    data = good(name)
    data[4] = np.nan
    if name not in SEQUENCES:
        refused(model, data, r"row 4 all NaN|nan in row 4")
    data = good(name)
    data[:, 1] = np.nan
    refused(model, data, r"column 1 all NaN|nan in row 0, column 1")
    refused(model, np.full((20, 3), np.nan), r"row 0 all NaN|nan in row 0|no observation")
    refused(model, [["a", "b", "c"]] * 20, "cannot be read as real numbers")
    refused(model, None, "is None")


def test_more_components_than_rows_are_as_the_prior_has_them():
    """Under a proper prior; under a flat one there is no maximum."""
    fit = bqvi.fit(GaussianMixture(30, "full"), X, steps=300)
    assert np.isfinite(fit.elbo)
    assert (fit.q["weights"].concentration < 0.1).any()
    with pytest.raises(ValueError, match="n_components is 30, but data has 20 rows"):
        bqvi.fit(GaussianMixture(30, "full", flat=True), X, family="point", steps=50)


LINE, TRIPLE, WIDE = nn.Linear(2, 1, bias=False), nn.Linear(2, 3), nn.Linear(5, 1)
PAIR = (X[:, :2], X[:, 2])
HOLE = np.array([[1.0, 2.0], [np.nan, 1.0]])
TIED = DirichletProcessMixture("full", concentration=1.0, tail="tied")
OTHER_SHAPES = ConjugateComponents(Gamma(np.ones(3), np.ones(3)), lambda x: (x, x), lambda x: 0.0 * x[:, 0])


def chain(**settings):
    return HiddenMarkovModel(2, one_column(3, 1.0), **settings)


def networks(*given):
    return MixtureOfExperts(2, 2, NetworkExperts(*given))


MADE = {
    "covariance is 'fulll'.*'full'": lambda: GaussianMixture(2, "fulll"),
    "prior_covariance was given": lambda: GaussianMixture(2, "full", prior_covariance=np.eye(2)),
    "prior_dof was given": lambda: GaussianMixture(2, np.eye(2), prior_dof=3.0),
    "flat is True": lambda: GaussianMixture(2, "full", flat=True, prior_dof=3.0),
    "use model.for_data": lambda: GaussianMixture(2, "full").prior,
    "tail is 'tied' with a covariance that all components share": lambda: Mixture(
        Sticks(6, tail="tied"), gaussian_components("tied")),
    "concentration is -1": lambda: Sticks(5, -1.0),
    r"discount is 0\.5": lambda: Sticks(5, discount=0.5),
    r"discount is 1\.0": lambda: Sticks(5, 1.0, discount=1.0),
    "tail is 'tied'": lambda: DirichletProcessMixture("tied", tail="tied"),
    "shape is -1": lambda: poisson(-1.0),
    "rate contains 0": lambda: poisson(1.0, 0.0),
    "lengths sum to 4, but there are 5": lambda: Sequences(np.zeros(5), np.array([2, 2])),
    r"lengths is array\(\[5, 0\].*positive integers": lambda: Sequences(np.zeros(5), np.array([5, 0])),
    r"lengths is array\(\[ ?30.*positive": lambda: Sequences(X, np.array([30, -10])),
    r"lengths is array\(\[10\..*positive integers": lambda: Sequences(X, np.array([10.0, 10.0])),
    "initial_concentration is 0 throughout a row": lambda: chain(initial_concentration=0.0),
    "transition_concentration contains 1e-305; it must be 0 or at least": lambda: chain(
        transition_concentration=1e-305),
    r"transition_concentration has shape \(3,\)": lambda: chain(transition_concentration=np.ones(3)),
    r"transition_concentration has shape \(2, 3\)": lambda: chain(transition_concentration=np.ones((2, 3))),
    r"initial_concentration has shape \(2, 3\)": lambda: chain(initial_concentration=np.ones((2, 3))),
    "concentration has": lambda: one_column(3, concentration=np.ones(2)),
    "emissions is": lambda: HiddenMarkovModel(2, "categorical"),
    "n_states is 0": lambda: HiddenMarkovModel(0, one_column(2, 1.0)),
    "learn_concentration is 'both'": lambda: LatentDirichletAllocation(2, 2, learn_concentration="both"),
    "word_concentration differs": lambda: LatentDirichletAllocation(
        2, 2, word_concentration=np.array([1.0, 2.0]), learn_word_concentration=True),
    "^concentration ": lambda: LatentDirichletAllocation(3, 3, concentration=np.full((3, 1), 0.3)),
    "^concentration has": lambda: LatentDirichletAllocation(3, 3, concentration=np.full(2, 0.3)),
    "^word_concentration ": lambda: LatentDirichletAllocation(3, 3, word_concentration=np.full((3, 1), 0.3)),
    "^word_concentration has": lambda: LatentDirichletAllocation(3, 3, word_concentration=np.full(4, 0.3)),
    "share is 1": lambda: LatentDirichletAllocation(2, 2).perplexity(None, np.ones((2, 2)), share=1.0),
    "n_components is 0": lambda: DirichletWeights(0),
    "concentration contains -1": lambda: DirichletWeights(2, -1.0),
    "prior_strength is 0": lambda: MixtureOfExperts(2, 2, prior_strength=0.0),
    "prior_scale is -1": lambda: MixtureOfExperts(2, 2, prior_scale=-1.0),
    "prior_scale is to be taken from data": lambda: MixtureOfExperts(2, 2).prior,
    "n_experts is 1": lambda: MixtureOfExperts(1, 2),
    "experts is 4; it must be an Experts": lambda: MixtureOfExperts(2, 3, 4),
    "prior_scale are those of linear experts": lambda: MixtureOfExperts(
        2, 2, NetworkExperts(LINE), prior_scale=1.0),
    "module is 3": lambda: NetworkExperts(3),
}  # fmt: skip
FITTED = [
    (GaussianMixture(2, "full", prior_scale=NOT_POSITIVE), X, "prior_scale is not positive definite"),
    (GaussianMixture(2, "tied", prior_scale=NOT_POSITIVE), X, "prior_scale is not positive definite"),
    (GaussianMixture(2, "full", prior_scale=np.eye(2)), X, "prior_scale has shape"),
    (GaussianMixture(2, "diagonal", prior_scale=[-1.0, 1.0, 1.0]), X, "prior_scale contains -1"),
    (GaussianMixture(2, "spherical", prior_scale=-1.0), X, "prior_scale contains -1"),
    (GaussianMixture(2, "full", prior_strength=0.0), X, "prior_strength is 0"),
    (GaussianMixture(2, "full", prior_dof=1.0), X, "prior_dof is 1"),
    (GaussianMixture(2, "full", prior_mean=np.zeros(2)), X, "prior_mean has shape"),
    (GaussianMixture(2, "full", prior_mean="a"), X, "prior_mean is .*; it must be real numbers"),
    (GaussianMixture(2, "full", prior_scale=[[1, 2], [3]]), X, "prior_scale is no array of numbers"),
    (GaussianMixture(2, "full", flat=True), X, "flat"),
    (GaussianMixture(2, "full"), np.empty((0, 2)), r"shape \(0, 2\)"),
    (states(gaussian_components("full", prior_scale=NOT_POSITIVE)), X, "prior_scale is not positive"),
    (mixture(poisson()), [[0.5]], "0.5 in row 0"),
    (mixture(poisson()), [[-1.0]], "-1 in row 0"),
    (mixture(exponential()), [[-1.0]], "-1 in row 0"),
    (mixture(bernoulli()), [[2.0]], "2 in row 0"),
    (mixture(categorical(2)), [[2.0]], "data is 2 in row 0, column 0; .*below n_categories = 2"),
    (mixture(OTHER_SHAPES), np.ones((4, 2)), "they must be the same"),
    (chain(), [], "empty list"),
    (chain(), [np.zeros(3), np.zeros(0)], "no observation in sequence 1"),
    (chain(), [np.zeros((3, 2)), np.zeros(3)], "not all"),
    (chain(), np.array([0.0, 5.0]), "data is 5 in row 1"),
    (chain(), np.array([0.0, 0.5]), r"data is 0\.5 in row 1"),
    (chain(), np.array([0.0, -1.0]), "data is -1 in row 1"),
    (chain(), np.full(4, np.nan), "no observation"),
    (chain(), np.array([0.0, np.inf]), "inf in row 1"),
    (states(poisson()), np.array([1.0, 0.5]), r"count of 0\.5"),
    (states(gaussian_components()), HOLE * [np.nan, 1.0], "column 0 all NaN"),
    (states(poisson()), HOLE * [np.nan, 1.0], "column 0 all NaN"),
    (states(Multinomial(2)), HOLE, "data is nan in row 1"),
    (LatentDirichletAllocation(2, 2), [[1.0, -2.0]], "count of -2 in row 0, column 1"),
    (LatentDirichletAllocation(2, 2), [[1.0, 0.0], [0.5, 1.0]], r"count of 0\.5 in row 1, column 0"),
    (LatentDirichletAllocation(2, 2), [[1.0, np.nan]], "NaN|nan"),
    (LatentDirichletAllocation(2, 2), np.ones((2, 3)), r"it must be \(N, 2\)"),
    (LatentDirichletAllocation(2, 2), np.ones((0, 2)), "N >= 1"),
    (networks(LINE), PAIR, "point estimates only"),
]  # fmt: skip
AT_A_POINT = [
    (TIED, np.eye(4), {}, "tied tail"),
    (networks(TRIPLE), PAIR, {}, r"gives shape \(3, 3\)"),
    (networks(WIDE), PAIR, {}, "module fails"),
    (networks(LINE), PAIR, {"method": "memoised"}, "one of gradient ascent"),
]


@pytest.mark.parametrize("message", MADE)
def test_settings_that_cannot_be(message):
    with pytest.raises((ValueError, TypeError), match=message):
        MADE[message]()


@pytest.mark.parametrize(("model", "data", "message"), FITTED)
def test_data_and_priors_that_do_not_fit(model, data, message):
    refused(model, data, message)
    if isinstance(model, LatentDirichletAllocation):
        refused(model, scipy.sparse.csr_array(data), message)


@pytest.mark.parametrize(("model", "data", "settings", "message"), AT_A_POINT)
def test_what_has_no_point_estimate(model, data, settings, message):
    with pytest.raises(ValueError, match=message):
        bqvi.fit(model, data, family="point", **settings)


def test_covariances_that_are_not_positive_definite():
    with pytest.raises(ValueError, match=r"^covariance is not positive definite"):
        GaussianMixture(2, NOT_POSITIVE)
    with pytest.raises(ValueError, match="prior_covariance is not positive definite"):
        GaussianMixture(2, np.eye(3), prior_covariance=NOT_POSITIVE)


def test_new_data_that_do_not_fit():
    fit = bqvi.fit(states(categorical(2, 1.0)), COUNTS[:, 0], steps=2)
    with pytest.raises(ValueError, match=r"data is 7 in row 1, .*below n_categories = 2"):
        fit.problem.model.posteriors(fit.q, np.array([0.0, 7.0]))
    topics = bqvi.fit(LatentDirichletAllocation(2, 2), np.ones((2, 2)))
    with pytest.raises(ValueError, match="held_out has 3 rows"):
        topics.problem.model.log_predictive(topics.q, np.ones((2, 2)), np.ones((3, 2)))
