"""Messages of each model for invalid data and settings: the argument, what was given, before any work."""

import numpy as np
import pytest
import scipy.sparse

import bqvi
from bqvi.models import (
    DirichletProcessMixture,
    DirichletWeights,
    FactorAnalysis,
    GaussianMixture,
    HiddenMarkovModel,
    LatentDirichletAllocation,
    LogisticRegression,
    Marginal,
    Mixture,
    MixtureOfExperts,
    MixtureOfFactorAnalysers,
    MultinomialMixture,
    RegressionPrior,
    Sequences,
    bernoulli,
    categorical,
    exponential,
    gaussian_components,
    poisson,
)
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
    "analysers": MixtureOfFactorAnalysers(2, 1),
    "factors": FactorAnalysis(1),
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
REGRESSIONS = {
    "logistic": LogisticRegression(3),
    "linear experts": MixtureOfExperts(2, 3),
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


@pytest.mark.parametrize(("value", "words"), [(-1.0, "-1"), (0.5, r"0\.5")])
@pytest.mark.parametrize("name", [*INDEPENDENT, *WORDS, "states, poisson", "states, bernoulli"])
def test_counts_that_are_negative_or_fractional(name, value, words):
    if value == 0.5 and name in ("exponential", "multinomial"):
        pytest.skip("which take fractions")
    data = good(name)
    data[4, 1] = value
    refused({**INDEPENDENT, **WORDS, **SEQUENCES}[name], data, words)
    if name in WORDS:
        refused(WORDS[name], scipy.sparse.csr_array(data), words)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_inputs_and_outputs_that_cannot_be(name):
    y = COUNTS[:, 0]
    for part in (0, 1):
        for value, words in ((np.nan, "nan in row 4"), (np.inf, "inf in row 4"), (1e300, r"1e\+300")):
            data = [X.copy(), y.copy()]
            data[part].reshape(20, -1)[4, 0] = value
            refused(REGRESSIONS[name], tuple(data), rf"data\[{part}\].*{words}|labels .*1\.e\+300")
    refused(REGRESSIONS[name], (X, y[:5]), "data has shapes")
    refused(REGRESSIONS[name], (X[:, :2], y), "data has shapes")
    refused(REGRESSIONS[name], X, "data is ndarray; it must be a tuple")
    if "logistic" in name:
        refused(REGRESSIONS[name], (X, np.where(y > 0.0, 7.0, y)), r"data\[1\] has .*7.* 0 or 1")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: GaussianMixture(2, "full", prior_scale=NOT_POSITIVE),
            "prior_scale is not positive definite",
        ),
        (
            lambda: GaussianMixture(2, "tied", prior_scale=NOT_POSITIVE),
            "prior_scale is not positive definite",
        ),
        (lambda: GaussianMixture(2, "diagonal", prior_scale=[-1.0, 1.0, 1.0]), "prior_scale contains -1"),
        (lambda: GaussianMixture(2, "spherical", prior_scale=-1.0), "prior_scale contains -1"),
        (lambda: GaussianMixture(2, NOT_POSITIVE), "covariance is not positive definite"),
        (
            lambda: GaussianMixture(2, np.eye(3), prior_covariance=NOT_POSITIVE),
            "prior_covariance is not posi",
        ),
        (
            lambda: states(gaussian_components("full", prior_scale=NOT_POSITIVE)),
            "prior_scale is not positive",
        ),
        (lambda: MixtureOfFactorAnalysers(2, 1, prior=3), "prior is 3; it must be a RegressionPrior"),
        (lambda: FactorAnalysis(1, prior=RegressionPrior(scale=[1.0, 2.0])), r"prior.scale has shape \(2,\)"),
        (lambda: FactorAnalysis(1, prior=RegressionPrior(scale="x")), "prior.scale is a str"),
        (lambda: FactorAnalysis(1, prior="flat"), "prior is 'flat'"),
        (lambda: MixtureOfExperts(2, 3, 4), "experts is 4; it must be an Experts"),
    ],
)
def test_priors_that_cannot_be(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        bqvi.fit(make(), X, steps=2)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, 3], "sum to 6"),
        ([20, 0], "positive"),
        ([30, -10], "positive"),
        ([10.0, 10.0], "positive integers"),
    ],
)
def test_lengths_that_do_not_fit(lengths, message):
    with pytest.raises(ValueError, match=message):
        Sequences(X, np.array(lengths))


def test_symbols_that_were_not_seen():
    model = states(categorical(2, 1.0))
    fit = bqvi.fit(model, COUNTS[:, 0], steps=2)
    with pytest.raises(ValueError, match=r"data is 7 in row 1, .*below n_categories = 2"):
        fit.problem.model.posteriors(fit.q, np.array([0.0, 7.0]))


@pytest.mark.parametrize(
    "name", ["states, gaussian", "states, known", "states, poisson", "factors", "poisson"]
)
def test_a_column_that_only_new_rows_lack_is_missing(name):
    models = {**GAUSSIAN, **INDEPENDENT, **SEQUENCES}
    fit = bqvi.fit(models[name], good(name), steps=2)
    model, new = fit.problem.model, good(name)[:2]
    new[:, 1] = np.nan
    if name in SEQUENCES:
        assert np.isfinite(model.posteriors(fit.q, new)[0]).all()
    else:
        assert np.isfinite(model.log_base_measure(model.check(new)))


def test_more_components_than_rows_are_as_the_prior_has_them():
    """Under a proper prior; under a flat one there is no maximum."""
    fit = bqvi.fit(GaussianMixture(30, "full"), X, steps=300)
    assert np.isfinite(fit.elbo)
    assert (fit.q["weights"].concentration < 0.1).any()
    with pytest.raises(ValueError, match="n_components is 30, but data has 20 rows"):
        bqvi.fit(GaussianMixture(30, "full", flat=True), X, family="point", steps=50)


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        (DirichletProcessMixture("full", 3, tail="tied"), ValueError, "mixture has tail='tied'.*'truncated'"),
        (LogisticRegression(2), TypeError, "mixture is a LogisticRegression"),
    ],
)
def test_what_has_no_components_to_draw_is_not_summed_out(model, kind, message):
    with pytest.raises(kind, match=message):
        Marginal(model)
