"""A high value outside of q is a warning of `fit`: on two Gaussians one of them is known by evaluations only.

The oracle is the layout of the two Gaussians; on densities with one mode there is no warning.
"""

import warnings

import numpy as np
import pytest
import scipy.stats

import bqvi
from bqvi.models import LogJoint

KNOWN = np.random.default_rng(2).uniform([-4.0, -1.0], [-2.0, 1.0], (12, 2))


def two(theta, second=0.4, apart=8.0):
    parts = [scipy.stats.norm.logpdf(theta, [i * apart - 3.0, 0.0], 0.6).sum() for i in (0, 1)]
    return float(np.logaddexp(parts[0] + np.log(1.0 - second), parts[1] + np.log(second)))


def fitted(f, known, **given):
    points = np.vstack([KNOWN, known]) if len(known) else KNOWN
    evaluations = (points, np.array([f(row) for row in points]))
    box = {"plausible_lower": [-4.5, -1.5], "plausible_upper": [-1.5, 1.5]}
    model = LogJoint(f, 2, vectorised=False, gradient=None, **(box | given))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bqvi.fit(model, method="bq", budget=40, seed=0, evaluations=evaluations)


@pytest.mark.parametrize("noise_sd", [None, 0.01])
def test_another_mode_is_named(noise_sd):
    found = fitted(two, np.array([[5.1, 0.1]]), noise_sd=noise_sd)
    assert found.q.mean is not None
    message = next(one for one in found.warnings if "outside of q" in one)
    assert "x0 = 5.1, x1 = 0.1" in message
    assert "nats below its highest value in q" in message


def test_names_and_units_are_those_of_the_user():
    def positive(theta):
        return two(np.log(theta) * [3.0, 1.0]) - float(np.log(theta).sum())

    known = np.exp(KNOWN / [3.0, 1.0])
    points = np.vstack([known, [[np.exp(5.0 / 3.0), 1.0]]])
    values = np.array([positive(row) for row in points])
    box = {"plausible_lower": {"a": 0.2, "b": 0.2}, "plausible_upper": {"b": 4.0, "a": 0.7}, "lower": 0.0}
    model = LogJoint(positive, 2, vectorised=False, gradient=None, **box)
    with pytest.warns(UserWarning, match=r"at a = 5\.29449, b = 1, outside of q"):
        bqvi.fit(
            model, method="bq", budget=40, seed=0, evaluations=(points, values)
        )  # fmt: skip


@pytest.mark.parametrize(
    "f",
    [
        lambda theta: two(theta, second=1e-4),  # a mode without mass
        lambda theta: -3.5 * float(np.log1p(((theta - [-3.0, 0.0]) ** 2).sum() / 5.0)),  # Student's t
        lambda theta: float(2.0 * theta.sum() - np.exp(theta[0] + 3.0) - np.exp(theta[1])),
    ],
)
def test_no_warning_where_there_is_no_mass(f):
    found = fitted(f, np.array([[5.0, 0.0], [-3.0, 6.0]]))
    assert not [one for one in found.warnings if "outside of q" in one]
