"""Cases in which the doors failed first users, and that belong to no single subpackage."""

import warnings

import numpy as np
import pytest
import torch

import bqvi
from bqvi.gradients import Pathwise
from bqvi.models import LogisticRegression, LogJoint
from gp.measures import Gaussian

MEASURE = Gaussian(np.zeros(2), np.eye(2))
DOORS = {
    "vbmc": lambda f: bqvi.vbmc(f, start=[0.0, 0.0], budget=60),
    "vbmc in a box": lambda f: bqvi.vbmc(f, plausible_lower=[-1.0] * 2, plausible_upper=[1.0] * 2, budget=60),
    "fit by bq": lambda f: bqvi.fit(LogJoint(f, 2, vectorised=False, gradient=None), method="bq", budget=60),
    "fit by pathwise": lambda f: bqvi.fit(LogJoint(f, 2, vectorised=False), method="pathwise", steps=60),
    "integrate": lambda f: bqvi.integrate(f, MEASURE, budget=60, vectorised=False, log=True),
    "evidence_bounds": lambda f: bqvi.evidence_bounds(f, MEASURE, budget=200, vectorised=False),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_function_that_always_raises_costs_a_first_design_at_most(door):
    calls = []

    def always(x):
        calls.append(x)
        raise ZeroDivisionError("whatever the point")

    with pytest.raises(bqvi.RunError, match="whatever the point"):
        DOORS[door](always)
    assert len(calls) <= 16


class OfTensors(Pathwise):
    """An estimator of a user's, which makes a tensor of the weights."""

    def __call__(self, model, q, batch, rng):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # torch warns of an array that is read-only
            torch.as_tensor(batch.weights)
        assert batch.weights.flags.writeable
        return super().__call__(model, q, batch, rng)


@pytest.mark.parametrize("minibatch", [10, "balanced"])
def test_weights_of_a_mini_batch_make_a_tensor_without_a_warning(minibatch):
    x = np.random.default_rng(0).normal(size=(40, 2))
    data = (x, (x[:, 0] > 0).astype(float))
    found = bqvi.fit(LogisticRegression(2), data, method=OfTensors(2), minibatch=minibatch, steps=2)
    assert found.stopped == "steps"
