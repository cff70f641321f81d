"""Runs that begin with the search of a plausible box: closed-form boxes, counted calls, resumed searches."""

from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp

import bqvi
from bqvi.adapters import from_function
from bqvi.calls import Caller, Evaluations, Function, make_coordinates
from bqvi.calls.plausible_search import PlausibleBoxSearch
from bqvi.calls.settings import PLAUSIBLE
from bqvi.runs import RunError
from gp.measures import Gaussian

MEAN, SDS = np.array([12.0, -0.3]), np.array([5.0, 0.02])
PRECISION = np.linalg.inv(np.diag(SDS) @ np.array([[1.0, 0.8], [0.8, 1.0]]) @ np.diag(SDS))
LOG_VOLUME = 0.5 * np.linalg.slogdet(2.0 * np.pi * np.linalg.inv(PRECISION))[1]


def gaussian(theta):
    gap = theta - MEAN
    return -0.5 * float(gap @ PRECISION @ gap) - LOG_VOLUME


def slope(theta):
    return -PRECISION @ (theta - MEAN)


def search(value, gradient, dimension, most=200, seed=0, wide=None):
    """The box found from a first box of 2 to either side of 0, and the evaluations."""
    calls = []

    def counted(theta):
        calls.append(theta)
        return value(theta)

    coordinates = make_coordinates(None, None, -2.0, 2.0, dimension=dimension)
    caller = Caller(Function(counted, gradient), coordinates)
    held = [Evaluations.none(dimension)]

    def evaluate(points):
        if len(calls) + len(points) > most:
            return None
        held[0] = held[0].joined(caller.evaluate(points))
        return held[0]

    found = PlausibleBoxSearch(held[0], evaluate, np.zeros(dimension), seed, wide=wide).run()
    assert len(calls) <= most
    return coordinates.to_user(np.stack(found)), len(calls)


def test_the_box_of_a_gaussian_with_gradients_is_that_of_its_marginals():
    (lower, upper), count = search(gaussian, slope, 2, seed=1)
    np.testing.assert_allclose(0.5 * (upper - lower), PLAUSIBLE.half_width * SDS, rtol=1e-6)
    assert (np.abs(0.5 * (lower + upper) - MEAN) < SDS).all()
    assert count < 40


def test_by_values_it_is_that_of_its_conditionals():
    sds = np.array([0.4, 3.0])
    (lower, upper), count = search(lambda theta: -0.5 * float((((theta - 1.5) / sds) ** 2).sum()), None, 2)
    np.testing.assert_allclose(0.5 * (upper - lower), PLAUSIBLE.half_width * sds, rtol=1e-6)
    assert (np.abs(0.5 * (lower + upper) - 1.5) < sds).all()
    assert count < 50


@pytest.mark.parametrize("beyond", [-0.1, 0.1])
def test_a_further_mode_is_in_the_box_unless_it_is_too_low(beyond):
    """Up to D / 2 + `relevant` nats below the first; modes at -1 and 1 with standard deviations .5, D = 4."""
    depth = 2.0 + 7.0 + beyond

    def logs(theta):
        return [-2.0 * float(((theta - 1.0) ** 2).sum()), -depth - 2.0 * float(((theta + 1.0) ** 2).sum())]

    def slopes(theta):
        share = np.exp(logs(theta)[0] - logsumexp(logs(theta)))
        return -4.0 * (share * (theta - 1.0) + (1.0 - share) * (theta + 1.0))

    for seed in range(5):
        (lower, _), _ = search(lambda theta: float(logsumexp(logs(theta))), slopes, 4, seed=seed)
        assert (lower < -1.0).all() == (beyond < 0.0)


def improper(theta):
    return 0.0


def half(theta):
    return -np.inf if theta[0] < 1.0 else -0.5 * float(((theta - 1.5) ** 2).sum())


def funnel(theta):
    return -0.5 * theta[0] ** 2 / 9.0 - 0.5 * float((theta[1:] ** 2).sum()) * np.exp(-theta[0]) - theta[0]


def two_modes(theta):
    return float(np.logaddexp(*(-0.5 * ((theta - c) ** 2).sum() / 0.04 for c in (-1.0, 1.0))))


@pytest.mark.parametrize("value", [improper, half, funnel, two_modes])
def test_where_a_mode_does_not_tell_the_box_holds_what_else_was_found(value):
    (lower, upper), _ = search(value, None, 3 if value is funnel else 2)
    inside = {half: 1.5 * np.ones(2), two_modes: np.ones(2), funnel: 0.8 * np.ones(3)}.get(value, 1.99)
    assert (lower < inside).all()
    assert (inside < upper).all()
    if value is not half:
        assert (lower < -inside).all()


@pytest.mark.parametrize("most", [1, 7, 15])
def test_a_search_that_is_cut_short_gives_a_box(most):
    (lower, upper), _ = search(gaussian, None, 2, most)
    assert (lower < upper).all()


def test_where_the_log_joint_is_finite_nowhere_the_box_is_that_of_the_prior():
    wide = np.array([[-3.0, 5.0], [2.0, 7.0]])
    for value, expected in ((lambda theta: -np.inf, 2.0 * wide), (improper, None)):
        box, _ = search(value, None, 2, wide=wide)
        if expected is not None:
            np.testing.assert_array_equal(box, expected)
        else:
            np.testing.assert_array_equal(box, search(value, None, 2)[0])


def test_every_evaluation_counts_and_a_search_that_failed_is_resumed(tmp_path):
    calls, broken = [], [True]

    def counted(theta):
        if broken[0] and len(calls) == 9:
            raise NameError("a mistake")
        calls.append(theta.copy())
        return gaussian(theta)

    model = from_function(counted, 2, gradient=slope)
    choices, run = {"budget": 30, "seed": 3}, bqvi.integrate
    with pytest.raises(RunError, match="a mistake") as error:
        run(model, **choices)
    assert error.value.n_evaluations == 9
    with pytest.raises(ValueError, match="ended in its search for a plausible box"):
        error.value.result()
    broken[0] = False
    error.value.save(tmp_path / "run.npz")
    found = run(model, resume=tmp_path / "run.npz", **choices)
    assert found.n_evaluations == len(calls) == 30
    assert len({call.tobytes() for call in calls}) == 30
    assert abs(found.log_mean) < 3.0 * found.log_sd
    whole = run(model, **choices)
    assert whole.log_mean == found.log_mean
    found.save(tmp_path / "run.npz")
    longer = run(model, resume=tmp_path / "run.npz", **{**choices, "budget": 34}, run=bqvi.Run(verify=2))
    assert longer.n_evaluations <= 34
    settings = longer.checkpoint.settings
    assert settings["plausible_lower"] == whole.checkpoint.settings["plausible_lower"]


def test_all_evaluations_of_a_search_count_where_the_run_takes_some():
    """In twenty dimensions a run begins with 71 rows with gradients; the search makes more."""
    calls, precision = [], np.logspace(0.0, 3.0, 20)

    def both(theta):
        calls.append(theta)
        return -0.5 * float(precision @ (theta - 1.0) ** 2), -precision * (theta - 1.0)

    model = from_function(lambda theta: both(theta)[0], 20, log_joint_and_gradient=both)
    found = bqvi.fit(model, method="bq", budget=220, seed=0)
    assert found.n_evaluations == len(calls) <= 220


def counted_regression():
    """A log joint with a normal likelihood of unknown scale, its gradient and evidence by a sum; calls."""
    x, calls = np.linspace(-1.0, 1.0, 12), []
    y = 0.7 + 1.3 * x + 0.3 * np.cos(7.0 * x)

    def both(theta):
        calls.append(theta.copy())
        slope, log_scale = theta
        residual = (y - slope * x) / np.exp(log_scale)
        value = -0.5 * float(theta @ theta) - 0.5 * float(residual @ residual) - len(x) * log_scale
        gradient = [float(residual @ x) / np.exp(log_scale), float(residual @ residual) - len(x)]
        return value, np.array(gradient) - theta

    model = from_function(lambda theta: both(theta)[0], 2, log_joint_and_gradient=both)
    grid = np.linspace(-6.0, 6.0, 601)
    values = np.array([[both(np.array([a, b]))[0] for b in grid[250:400]] for a in grid])
    evidence = logsumexp(values) + 2.0 * np.log(grid[1] - grid[0])
    calls.clear()
    return model, evidence, calls


@pytest.mark.parametrize("gradient", [True, False])
def test_quadrature_of_a_model_without_a_box_begins_with_the_search_of_one(gradient, tmp_path):
    """The integral over the prior's box has an error of nats with as many evaluations."""
    model, evidence, calls = counted_regression()
    model = model if gradient else model.without_gradient()
    found = bqvi.integrate(model, budget=90, seed=0)
    assert found.n_evaluations == len(calls) == 90
    assert abs(found.log_mean - evidence) < min(3.0 * found.log_sd, 0.3)
    found.save(tmp_path / "run.npz")
    longer = bqvi.integrate(model, budget=95, seed=0, resume=tmp_path / "run.npz")
    assert longer.n_evaluations == len(calls) == 95
    assert abs(longer.log_mean - evidence) < min(3.0 * longer.log_sd, 0.3)


def test_a_budget_without_room_for_a_search_is_spent_in_the_first_box():
    model, _, calls = counted_regression()
    for door in (bqvi.integrate, partial(bqvi.fit, method="bq")):
        calls.clear()
        assert door(model, budget=12, seed=0).n_evaluations == len(calls) <= 12


def test_quadrature_whose_measure_or_draws_were_chosen_searches_nothing():
    model, _, _ = counted_regression()
    for choices in ({"measure": Gaussian(np.zeros(2), np.eye(2))}, {"method": "qmc"}):
        found = bqvi.integrate(model, budget=40, seed=0, **choices)
        assert "plausible_lower" not in found.checkpoint.settings


@pytest.mark.parametrize("multiple", [0.5, 3, -1])
def test_a_wrong_gradient_ends_a_run_that_began_with_a_search(multiple):
    model = from_function(gaussian, 2, gradient=lambda theta: multiple * slope(theta))
    with pytest.raises(RunError, match=f"the gradient is {multiple} times that of the values"):
        bqvi.fit(model, method="bq", budget=60)


def test_a_run_whose_gradient_disagrees_with_its_values_has_not_converged():
    """The search jumps to the mode, and too few differences lie on one side of it for an error."""
    model = from_function(gaussian, 2, gradient=lambda theta: 2 * slope(theta))
    message = "the gradient is 2 times that of the values"
    with pytest.warns(UserWarning, match=message):
        found = bqvi.fit(model, method="bq", budget=60)
    assert not found.converged
    assert any(message in reason for reason in found.reasons)


def test_bad_arguments_are_named_before_the_search():
    with pytest.raises(ValueError, match="budget is -1"):
        bqvi.fit.steps(from_function(gaussian, 2, gradient=slope), method="bq", budget=-1)


def test_a_fit_that_is_asked_begins_around_the_start():
    theta = bqvi.fit.steps(from_function(gaussian, 2, gradient=slope), method="bq", budget=10).ask(2)
    assert theta.shape == (2, 2)
    assert (np.abs(theta) < 6.0).all()


def test_a_box_that_is_given_or_of_the_prior_is_not_searched():
    model = from_function(gaussian, 2, gradient=slope, plausible_lower=-1.0, plausible_upper=1.0)
    assert "plausible_lower" not in bqvi.integrate(model, budget=10).checkpoint.settings


def test_a_start_alone_is_enough_for_vbmc():
    found = bqvi.vbmc(gaussian, start=[0.0, 0.0], gradient=slope, budget=40)
    assert abs(found.log_evidence) < 3.0 * found.log_evidence_sd
    theirs = bqvi.vbmc.steps(gaussian, None, None, [-2.0, -2.0], [2.0, 2.0], [0.0, 0.0])
    np.testing.assert_array_equal(bqvi.vbmc.steps(gaussian, start=[0.0, 0.0]).ask(5), theirs.ask(5))
