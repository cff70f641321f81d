"""The integral over a box: closed forms, the mean times the volume, what is refused."""

import numpy as np
import pytest

import bqvi
from bqvi.quadrature import METHODS
from gp.measures import Gaussian, Uniform

LOWER, UPPER = np.array([0.0, -1.0]), np.array([2.0, 3.0])
TRUTH = (1 - np.exp(-2.0)) * (8.0 + 28.0 / 3)
"""Of e^-x (2 + y^2) over the box."""


def f(x):
    return np.exp(-x[:, 0]) * (2 + x[:, 1] ** 2)


@pytest.mark.parametrize("method", METHODS)
def test_is_the_volume_times_the_mean(method):
    over_box = bqvi.integrate(f, "lebesgue", 40, method, lower=LOWER, upper=UPPER, seed=3)
    mean = bqvi.integrate(f, Uniform(LOWER, UPPER), 40, method, seed=3)
    assert abs(over_box.mean - TRUTH) < 4.5 * over_box.sd  # once in 150,000 if it is right
    np.testing.assert_allclose([over_box.mean, over_box.sd], [8 * mean.mean, 8 * mean.sd], rtol=1e-12)
    np.testing.assert_allclose(over_box.trace["mean"], 8 * mean.trace["mean"], rtol=1e-12)
    np.testing.assert_allclose(over_box.trace["sd"], 8 * mean.trace["sd"], rtol=1e-12)
    np.testing.assert_array_equal(over_box.values, f(over_box.nodes))


def test_a_run_is_resumed_over_the_same_box(tmp_path):
    whole = bqvi.integrate(f, "lebesgue", 30, lower=LOWER, upper=UPPER)
    part = bqvi.integrate(f, "lebesgue", 20, lower=LOWER, upper=UPPER)
    part.save(tmp_path / "run.npz")
    further = bqvi.integrate(f, "lebesgue", 30, lower=LOWER, upper=UPPER, resume=tmp_path / "run.npz")
    assert further.mean == pytest.approx(whole.mean, rel=0.05)
    with pytest.raises(ValueError, match="log_volume"):
        bqvi.integrate(f, Uniform(LOWER, UPPER), 30, resume=part)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"lower": LOWER}, "upper is None"),
        ({"lower": -np.inf, "upper": 1.0}, "lower is infinite or None in coordinates .0.*density"),
        ({"lower": LOWER, "upper": [1.0, np.inf]}, "upper is infinite or None in coordinates .1.*density"),
        ({"lower": np.nan, "upper": 1.0}, "lower has 1 entries that are NaN"),
        ({"lower": UPPER, "upper": LOWER}, "lower >= upper in coordinates .* set it within f"),
        ({"lower": LOWER, "upper": np.ones(3)}, "upper"),
        ({"lower": "0", "upper": 1.0}, "lower is '0'"),
        ({"lower": 0.0, "upper": "b"}, "upper is 'b'"),
        ({"lower": 0.0, "upper": 1.0, "log_density": f}, "log_density is given, and lower is 0.0"),
        ({"measure": Uniform(LOWER, UPPER), "lower": LOWER}, "lower is given, and measure is Uniform"),
        ({"measure": "counting"}, "measure is 'counting'"),
    ],
)
def test_what_is_refused(given, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bqvi.integrate(f, **({"measure": "lebesgue"} | given))


def test_a_half_line_is_integrated_as_the_message_says():
    """int_2^inf (x - 2)^2 exp(-(x - 2)) dx = Gamma(3) = 2."""
    measure = Gaussian(np.array([0.8]), np.eye(1))
    f = lambda t: np.exp(3.0 * t[:, 0] - np.exp(t[:, 0]) - measure.log_density(t))  # noqa: E731
    with pytest.raises(ValueError, match=r"x = lower \+ exp\(t\).*vbmc"):
        bqvi.integrate(f, lower=2.0, upper=np.inf)
    found = bqvi.integrate(f, measure, 40)
    assert found.mean == pytest.approx(2.0, abs=1e-3)


def test_booleans_are_the_indicator_of_a_set():
    """The area of an ellipse in its box, by quasi-random points: 4,096 leave an error of about .01."""
    inside = lambda x: (x**2 / [4.0, 1.0]).sum(1) < 1.0  # noqa: E731
    found = bqvi.integrate(inside, lower=[-2, -1], upper=[2, 1], method="qmc", budget=4096, seed=4)
    assert found.mean == pytest.approx(2.0 * np.pi, abs=0.06)


@pytest.mark.parametrize("method", ["bq", "qmc", "monte-carlo"])
def test_the_values_of_a_log_density_are_doubted_unless_they_are_integrated_as_one(method):
    log_density = lambda x: -70.0 - 30.0 * (x[:, 0] - 0.2) ** 2  # noqa: E731
    box = {"lower": -2.0, "upper": 2.0, "budget": 20, "seed": 4, "method": method}
    with pytest.warns(UserWarning, match=r"All values are negative, .* with log=True"):
        found = bqvi.integrate(log_density, **box)
    assert len(found.warnings) == 1
    right = -70.0 + 0.5 * np.log(np.pi / 30.0)
    found = bqvi.integrate(log_density, log=True, **box)
    assert found.log_mean == pytest.approx(right, abs=1e-3 if method == "bq" else 4.0 * found.log_sd)
    assert not found.warnings
    assert not bqvi.integrate(lambda x: -1.0 - x[:, 0] ** 2, **box).warnings


@pytest.mark.parametrize("dimension", [1, 3])
def test_a_log_density_as_wide_as_the_measure_is_doubted_where_it_is_deep(dimension):
    """Its values differ by a few nats only; a constant's and those of one near zero are no log density's."""
    measure = Gaussian(np.full(dimension, 0.4), np.diag(np.linspace(1.0, 2.0, dimension)))
    run = {"budget": 30, "seed": 6}
    with pytest.warns(UserWarning, match="All values are negative, .* with log=True"):
        assert bqvi.integrate(lambda x: -86.0 + measure.log_density(x), measure, **run).warnings
    for others in (lambda x: -86.0 + 0.1 * np.sin(x[:, 0]), lambda x: -2.0 + measure.log_density(x)):
        assert not bqvi.integrate(others, measure, **run).warnings
