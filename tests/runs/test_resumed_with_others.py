"""A run is resumed with the problem that it was begun with, or refused before any call, its argument named.

Evaluations under one measure, averaged as if they were under another, are the integral of neither.
"""

import numpy as np
import pytest

import bqvi
from bqvi.models import LogJoint
from gp.measures import Empirical, Gaussian

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
POSED = (*BOX, "lower", "upper", "noise_sd", "gradient_noise_sd", "periodic")


def bump(x):
    return np.exp(-0.5 * (x**2).sum(axis=1))


def slopes(x):
    return -x * bump(x)[:, None]


def log_joint(theta):
    return -0.5 * (theta**2).sum(axis=1)


def never(x):
    raise AssertionError("evaluated")


def normal(at=0.0, scale=1.0):
    return Gaussian(np.full(2, at), scale * np.eye(2))


def integrated(f=never, measure=None, **given):
    arguments = {"budget": 24, "seed": 0} | given
    return bqvi.integrate(f, normal() if measure is None else measure, **arguments)


def fitted(f=never, gradient=None, **given):
    posed = {name: given.pop(name) for name in tuple(given) if name in POSED}
    model = LogJoint(f, 2, gradient=gradient, **(BOX | posed))
    return bqvi.fit(model, **({"method": "bq", "budget": 14, "seed": 0} | given))


def bounded(f=never, proposal=None, **given):
    arguments = {"budget": 800, "seed": 0} | given
    return bqvi.evidence_bounds(f, normal(scale=2.0) if proposal is None else proposal, **arguments)


def value(x):
    return 0.1 * np.ones(len(x))


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("door", "f", "begun", "given", "message"),
    [
        (integrated, bump, {}, {"measure": normal(2.0)}, "had measure with other numbers"),
        (integrated, bump, {"method": "qmc"}, {"measure": normal(2.0)}, "had measure with other numbers"),
        (integrated, bump, {}, {"measure": Empirical(np.eye(2))}, "had measure with other numbers"),
        (integrated, bump, {}, {"log_density": log_joint}, "without log_density, which this call has"),
        (integrated, bump, {}, {"log": True}, "without log, which this call has"),
        (integrated, log_joint, {"log": True, "method": "qmc"}, {"log": False, "method": "qmc"}, "with log,"),
        (integrated, bump, {}, {"gradient": slopes}, "without gradient, which this call has"),
        (integrated, bump, {"gradient": slopes}, {"gradient": None}, "with gradient, which this call lacks"),
        (fitted, log_joint, {}, {"gradient": never}, "without gradient, which this call has"),
        (fitted, log_joint, {}, {"noise_sd": 0.3}, r"had noise_sd None, this call has 0\.3"),
        (fitted, log_joint, {"noise_sd": 0.3}, {"noise_sd": None}, r"had noise_sd 0\.3, this call has None"),
        (fitted, log_joint, {}, {"noise_sd": value}, "had noise_sd None, this call has a function"),
        (fitted, log_joint, {}, {"method": "score"}, "had estimator BayesianQuadrature"),
        (bounded, log_joint, {}, {"proposal": normal(1.0)}, "had proposal with other numbers"),
    ],
)
def test_another_problem_is_refused_before_any_call(door, f, begun, given, message, held, tmp_path):
    before = door(f, **begun)
    before.save(tmp_path / "run.npz")
    resume = before if held else tmp_path / "run.npz"
    with pytest.raises(ValueError, match=message):
        door(**(begun | given), resume=resume)
