"""Arguments that random misuse of the three doors found to end in an error of another package."""

import numpy as np
import pytest
import torch

import bqvi
import bqvi.sklearn
import gp
from bqvi.calls import EvaluationError, Evaluations
from bqvi.calls.given import selected
from gp.measures import Uniform

RAGGED = [[1, 2], [3]]
ARRAY = np.array([True, False])


def integrate(**given):
    return bqvi.integrate(lambda x: x.sum(axis=1), Uniform(0.0, 1.0), 12, **given)


def fit(**given):
    return bqvi.fit(bqvi.models.LogJoint(lambda t: -float(t @ t), 2, gradient=None, **given), method="bq")


def vbmc(**given):
    box = {"plausible_lower": [-1.0], "plausible_upper": [1.0]}
    return bqvi.vbmc(lambda t: -float(t @ t), **(box | {"budget": 8} | given))


def fit_bq(**given):
    names = ("lower", "upper", "plausible_lower", "plausible_upper", "periodic")
    posed = {name: given.pop(name) for name in names if name in given}
    log_joint = bqvi.models.LogJoint(lambda t: -float(t @ t), 2, gradient=None, vectorised=False, **posed)
    return bqvi.fit(log_joint, **({"method": "bq", "budget": 9} | given))


def gp_fit(**given):
    data = {"x": np.linspace(0.0, 1.0, 8)[:, None], "y": np.arange(8.0) % 3}
    return gp.fit(**(data | {"n_starts": 1, "max_iterations": 5} | given))


def mixture(**given):
    found = bqvi.sklearn.BayesianGaussianMixture(**({"n_components": 2, "max_iter": 3} | given))
    return found.fit(np.random.default_rng(0).normal(size=(12, 2)))


@pytest.mark.parametrize(
    ("door", "given", "message"),
    [
        (integrate, {"gradient": ARRAY}, "gradient is array"),
        (fit, {"vectorised": ARRAY}, "vectorised is array"),
        (vbmc, {"design": bqvi.Design(acquisition=ARRAY)}, "design.acquisition is array"),
        (vbmc, {"plausible_lower": RAGGED}, "plausible_lower is .*rows differ"),
        (vbmc, {"plausible_lower": np.array([1j])}, "plausible_lower is array"),
        (vbmc, {"lower": 3.0}, "x0 has plausible_lower = -1 .* outside of its bounds, lower = 3"),
        (vbmc, {"lower": np.nan}, "x0 has lower = nan"),
        (vbmc, {"noise_sd": 1e308}, "noise_sd is 1e.308; its square"),
        (vbmc, {"tolerance": 10**400}, "tolerance is 1000"),
        (fit_bq, {"resume": "."}, "is a folder, and no saved run"),
        (fit_bq, {"lower": [0.0, np.inf], "upper": np.inf}, "x1 has lower and upper both at inf"),
        (fit_bq, {"plausible_upper": torch.zeros(3, requires_grad=True)}, "plausible_upper"),
        (fit_bq, {"periodic": RAGGED}, "periodic is "),
        (fit_bq, {"periodic": None}, "periodic is None"),
        (fit_bq, {"method": np.zeros(0)}, "method is array"),
        (fit_bq, {"record": np.zeros(())}, "record is array"),
        (
            fit_bq,
            {"evaluations": (np.zeros((3, 1)), np.zeros(3))},
            r"evaluations' theta has shape \(3, 1\)",
        ),
        (gp_fit, {"seed": {"a": 1}}, "seed is {'a': 1}"),
        (gp_fit, {"seed": -1}, "seed is -1"),
        (gp_fit, {"n_starts": "bq"}, "n_starts is 'bq'"),
        (gp_fit, {"kernel": gp.kernels.Matern52}, "kernel = <class"),
        (gp_fit, {"x": RAGGED}, "x cannot be read as an array"),
        (gp_fit, {"x": 1e200 * np.arange(8.0)[:, None]}, "x has a spread of"),
        (mixture, {"max_iter": True}, "max_iter is True"),
        (mixture, {"random_state": -1}, "random_state is -1"),
    ],
)
def test_the_argument_is_named(door, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        door(**given)


def test_what_is_no_log_density_stops_a_run_of_several_starts():
    calls = []

    def log_joint(theta):
        calls.append(theta)
        return -float(theta @ theta) if len(calls) < 7 else "seven"

    model = bqvi.models.LogJoint(log_joint, 2, gradient=None, vectorised=False)
    with pytest.raises(bqvi.RunError, match="returned") as caught:
        bqvi.fit(model, method="bq", budget=20, starts=2, start_from="random")
    assert len(calls) == 7
    assert caught.value.n_evaluations == 6


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_pair_of_value_and_noise_is_no_pair_of_outputs(vectorised):
    def pair(x):
        return np.sum(x, axis=-1), 0.1 + 0.0 * np.sum(x, axis=-1)

    with pytest.raises(bqvi.RunError, match=r"returned a tuple of 2 .* its noise is stated by noise_sd"):
        bqvi.integrate(pair, Uniform(0.0, 1.0), 12, vectorised=vectorised)


NOWHERE = np.array([[0.5], [np.nan]])


@pytest.mark.parametrize(
    ("door", "points"), [(integrate, NOWHERE), (vbmc, NOWHERE), (fit_bq, np.repeat(NOWHERE, 2, axis=1))]
)
def test_evaluations_at_no_point_are_named_before_work(door, points):
    with pytest.raises(ValueError, match="evaluations has no points: theta is"):
        door(evaluations=(points[:0], np.zeros(0)))
    with pytest.raises(ValueError, match=r"evaluations' theta is nan in row 1.*must be finite"):
        door(evaluations=(points, np.zeros(2)))


@pytest.mark.parametrize("door", [integrate, vbmc, fit_bq])
def test_a_point_with_two_exact_values_is_refused(door):
    """Values that differ by rounding are no contradiction."""
    points = np.array([[0.1, 0.2], [0.4, 0.3], [0.1, 0.2]])
    if door is not fit_bq:
        points = points[:, :1]
    values = np.array([-0.3, -0.7, -0.9])
    with pytest.raises(ValueError, match=r"two values, -0.3 and -0.9, for one point, in rows 0 and 2"):
        door(evaluations=(points, values))
    points, values = np.array([[0.1], [0.4], [0.1]]), np.array([-0.3, -0.7, -0.3 - 1e-9])
    rows = Evaluations(points, values, None, None, np.zeros(3, bool), ("",) * 3)
    assert len(selected(rows)) == 3


def test_a_masked_number_is_no_zero():
    with pytest.raises(bqvi.RunError, match="the integrand is nan"):
        bqvi.integrate(lambda x: np.ma.masked, Uniform(0.0, 1.0), 12, vectorised=False)
    both = bqvi.integrate(
        lambda x: np.ma.masked_greater(x[:, 0], 0.5), Uniform(0.0, 1.0), 12, run=bqvi.Run(errors="infeasible")
    )
    assert 0.05 < both.mean < 0.2  # of x up to .5, and 0 beyond: 1 / 8


def test_a_run_without_evaluations_says_so():
    with pytest.raises(EvaluationError, match="no evaluation has been made yet"):
        bqvi.vbmc.steps(
            lambda t: -float(t @ t), plausible_lower=[-1.0], plausible_upper=[1.0], budget=8
        ).result()
