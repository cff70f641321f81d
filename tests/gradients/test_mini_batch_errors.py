"""Standard errors of gradients on mini-batches: the mean square against the spread over draws and data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acquisition.minibatch import (
    Balanced,
    Features,
    HorvitzThompson,
    QuadratureWeighted,
    Reshuffled,
    Uniform,
)
from bqvi.families import Gaussian, GaussianMixture
from bqvi.gradients import IWAE, BayesianQuadrature, Conjugate, Pathwise, Score
from bqvi.gradients.bayesian_quadrature import _of_all
from bqvi.gradients.gradient import Batch, Combination
from bqvi.gradients.surrogates import Observed, OnFunction
from bqvi.models import LogisticRegression

RNG = np.random.default_rng(41)
X = np.column_stack([np.ones(90), RNG.standard_normal((90, 2)) * RNG.uniform(0.3, 2.0, (90, 1))])
Y = (RNG.random(90) < 1.0 / (1.0 + np.exp(-X @ np.array([0.4, 1.2, -0.8])))).astype(float)
MODEL = LogisticRegression(3)
DATA = MODEL.check((X, Y))
Q = Gaussian(np.array([0.2, 0.5, -0.3]), np.diag([0.05, 0.08, 0.04]))
MIXTURE = GaussianMixture(
    np.array([0.4, 0.6]), np.array([[0.2, 0.5, -0.3], [0.4, 0.9, -0.6]]), np.stack([0.05 * np.eye(3)] * 2)
)
WIDE = Gaussian(np.array([0.2, 0.5, -0.3]), 0.5 * np.eye(3))
"""Each draw has other data that matter: half of the variance over data is of single draws."""
NORMS = np.linalg.norm(X, axis=1)


def gradients(estimator, q, strategy, repetitions, seed=2):
    """Values (R, P) and standard errors of fresh mini-batches; None without errors."""
    rng = np.random.default_rng(seed)
    state, found = strategy.start(len(X), rng), []
    for _ in range(repetitions):
        if isinstance(strategy, HorvitzThompson):
            state = strategy.start(len(X), rng)  # its order is a part of the design
        selection, state = strategy.draw(state, rng)
        rows = tuple(part[selection.indices] for part in DATA)
        corrections = getattr(strategy, "corrections", None)
        batch = Batch(rows, len(selection.indices), selection.weights.copy(), corrections=corrections)
        found.append(estimator(MODEL, q, batch, rng))
    if any(g.standard_error is None for g in found):
        assert all(g.standard_error is None for g in found)
        return None
    values, errors = ([np.concatenate([np.ravel(part) for part in getattr(g, name)]) for g in found]
                      for name in ("values", "standard_error"))  # fmt: skip
    return np.array(values), np.array(errors)


@pytest.mark.parametrize(
    ("estimator", "q", "strategy", "least", "most"),
    [
        (Pathwise(8, errors=True), Q, Uniform(30), 0.8, 1.3),
        (Pathwise(8, errors=True), Q, Reshuffled(45), 0.8, 1.3),
        (Pathwise(8, errors=True), Q, Uniform(30, replacement=True), 0.8, 1.3),
        (Pathwise(8, errors=True), Q, HorvitzThompson(30, NORMS), 0.8, 1.25),
        (Pathwise(8, errors=True), Q, HorvitzThompson(12, NORMS**2), 0.8, 1.25),
        (Pathwise(8, errors=True), Q, Uniform(90), 0.8, 1.25),
        (Score(40, errors=True), Q, Uniform(30), 0.8, 1.3),
        (Score(8, errors=True), WIDE, Uniform(15), 0.85, 1.15),
        (Pathwise(4, errors=True), MIXTURE, Uniform(30), 0.8, 1.5),
        (BayesianQuadrature(8, memory=0, errors=True, process="joint"), Q, Uniform(30), 0.8, 1.3),
        (BayesianQuadrature(8, memory=0, errors=True, process="separable"), Q, Reshuffled(45), 0.8, 1.3),
    ],
)
def test_mean_squares_are_the_variance_over_draws_and_data(estimator, q, strategy, least, most):
    """200 repetitions: the ratio has a standard error of .1 for one entry, and of .04 to .06 for the sum; 100
    of the mixture, whose bounds are wider: .06 to .08. Of the 95 % intervals of quadrature, the 9 entries
    together, a share below .88 or above .99 has a probability below 1e-3 (entries are dependent; as of 50
    independent ones).
    """
    values, errors = gradients(estimator, q, strategy, 100 if q is MIXTURE else 200)
    ratio = np.square(errors).mean(0).sum() / values.var(0, ddof=1).sum()
    assert least < ratio < most
    if isinstance(estimator, BayesianQuadrature):
        whole = Conjugate()(MODEL, Q, Batch(DATA, len(X)), None).values
        truth = np.concatenate([part.ravel() for part in whole])
        assert 0.88 < np.mean(np.abs(values - truth) < 1.96 * errors) < 0.99
    if strategy.size < 90:  # the draws alone have less
        assert values.var(0, ddof=1).sum() > 2.0 * drawn_alone(estimator, q) or isinstance(estimator, Score)


def test_the_covariance_of_the_process_is_that_of_all_data_on_average():
    """Y^T P Y less the share of the choice, over 400 mini-batches of 20 of 60 rows: its mean is that of all
    rows (Horvitz and Thompson) within 4 standard errors, false alarms 6e-5. With the choice it is half as
    large again.
    """
    kind, rng = OnFunction(), np.random.default_rng(8)
    points, rows = rng.standard_normal((5, 2)), rng.standard_normal((60, 5, 3))
    rows += 0.3 * rng.standard_normal(rows.shape[1:])
    logs = kind.fit(Observed(points, rows.sum(0)), None)
    found = []
    for _ in range(400):
        some = rows[rng.choice(60, 20, replace=False)]
        batch = Batch(None, 20, np.full(20, 3.0), corrections=Uniform(20).corrections)
        process = kind.process(Observed(points, 3.0 * some.sum(0)), logs)
        found.append((total(process), total(process) * _of_all(process, some, batch)))
    whole, (plain, less) = total(kind.process(Observed(points, rows.sum(0)), logs)), np.transpose(found)
    assert abs(less.mean() - whole) < 4.0 * less.std(ddof=1) / 20.0
    assert plain.mean() > 1.4 * whole


def total(process):
    """Y^T P Y."""
    return process.given.scale * process.given.evidence.residual.size


def drawn_alone(estimator, q):
    """The sum of squares of standard errors given all data."""
    found = estimator(MODEL, q, Batch(DATA, len(X)), np.random.default_rng(0))
    return sum(np.square(part).sum() for part in found.standard_error)


@pytest.mark.parametrize(
    ("estimator", "strategy"),
    [
        (IWAE(5, errors=True), Uniform(30)),
        (Pathwise(5, errors=True), Balanced(30, Features.of(X))),
        (BayesianQuadrature(5, memory=0, errors=True), QuadratureWeighted(30, Features.of(X))),
        (Score(5, errors=True), Uniform(1)),
    ],
)
def test_there_is_none_where_it_cannot_be_known(estimator, strategy):
    assert gradients(estimator, Q, strategy, 2) is None


def exact(weights=None):
    """dL/dmu at Q in closed form, of all data with ``weights``; the distinct entries."""
    found = Conjugate()(MODEL, Q, Batch(DATA, len(X), weights), np.random.default_rng(0))
    return distinct(found.values)


def distinct(values):
    return np.concatenate([values[0], values[1][np.tril_indices(3)]])


@pytest.mark.parametrize("process", ["separable", "derivative", "joint"])
def test_quadrature_on_a_mini_batch_is_the_closed_form_of_its_rows(process):
    """Weights that differ between rows: with 60 nodes no error of a draw is left."""
    rng = np.random.default_rng(5)
    for _ in range(2):
        chosen, weights = rng.choice(len(X), 30, replace=False), rng.uniform(1.0, 5.0, 30)
        rows = Batch(tuple(part[chosen] for part in DATA), 30, weights)
        found = BayesianQuadrature(60, memory=0, process=process)(MODEL, Q, rows, rng)
        right = distinct(Conjugate()(MODEL, Q, rows, rng).values)
        assert_allclose(distinct(found.values), right, atol=0.02 * np.abs(right).max())


@pytest.mark.parametrize("process", ["separable", "derivative", "joint"])
def test_a_strategy_sums_the_gradients_of_the_rows_by_quadrature(process):
    """Rows summed with other weights than the mini-batch's: the closed form with those."""
    rng = np.random.default_rng(6)
    others = rng.uniform(0.0, 2.0, len(X))
    combination = Combination(lambda terms: others @ terms)
    batch = Batch(DATA, len(X), np.ones(len(X)), combination)
    found = BayesianQuadrature(60, memory=0, process=process)(MODEL, Q, batch, rng)
    assert combination.terms.shape == (len(X), 12)
    assert_allclose(distinct(found.values), exact(others), atol=0.02 * np.abs(exact(others)).max())
