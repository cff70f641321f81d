"""Evaluations that could refute an answer: the share of mass that differs, and what it decides."""

import numpy as np
import pytest
from scipy.stats import multivariate_t, norm

import bqvi
import gp
from bqvi.quadrature.charts import identity
from bqvi.quadrature.families import SMOOTH
from bqvi.quadrature.refutation import Answer, test_of
from bqvi.quadrature.surrogate import StandardData, surrogate
from bqvi.widened import WIDENING, Spread

test_of.__test__ = False  # a function of the library whose name is that of a test

LINE = gp.measures.Gaussian(np.zeros(1), np.eye(1))


def f(u):
    return np.exp(-0.5 * (u[:, 0] - 0.6) ** 2 / 0.3**2) + 0.3


def member(u, unit=2.0, level=0.25):
    """A process of (f / unit - level), from its values at u."""
    values = (f(u) / unit - level)[:, None]
    return surrogate("test", identity(LINE), SMOOTH, StandardData(u, values), np.array([-0.5, -9.0]))


def answer(u, unit=2.0, level=0.25):
    return Answer(member(u, unit, level), LINE, level, float(np.log(unit)))


def test_the_share_of_mass_that_differs_is_that_of_a_grid():
    ours = answer(np.linspace(-2.0, 2.0, 6)[:, None])
    grid = np.linspace(-8, 8, 20_001)[:, None]
    m, p = np.exp(ours.logs(grid)[0]), norm.pdf(grid[:, 0])
    truth = float(np.sum(np.abs(f(grid) - m) * p) / np.sum((f(grid) + m) * p))
    found = []
    for seed in range(40):
        points, predicted = ours.tests(10, seed)
        found.append(test_of(np.log(f(points)), predicted).differs)
    # forty ratios of sums of ten: their mean within 4 standard errors and a bias of second order
    assert np.mean(found) == pytest.approx(truth, abs=4 * np.std(found) / np.sqrt(40) + 0.1 * truth)
    assert 0.03 < truth < 0.5


def test_a_surrogate_that_is_right_survives_and_one_that_is_not_does_not():
    dense, few = answer(np.linspace(-4, 4, 40)[:, None]), answer(np.array([[-2.0], [-1.0], [0.0], [2.0]]))
    for ours, survived in ((dense, True), (few, False)):
        points, predicted = ours.tests(10, 0)
        assert test_of(np.log(f(points)), predicted).survived == survived
    nothing = test_of(np.zeros(4), np.full((4, 2), np.nan))
    assert (nothing.count, nothing.survived, nothing.variance) == (0, False, 0.0)


def test_the_bound_is_attained_where_one_density_is_a_multiple_of_the_other():
    """f = 2 m: d = 1 / 3, and the logarithms of the integrals differ by ln 2 = 2 artanh(1 / 3)."""
    predicted = np.column_stack([np.zeros(10), np.linspace(-3, 1, 10)])
    found = test_of(np.full(10, np.log(2)), predicted)
    assert found.differs == pytest.approx(1 / 3)
    assert np.log1p(found.variance) == pytest.approx(np.log(2) ** 2)


def test_the_density_of_points_of_the_answer_widened():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 2.0, -0.7], [0.0, 0.0, 0.1]])
    spread = Spread.of(points, np.full(500, 1 / 500))
    shape = WIDENING.wider**2 * np.cov(points.T, bias=True)
    x = points[:5] * 3
    expected = multivariate_t(spread.median, shape, df=WIDENING.freedom).logpdf(x)
    np.testing.assert_allclose(spread.log_density(x), expected, rtol=1e-9)


def test_a_spike_at_the_centre_of_the_measure_is_seen():
    """A narrow Gaussian of 2/3 of the mass, that nodes of the sequence alone seldom show."""
    for seed in range(4):
        dimension = 1 + seed % 3
        measure = gp.measures.Gaussian(np.zeros(dimension), np.eye(dimension))

        def log_f(x, d=dimension):
            squares = np.sum((x - 0.01) ** 2, axis=1)
            return np.logaddexp(0.0, np.log(2.0) - d * np.log(0.04) - 0.5 * squares / 0.04**2 + 0.5 * squares)

        found = bqvi.integrate(log_f, measure, 50 + 20 * dimension, log=True, seed=seed)
        error = abs(found.log_mean - np.log(3))
        assert error < max(3 * found.log_sd, 0.1)
        assert error < 0.1 or not found.credible


def test_a_run_that_was_interrupted_has_the_same_predictions(tmp_path):
    def log_f(x):
        return -0.5 * np.sum((x - 0.5) ** 2, axis=1) / 0.6**2

    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    whole = bqvi.integrate(log_f, measure, 60, log=True)
    steps = bqvi.integrate.steps(log_f, measure, 60, log=True)
    for state in steps:
        if len(state) > 25:
            break
    steps.result().save(tmp_path / "run")
    again = bqvi.integrate(log_f, measure, 60, log=True, resume=tmp_path / "run")
    np.testing.assert_array_equal(again.state.predicted, whole.state.predicted)
    assert (again.log_mean, again.log_sd) == (whole.log_mean, whole.log_sd)
    assert np.sum(~np.isnan(whole.state.predicted[:, 0])) >= 10


def test_without_a_test_nothing_is_credible():
    def log_f(x):
        return -0.1 * np.sum(x**2, axis=1)

    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    assert not bqvi.integrate(log_f, measure, 8, log=True).credible
    assert bqvi.integrate(log_f, measure, 60, log=True).credible


def test_one_at_a_time_some_nodes_are_tests_too():
    def log_f(x):
        return -0.1 * np.sum(x**2, axis=1)

    found = bqvi.integrate(log_f, LINE, 40, log=True, batch=1)
    assert 5 <= np.sum(~np.isnan(found.state.predicted[:, 0])) <= 10
    assert found.credible
