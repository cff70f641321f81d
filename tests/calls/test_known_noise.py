"""Known evaluations with a noise that is a function of theta, and with workers, in each door that takes both.

The oracle of the noise of known rows is the function that was given, called by the test.
"""

import warnings

import numpy as np
import pytest

import bqvi
from bqvi.models import LogJoint
from gp.measures import Uniform

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
THETA = np.random.default_rng(0).uniform(-1.9, 1.9, (8, 2))
VALUES = np.append(-0.5 * (THETA[:7] ** 2).sum(axis=1), -np.inf)


def one(theta):
    return -0.5 * float(theta @ theta)


def sd(theta):
    return 0.1 + abs(float(theta[0]))


def of_vbmc(**given):
    found = bqvi.vbmc(one, **BOX, evaluations=(THETA, VALUES), budget=12, seed=0, **given)
    return found.evaluations.noise_variance[:8]


def of_bq(**given):
    model = LogJoint(one, 2, vectorised=False, gradient=None, **BOX, **given)
    found = bqvi.fit(model, method="bq", evaluations=(THETA, VALUES), budget=12, seed=0)
    return found.state.memory.noise_variances[:7, 0]


def of_integrate(vectorised=False, noise_sd=sd):
    def many(x):
        return np.array([one(row) for row in x])

    f, measure = many if vectorised else one, Uniform([-2.0, -2.0], [2.0, 2.0])
    known = (THETA[:7], VALUES[:7])
    run = bqvi.integrate.steps(
        f, measure, budget=20, seed=0, vectorised=vectorised, noise_sd=noise_sd, evaluations=known
    )
    return run.state.noise_variance


@pytest.mark.parametrize("door", [of_vbmc, of_bq, of_integrate])
def test_a_noise_that_is_none_is_named(door):
    with pytest.raises(Exception, match=r"has the noise_sd -1\.0 at x0 = "):
        door(noise_sd=lambda theta: -1.0)


@pytest.mark.parametrize("door", ["vbmc", "bq"])
@pytest.mark.parametrize("stated", [False, True])
def test_known_values_without_noise_beside_noisy_ones_are_reported(door, stated):
    """The log joint returns (value, sd), which tells nothing of the evaluations that were made before."""

    def pair(theta):
        return one(theta), 0.2

    arguments = {"evaluations": (THETA, VALUES), "budget": 13, "seed": 0}  # one of them is compared
    posed = BOX | ({"noise_sd": sd} if stated else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if door == "vbmc":
            found = bqvi.vbmc(pair, **arguments, **posed)
        else:
            model = LogJoint(pair, 2, vectorised=False, gradient=None, **posed)
            found = bqvi.fit(model, method="bq", **arguments)
        told = [one for one in found.warnings if "values have no noise sd" in one]
    assert [one[:14] for one in told] == ([] if stated else ["7 of 11 values"])
