"""A density given as a log joint is recognised by its values, and a log joint is accepted."""

import warnings

import numpy as np
import pytest

import bqvi
from bqvi.calls.returned import not_logarithms
from bqvi.models import LogJoint
from gp.measures import Gaussian

BOX = {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0]}


def density(theta):
    return np.exp(-40.0 - 15.0 * np.sum(np.square(theta), axis=-1))


def bq(function):
    return bqvi.fit(LogJoint(function, 2, gradient=None), method="bq", budget=8, tolerance=None)


def bounds(function):
    return bqvi.evidence_bounds(function, Gaussian(np.zeros(2), np.eye(2)), budget=64, replicates=2)


def vbmc(function):
    return bqvi.vbmc(lambda theta: float(function(theta)), **BOX, budget=8)


@pytest.mark.parametrize("door", [bq, bounds, vbmc])
def test_a_density_is_reported_at_the_first_design(door):
    with pytest.warns(UserWarning, match="return the logarithm of prior times likelihood"):
        door(density)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        door(lambda theta: np.log(density(theta)))


def test_a_shallow_density_is_reported_at_the_end_of_vbmc():
    found = bqvi.vbmc(lambda theta: float(np.exp(-0.5 * theta @ theta)), **BOX, budget=20)
    assert "return the logarithm" in " ".join(found.warnings)
    inside = {"lower": [0.0, 0.0], "upper": [1.0, 1.0]}
    middle = {"plausible_lower": [0.2, 0.2], "plausible_upper": [0.8, 0.8]}
    with pytest.warns(UserWarning, match="is 0 at each of 8 points, as a density that underflows"):
        bqvi.vbmc(lambda theta: 0.0, **inside, **middle, budget=8)


def test_quadratics_with_random_constants_are_log_joints():
    """Quadratics with random constants of .1 to 1000 nats are hardly ever taken for densities."""
    rng, said, of_densities = np.random.default_rng(1), 0, 0
    for _ in range(2000):
        points = rng.uniform(-4.0, 4.0, (rng.integers(4, 20), rng.integers(1, 8)))
        values = -0.5 * np.square(points).sum(1)
        said += bool(not_logarithms(values + rng.normal() * 10 ** rng.uniform(-1, 3)))
        of_densities += bool(not_logarithms(np.exp(values - 50.0)))
    assert said <= 2
    assert of_densities > 1700
    assert not not_logarithms(np.array([0.0, 0.0, 1.0, -np.inf]))
    assert not not_logarithms(np.array([0.0, 0.0, 1.0]))
