"""The search for Laplace's Gaussian with which runs begin: closed forms and counted calls."""

import numpy as np
import pytest

import bqvi
from bqvi.adapters import TargetModel
from bqvi.calls import Caller, Evaluations, Function
from bqvi.calls.climb import LaplaceSearch
from bqvi.calls.settings import LAPLACE
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


def search(value, gradient, dimension):
    """Laplace's mode and covariance from a start at 0, and the number of evaluations."""
    caller = Caller(Function(value, gradient))
    held = [Evaluations.none(dimension)]

    def evaluate(points):
        held[0] = held[0].joined(caller.evaluate(points))
        return held[0]

    mode, covariance = LaplaceSearch(held[0], evaluate, np.zeros(dimension)).laplace(np.inf)
    return mode, covariance, len(held[0])


def test_of_a_gaussian_with_gradients_it_is_the_gaussian():
    mode, covariance, count = search(gaussian, slope, 2)
    np.testing.assert_allclose(covariance, np.linalg.inv(PRECISION), rtol=1e-6)
    gap = mode - MEAN
    assert 0.5 * gap @ PRECISION @ gap < LAPLACE.gain
    assert count < 40


def test_by_values_it_has_the_mode_and_the_variance_of_an_isotropic_gaussian():
    """The curvature is a regression on the values of the climb, towards a multiple of I."""
    mode, covariance, count = search(lambda t: -0.5 * float((((t - 1.5) / 0.4) ** 2).sum()), None, 2)
    np.testing.assert_allclose(covariance, 0.16 * np.eye(2), atol=1e-3)
    assert (np.abs(mode - 1.5) < 0.4).all()
    assert count < 50


def test_where_the_start_fails_points_around_it_are_tried():
    def half(theta):
        return -np.inf if theta[0] < 0.5 else -0.5 * float(((theta - 1.5) ** 2).sum())

    mode, covariance, _ = search(half, None, 2)
    assert mode[0] > 0.5
    np.testing.assert_allclose(covariance, np.eye(2), atol=1e-3)
    assert search(lambda theta: -np.inf, None, 2)[1].tolist() == np.eye(2).tolist()


def test_quadrature_of_a_model_whose_box_is_a_guess_asks_for_a_measure():
    """The integral over such a box has an error of nats."""
    model = TargetModel(gaussian, 2)
    with pytest.raises(ValueError, match="measure is None, and the plausible box of the model is a guess"):
        bqvi.integrate(model, budget=30)
    near = Gaussian(MEAN, 1.5 * np.linalg.inv(PRECISION))
    found = bqvi.integrate(model, near, budget=40, seed=0)
    assert abs(found.log_mean) < 3.0 * found.log_sd + 1e-3
    boxed = TargetModel(gaussian, 2, plausible_lower=MEAN - 2 * SDS, plausible_upper=MEAN + 2 * SDS)
    assert abs(bqvi.integrate(boxed, budget=60, seed=0).log_mean) < 0.1


@pytest.mark.parametrize("multiple", [0.5, 3, -1])
def test_a_wrong_gradient_ends_a_run_that_began_with_a_search(multiple):
    model = TargetModel(gaussian, 2, lambda t: (gaussian(t), multiple * slope(t)))
    with pytest.raises(RunError, match=f"the gradient is {multiple} times that of the values"):
        bqvi.fit(model, method="bq", budget=60)


def test_a_run_whose_gradient_disagrees_with_its_values_has_not_converged():
    """The search jumps to the mode, and too few differences lie on one side of it for an error."""
    model = TargetModel(gaussian, 2, lambda t: (gaussian(t), 2 * slope(t)))
    message = "the gradient is 2 times that of the values"
    with pytest.warns(UserWarning, match=message):
        found = bqvi.fit(model, method="bq", budget=60)
    assert not found.converged
    assert any(message in reason for reason in found.reasons)
