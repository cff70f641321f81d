"""Every experiment on the gradient runs and draws in its quick form; references have oracles."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets  # noqa: F401  # what it imports seeds the global generator, once
from numpy.testing import assert_allclose

from bqvi.families import Gaussian
from bqvi.gradients.whitened import WhitenedFrame
from experiments.gradients import one_shot as bq_one_shot
from experiments.gradients import references as bq_references


def test_the_bananas_reference_against_an_exact_rule():
    """The banana's integrand is a polynomial of degree 4: Gauss and Hermite's rule of 6 nodes is exact."""
    line, weight = np.polynomial.hermite_e.hermegauss(6)
    noise = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    share = np.outer(weight, weight).ravel() / weight.sum() ** 2
    q = Gaussian(np.array([0.4, 0.3]), np.array([[0.5, 0.1], [0.1, 0.8]]))
    frame = WhitenedFrame.of(q)
    found = bq_references.moments(bq_references.target_named("banana"), frame, 2**16)
    x, y = frame.points(noise).T
    gap = y - x**2
    slope = np.stack([-x + 2 * x * gap / 0.49, -gap / 0.49], 1) @ frame.scale + noise
    # errors of the quasi-random points are about the logarithm of their number over it
    assert_allclose(found.y.mean, share @ slope, atol=2e-3)
    assert_allclose(found.lower, (slope * share[:, None]).T @ noise, atol=5e-3)
    f = share @ (-0.5 * x**2 - gap**2 / 0.98)
    assert found.elbo == pytest.approx(f + q.entropy, abs=1e-3)


def test_nothing_near_the_optimum_is_better():
    name, rng = "logistic", np.random.default_rng(0)
    frame = WhitenedFrame.of(bq_references.optimum(name))
    for _ in range(5):
        moved = frame.mean + 0.1 * frame.scale @ rng.standard_normal(5)
        root = frame.scale @ (np.eye(5) + 0.05 * np.tril(rng.standard_normal((5, 5))))
        assert bq_references.gap(name, Gaussian(moved, root @ root.T)) > 0.0


@pytest.mark.parametrize("name", ["banana", "schools-noncentred"])
def test_stored_references_are_of_the_same_place(name):
    """With a sixteenth of the points, errors of quasi-random points are thirty times larger at most."""
    stored = bq_references.reference(name, "midway", bq_references.MANY)
    assert f"{name}, midway, {bq_references.MANY}" in bq_references._stored()
    assert_allclose(stored, bq_references.reference(name, "midway", 2**16), atol=5e-2)


def test_bias_and_variance_are_those_of_the_errors():
    rng = np.random.default_rng(0)
    errors = np.array([0.3, -0.2]) + 0.1 * rng.standard_normal((4000, 2))
    rows = pd.DataFrame(
        {
            "target": "t", "place": "p", "estimator": "e", "n": 5, "covered": 1.0,
            "squared": (errors**2).sum(1), "error": [f"{a} {b}" for a, b in errors],
        }
    )  # fmt: skip
    found = bq_one_shot.decomposed(rows).iloc[0]
    assert found["bias^2"] == pytest.approx(0.13, abs=0.006)  # sd 0.0011
    assert found["variance"] == pytest.approx(0.02, abs=0.002)
    assert found["mse"] == pytest.approx(found["bias^2"] + found["variance"], rel=1e-3)
