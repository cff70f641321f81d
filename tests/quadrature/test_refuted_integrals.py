"""Evaluations that could refute an answer: the error by them, and what it decides."""

import numpy as np
import pytest
from scipy.stats import f as f_distribution
from scipy.stats import multivariate_t, norm

import bqvi
import gp
from bqvi.importance import WIDENING, Spread
from bqvi.quadrature.credibility import Answer, test_of
from bqvi.quadrature.rises import Rises
from bqvi.quadrature.surrogate import SMOOTH, StandardData, identity, surrogate
from gp.low_discrepancy import scrambled_sobol

test_of.__test__ = False  # a function of the library whose name is that of a test

LINE = gp.measures.Gaussian(np.zeros(1), np.eye(1))


def f(u):
    return np.exp(-0.5 * (u[:, 0] - 0.6) ** 2 / 0.3**2) + 0.3


def answer(u, unit=2.0, level=0.25, factors=1.0):
    """That of a process of (f / unit - level), from its values at u."""
    values = (factors * f(u) / unit - level)[:, None]
    member = surrogate("test", identity(LINE), SMOOTH, StandardData(u, values), np.array([-0.5, -9.0]))
    return Answer(member, LINE, level, float(np.log(unit)))


def test_tests_are_draws_of_the_density_in_their_weights():
    """The average of w h is the integral of h p, p truncated where the measure has no mass."""
    ours, found = answer(np.linspace(-2.0, 2.0, 6)[:, None]), []
    for seed in range(200):
        points, log_weights = ours.tests(10, seed)
        found.append(np.mean(np.exp(log_weights) * f(points)))
    grid = np.linspace(-8, 8, 20_001)[:, None]
    truth = float(np.sum(f(grid) * norm.pdf(grid[:, 0])) * (grid[1, 0] - grid[0, 0]))
    # 4 standard errors, and a hundredth for the constant of the tempered density
    assert np.mean(found) == pytest.approx(truth, abs=4 * np.std(found) / np.sqrt(200) + 0.01 * truth)


@pytest.mark.parametrize("tested", [np.array([5, 6, 7]), np.array([0])])
def test_the_error_is_that_of_a_control_variate_refitted_without_each_test(tested):
    u = np.linspace(-2.0, 2.0, 8)[:, None]
    ours, log_weights = answer(u), np.full(8, np.nan)
    log_weights[tested] = np.linspace(-1.0, 0.5, len(tested))
    found = test_of(ours, log_weights, np.log(0.7))
    errors = []
    for i in tested:
        log_m, _ = answer(np.delete(u, i, axis=0)).logs(u[[i]])
        errors.append(np.exp(log_weights[i]) * (f(u[[i]])[0] - np.exp(log_m[0])))
    expected = np.log1p(np.sqrt(np.sum(np.square(errors))) / len(tested) / 0.7)
    assert found.count == len(tested)
    assert found.error == pytest.approx(expected, rel=1e-6)
    assert np.arcsinh(found.sd) == pytest.approx(expected)


def test_the_density_of_points_of_the_answer_widened():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 2.0, -0.7], [0.0, 0.0, 0.1]])
    spread = Spread.of(points, np.full(500, 1 / 500))
    shape = WIDENING.wider**2 * np.cov(points.T, bias=True)
    x = points[:5] * 3
    expected = multivariate_t(spread.median, shape, df=WIDENING.freedom).logpdf(x)
    np.testing.assert_allclose(spread.log_density(x), expected, rtol=1e-9)


def test_a_run_that_was_interrupted_has_the_same_tests(tmp_path):
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
    np.testing.assert_array_equal(again.state.log_weights, whole.state.log_weights)
    assert (again.log_mean, again.log_sd) == (whole.log_mean, whole.log_sd)
    assert np.sum(~np.isnan(whole.state.log_weights)) == 15


def test_without_a_test_nothing_is_credible():
    def log_f(x):
        return -0.1 * np.sum(x**2, axis=1)

    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    assert not bqvi.integrate(log_f, measure, 8, log=True).converged
    assert bqvi.integrate(log_f, measure, 60, log=True).converged


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("degrees", [1.0, 2.0, 3.5])
def test_the_share_of_a_student_t_beyond_the_nodes_is_that_of_its_distribution(dimension, degrees):
    """|x|^2 / D of Student's t is an F variable; where 80 nodes determine little, D = 3, less is seen."""
    measure = gp.measures.Gaussian(np.zeros(dimension), 4.0 * np.eye(dimension)).standardise().measure
    u = measure.from_unit_cube(scrambled_sobol(dimension, 80, seed=1))
    log_t = multivariate_t.logpdf(2.0 * u, np.zeros(dimension), np.eye(dimension), df=degrees)
    logs = log_t + dimension * np.log(2.0) - norm.logpdf(u).sum(axis=1)
    reached = 4.0 * np.quantile(np.sum(u**2, axis=1), 0.9)
    share = f_distribution(dimension, degrees).sf(reached / dimension)
    least = 0.6 if dimension < 3 else 0.4
    assert least < Rises.of(measure, u, logs).beyond(0.0) / share < 1.3
    box = gp.measures.Uniform(-3.0 * np.ones(dimension), 3.0 * np.ones(dimension))
    assert Rises.of(box, u.clip(-3, 3), logs).beyond(0.0) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_the_sd_of_a_cauchy_posterior_contains_the_tails_that_the_measure_does_not_reach(seed):
    """Three scales to a side: a tenth and more of the posterior lies where no node can."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-0.3, 0.3, 2)
    measure = gp.measures.Gaussian(np.zeros(2), 1.5**2 * np.eye(2))

    def log_quotient(x):
        return multivariate_t.logpdf(x, centre, np.eye(2), df=1) - norm.logpdf(x, 0, 1.5).sum(axis=1)

    found = bqvi.integrate(log_quotient, measure, 90, log=True, seed=seed)
    assert found.log_mean < -0.1
    assert abs(found.log_mean) < 2 * found.log_sd
