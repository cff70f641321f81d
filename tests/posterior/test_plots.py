"""Plots: they take and return matplotlib's objects, show what they were given, and leave pyplot alone."""

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from bqvi.calls.coordinates import make_coordinates
from bqvi.posterior import Posterior
from gp.measures import GaussianMixture


def posterior(fixed=False):
    bounds = {"plausible_lower": [-3.0, -3.0], "plausible_upper": [3.0, 3.0], "names": ["a", "b"]}
    if fixed:
        bounds = {
            "lower": [-np.inf, 1.0, 0.0],
            "upper": [np.inf, 1.0, 4.0],
            "plausible_lower": [-3.0, 1.0, 1.0],
            "plausible_upper": [3.0, 1.0, 3.0],
        }
    return Posterior(
        GaussianMixture(np.array([0.5, 0.5]), 0.3 * np.eye(2), np.full((2, 2), 0.04)),
        make_coordinates(**bounds),
    )


def test_corner():
    figure = posterior().plot(Figure(), truth=[0.0, 0.5])
    panels = figure.axes
    assert len(panels) == 4
    assert [ax.get_xlabel() for ax in panels[2:]] == ["a", "b"]
    assert panels[2].lines[-1].get_ydata()[0] == 0.5  # the truth of b
    given = Figure()
    assert posterior(fixed=True).plot(given, parameters=["x0"]) is given
    assert len(given.axes) == 1
    with pytest.raises(ValueError, match="one or more of a, b"):
        posterior().plot(Figure(), parameters=["c"])


def test_pyplot_is_left_alone():
    if "matplotlib.pyplot" in sys.modules:
        pytest.skip("another test has loaded pyplot")
    posterior().plot(Figure())
    assert "matplotlib.pyplot" not in sys.modules


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.plot(Figure(), truth=[1.0]), ValueError, r"truth has shape \(1,\)"),
        (lambda p: p.plot(Figure(), truth="ab"), TypeError, "truth is 'ab'"),
        (lambda p: p.plot(Figure(), parameters="c"), ValueError, "one or more of a, b"),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(posterior())
