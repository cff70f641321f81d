"""The user's log joint: the density of the coordinates by quadrature, faults, interrupts, batches."""

import math
import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import bqvi
from bqvi.calls import (
    HERE,
    Caller,
    EvaluationError,
    Evaluations,
    Function,
    Ledger,
    make_coordinates,
)
from bqvi.calls.given import given


def box(**more):
    return make_coordinates([0.0, -np.inf], [4.0, np.inf], [0.5, -3.0], [3.0, 3.0], **more)


def target(log_joint, coordinates, run=HERE, **more):
    return Caller(Function(log_joint, names=coordinates.names, **more), coordinates, run)


def density(theta):
    """log of x e^-y^2 on [0, 4] x R."""
    return math.log(theta[0]) - theta[1] ** 2


def density_gradient(theta):
    return np.array([1.0 / theta[0], -2.0 * theta[1]])


POINTS = np.random.default_rng(0).standard_normal((6, 2))


def test_failed_gradient_keeps_the_value():
    def broken(theta):
        if theta[0] > 2.0:
            raise ValueError("no")
        return density_gradient(theta)

    made = target(density, box(), gradient=broken)
    theta = np.array([[1.0, 0.0], [3.0, 0.0]])
    found = made.evaluate(made.coordinates.from_user(theta))
    assert not found.failed.any()
    assert np.isfinite(found.gradients[0]).all()
    assert np.isnan(found.gradients[1]).all()
    assert "raised ValueError: no" in found.reasons[1]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(2), r"shape \(2,\)"),
        (1.0 + 2.0j, "real number"),
        ("three", "real number"),
        (None, "real number"),
        (math.inf, "joint is inf"),
        (1e200, "must be finite"),
        ((1.0, 2.0, 3.0), "tuple of 3"),
        ((1.0, -2.0), "sd"),
        ((1.0, (1.0, 2.0)), "sd"),
    ],
)
def test_no_log_density(returned, message):
    calls = []

    def function(theta):
        calls.append(theta)
        return returned if len(calls) == 3 else 0.5

    with pytest.raises(EvaluationError, match=message) as caught:
        target(function, box()).evaluate(POINTS)
    assert len(calls) == 3  # no further evaluation was spent
    assert len(caught.value.evaluations) == 2
    assert "x0 = " in str(caught.value)


def test_gradient_of_a_wrong_shape():
    with pytest.raises(EvaluationError, match=r"gradient returned .* must be \(2,\)"):
        target(density, box(), gradient=lambda theta: np.zeros(3)).evaluate(POINTS)


def test_no_torch_in_an_autodiff_target():
    calls = []
    with pytest.raises(EvaluationError, match="needs a torch function") as caught:
        target(lambda theta: calls.append(theta) or 1.0, box(), gradient="autodiff").evaluate(POINTS)
    assert len(calls) == 1
    assert len(caught.value.evaluations) == 0


def test_noise():
    exact = target(density, box()).evaluate(POINTS)
    assert exact.noise_variance is None
    known = target(density, box(), noise_sd=2.0).evaluate(POINTS)
    np.testing.assert_array_equal(known.noise_variance, 4.0)
    told = target(lambda t: (density(t), t[0]), box()).evaluate(POINTS)
    np.testing.assert_allclose(told.noise_variance, box().to_user(POINTS)[:, 0] ** 2)
    np.testing.assert_array_equal(told.values, exact.values)
    unknown = target(density, box(), noise_sd="unknown")
    assert unknown.noise_unknown
    assert unknown.evaluate(POINTS).noise_variance is None


def test_noise_of_gradients_is_pulled_back_as_they_are():
    """The noise of one entry is compared with the change that this noise makes in the gradient."""
    sds = np.array([0.5, 2.0])
    found = target(density, box(), gradient=density_gradient, gradient_noise_sd=sds).evaluate(POINTS)
    moved = target(density, box(), gradient=lambda t: density_gradient(t) + sds).evaluate(POINTS)
    np.testing.assert_allclose(found.gradient_noise_variance, (moved.gradients - found.gradients) ** 2)
    both = found.joined(target(density, box(), gradient=density_gradient).evaluate(POINTS))
    np.testing.assert_array_equal(both[: len(found)].gradient_noise_variance, found.gradient_noise_variance)
    assert np.isnan(both[len(found) :].gradient_noise_variance).all()


def test_interrupt_with_joblib_keeps_the_results_that_returned_before_a_slow_point():
    """The first point waits until all others are in the ledger, or for half a minute if they are not."""
    import joblib

    others_are_kept = threading.Event()

    def function(theta):
        if theta[0] == POINTS[0, 0]:
            others_are_kept.wait(30.0)
        return -0.5 * float(theta @ theta)

    def interrupt():
        if len(ledger.entries()) == len(POINTS) - 1:
            others_are_kept.set()
            raise KeyboardInterrupt

    ledger = Ledger(2)
    ledger.on_return = interrupt
    with joblib.parallel_backend("threading"), pytest.raises(KeyboardInterrupt):
        Caller(Function(function), run=bqvi.Run(n_jobs=2)).evaluate(POINTS, ledger)
    kept = ledger.take()
    np.testing.assert_array_equal(kept.points, POINTS[1:])
    np.testing.assert_array_equal(kept.values, [-0.5 * float(x @ x) for x in POINTS[1:]])


def test_processes_need_functions_that_can_be_pickled():
    with ProcessPoolExecutor(1) as pool:
        found = target(density, box(), run=bqvi.Run(executor=pool)).evaluate(POINTS)
        np.testing.assert_array_equal(found.values, target(density, box()).evaluate(POINTS).values)
        with pytest.raises(EvaluationError, match="pickled"):
            target(lambda theta: 0.0, box(), run=bqvi.Run(executor=pool)).evaluate(POINTS)


def test_user_function_cannot_change_the_points():
    def vandal(theta):
        theta[:] = 1.0
        return 0.0

    before = POINTS.copy()
    found = target(vandal, box()).evaluate(POINTS)
    np.testing.assert_array_equal(POINTS, before)
    np.testing.assert_allclose(found.values, box().log_jacobian(POINTS))


def test_evaluations_made_before():
    made = target(density, box(), gradient=density_gradient)
    theta = made.coordinates.to_user(POINTS)
    fresh = made.evaluate(POINTS)
    known = given(made, theta, [density(t) for t in theta], [density_gradient(t) for t in theta])
    np.testing.assert_allclose(known.points, fresh.points, atol=1e-12)
    np.testing.assert_allclose(known.values, fresh.values, rtol=1e-12)
    np.testing.assert_allclose(known.gradients, fresh.gradients, rtol=1e-9)
    both = fresh[:2].joined(given(made, theta[2:], [-np.inf] * 4))
    assert both.failed.tolist() == [False] * 2 + [True] * 4
    assert np.isnan(both.gradients[2:]).all()
    assert len(Evaluations.none(2).joined(fresh)) == 6
    assert Evaluations.none(2).joined(fresh).gradients is fresh.gradients or np.array_equal(
        Evaluations.none(2).joined(fresh).gradients, fresh.gradients
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[5.0, 0.0]], [0.0]), "strictly between 0 and 4"),
        (([[1.0, 0.0]], [0.0, 1.0]), "values has shape"),
        (([[1.0, 0.0]], [np.inf]), "below inf"),
        (([[1.0, 0.0]], [0.0], [[1.0]]), "gradients has shape"),
        (([[1.0, 0.0]], [0.0], None, -1.0), "must be positive"),
    ],
)
def test_bad_evaluations_made_before(arguments, message):
    with pytest.raises(ValueError, match=message):
        given(target(density, box()), *arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"log_joint": 3}, TypeError, "log_joint is 3"),
        ({"gradient": "auto"}, ValueError, "gradient is 'auto'"),
        ({"noise_sd": "some"}, ValueError, "noise_sd is 'some'"),
        ({"noise_sd": 0.0}, ValueError, "noise_sd"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        target(**{"log_joint": density, "coordinates": box(), **arguments})
