"""Cases in which the doors failed first users, and that belong to no single subpackage."""

import warnings

import numpy as np
import pytest
import torch

import bqvi
from bqvi.gradients import Pathwise
from bqvi.models import GaussianMixture, LogisticRegression, LogJoint
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


def test_the_noise_of_an_integrand_is_asked_for_once_at_each_node():
    asked, called = [], []

    def noise(x):
        asked.extend(x.tolist())
        return np.full(len(x), 0.1)

    def f(x):
        called.extend(x.tolist())
        return np.exp(-0.5 * (x**2).sum(axis=1))

    found = bqvi.integrate(f, MEASURE, budget=16, noise_sd=noise, seed=0)
    assert asked == called
    assert len(asked) == 16
    np.testing.assert_allclose(sorted(asked), sorted(found.nodes.tolist()), rtol=1e-12)


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


def test_data_whose_squares_are_beyond_the_range_of_numbers_are_named():
    data = 1e300 * np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"data is .* in row 0, column 0; entries must be below"):
        bqvi.fit(GaussianMixture(2, "full"), data)
