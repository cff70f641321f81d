"""Plots: they take and return matplotlib's objects, show what they were given, and leave pyplot alone."""

import dataclasses
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from bqvi.calls import Caller, Function
from bqvi.calls.coordinates import make_coordinates
from bqvi.posterior import Posterior, plots
from experiments.problems import known_posteriors
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
    figure = plots.corner(
        posterior(), truth=[0.0, 0.5], draws=np.random.default_rng(0).standard_normal((500, 2))
    )
    panels = figure.axes
    assert len(panels) == 4
    assert [ax.get_xlabel() for ax in panels[2:]] == ["a", "b"]
    assert panels[2].lines[-1].get_ydata()[0] == 0.5  # the truth of b
    given = Figure()
    assert plots.corner(posterior(fixed=True), given, parameters=["x0"]) is given
    assert len(given.axes) == 1
    with pytest.raises(ValueError, match="one or more of a, b"):
        plots.corner(posterior(), parameters=["c"])


@pytest.mark.parametrize("fixed", [False, True])
def test_plane(fixed):
    found = posterior(fixed)
    problem = known_posteriors.rosenbrock(2)
    target = Caller(
        Function(lambda t: -np.inf if t[0] > 1 else problem.log_joint(t[[0, -1]])), found.coordinates
    )
    evaluations = target.evaluate(found.q.sample(30, 0))
    ax = plots.plane(found, evaluations, log_density=lambda t: problem.log_density(t[:, [0, -1]]), new=5)
    shown = sum(len(line.get_xdata()) for line in ax.lines)
    assert shown == 30
    assert len(ax.lines[2].get_xdata()) == evaluations.failed.sum()
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match="1 free parameters"):
        plots.plane(
            Posterior(
                GaussianMixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1))),
                make_coordinates(plausible_lower=[0.0], plausible_upper=[1.0]),
            ),
            evaluations,
        )


def test_pyplot_is_left_alone():
    if "matplotlib.pyplot" in sys.modules:
        pytest.skip("another test has loaded pyplot")
    plots.corner(posterior())
    assert "matplotlib.pyplot" not in sys.modules


@dataclasses.dataclass
class Result:
    posterior: Posterior
    trace: list


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: plots.corner(r), TypeError, "give result.posterior"),
        (lambda r: plots.corner(None), TypeError, "posterior is a NoneType"),
        (lambda r: plots.corner(r.posterior, truth=[1.0]), ValueError, r"truth has shape \(1,\)"),
        (lambda r: plots.corner(r.posterior, truth="ab"), TypeError, "truth is a str"),
        (lambda r: plots.corner(r.posterior, draws=np.zeros(4)), ValueError, r"draws has shape \(4,\)"),
        (lambda r: plots.corner(r.posterior, parameters="c"), ValueError, "one or more of a, b"),
        (lambda r: plots.plane(r, None), TypeError, "give result.posterior"),
    ],
)
def test_what_is_no_posterior_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Result(posterior(), []))
