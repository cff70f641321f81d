"""Coordinates: round trips by hypothesis, Jacobians by differences, probability by quadrature."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bqvi.calls.coordinates import Coordinates, make_coordinates
from bqvi.records import flattened, named, restored

INF = math.inf


def every_kind():
    """Unbounded, bounded below, bounded above, bounded, periodic and fixed parameters."""
    return make_coordinates(
        [-INF, 2.0, -INF, -1.0, 0.0, 3.0],
        [INF, INF, 5.0, 4.0, 2 * math.pi, 3.0],
        [-10.0, 2.5, -3.0, 0.0, 1.0, np.nan],
        [30.0, 6.0, 4.0, 3.5, 3.0, np.nan],
        periodic=[4],
    )


def numerical_jacobian(function, point, step=1e-5):
    """By central differences of fourth order."""
    columns = []
    for i in range(len(point)):
        e = step * np.eye(len(point))[i]
        f = [function((point + k * e)[None])[0] for k in (-2, -1, 1, 2)]
        columns.append((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step))
    return np.stack(columns, axis=-1)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["line", "above", "below", "between", "periodic"]),
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    inside=st.tuples(st.floats(0.02, 0.5), st.floats(0.55, 0.98)),
    u=st.floats(-2.5, 2.5),
)
def test_round_trip_of_any_bounds(kind, low, width, inside, u):
    high = low + width
    a = -INF if kind in ("line", "below") else low
    b = INF if kind in ("line", "above") else high
    p, q = (low + s * width for s in inside)
    made = make_coordinates([a], [b], [p], [q], periodic=[0] if kind == "periodic" else ())
    theta = made.to_user(np.array([[u]]))
    rounding = 1e-15 * (abs(low) + width) / width  # rounding of theta, in plausible widths
    # Beside a bound the chart is steep: a rounding of theta is magnified by du / dtheta.
    slope = math.exp(made.log_jacobian(np.array([[u]]))[0]) / width
    assert abs(made.from_user(theta)[0, 0] - u) < 1e-9 + 20 * rounding / slope


def test_log_jacobian_against_differences():
    made = every_kind()
    for point in np.random.default_rng(2).standard_normal((5, 5)) * 0.3:
        jacobian = numerical_jacobian(lambda v: made.to_user(v)[:, :5], point)
        expected = np.linalg.slogdet(jacobian)[1]
        assert made.log_jacobian(point[None])[0] == pytest.approx(expected, abs=1e-7)
        slope = numerical_jacobian(lambda v: made.log_jacobian(v), point)
        np.testing.assert_allclose(made.log_jacobian_gradient(point[None])[0], slope, atol=1e-7)


def test_gradients_pulled_back():
    made = every_kind()
    w = np.array([0.3, -1.0, 0.5, 2.0, 0.7, 5.0])

    def function(v):
        return np.sin(made.to_user(v) @ w)

    points = np.random.default_rng(3).standard_normal((5, 5)) * 0.3
    theta = made.to_user(points)
    pulled = made.pull_gradients(points, np.cos(theta @ w)[:, None] * w)
    for i, point in enumerate(points):
        np.testing.assert_allclose(pulled[i], numerical_jacobian(function, point), atol=1e-6)


@pytest.mark.parametrize(
    ("density", "bounds"),
    [
        (scipy.stats.norm(3.0, 2.0), (-INF, INF, 0.0, 5.0)),
        (scipy.stats.gamma(3.0), (0.0, INF, 0.5, 6.0)),
        (scipy.stats.expon(), (0.0, INF, 0.0, 3.0)),
        (scipy.stats.beta(2.0, 5.0), (0.0, 1.0, 0.0, 1.0)),
        (scipy.stats.uniform(), (0.0, 1.0, 0.2, 0.9)),
    ],
)
def test_probability_is_conserved(density, bounds):
    made = make_coordinates(*([b] for b in bounds))
    v = np.linspace(-25, 25, 20001)[:, None]
    logs = density.logpdf(made.to_user(v)[:, 0]) + made.log_jacobian(v)
    assert np.exp(logs).sum() * (v[1, 0] - v[0, 0]) == pytest.approx(1.0, abs=1e-6)


def test_periodic_is_cut_opposite_the_plausible_interval():
    made = make_coordinates([0.0], [360.0], [350.0], [370.0], periodic=[0])
    theta = made.to_user(np.array([[-1.0], [0.0], [1.0]]))[:, 0]
    np.testing.assert_allclose(np.mod(theta + 180, 360), [170, 180, 190], atol=1e-9)
    assert ((theta >= 0) & (theta < 360)).all()
    # a turn more or less is the same
    np.testing.assert_allclose(made.from_user([[355.0]]), made.from_user([[-5.0]]), atol=1e-9)
    jump = made.from_user([[179.9], [180.1]])[:, 0]
    assert jump[0] > 10
    assert jump[1] < -10


def test_a_saved_record_makes_the_same():
    made = every_kind()
    arrays = []
    again = restored(flattened(made, arrays), arrays, named(Coordinates))
    points = np.random.default_rng(5).standard_normal((4, 5))
    np.testing.assert_array_equal(again.to_user(points), made.to_user(points))
    np.testing.assert_array_equal(again.log_jacobian(points), made.log_jacobian(points))
    assert again.names == made.names


def test_far_points_stay_inside():
    made = make_coordinates([0.0, 0.0, -INF], [1.0, INF, 0.0], [0.1, 0.1, -2.0], [0.9, 3.0, -1.0])
    points = np.array([[1e3, 1e3, 1e3], [-1e3, -1e3, -1e3]])
    theta = made.to_user(points)
    assert np.isfinite(theta).all()
    made.require_inside("theta", theta)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"lower": [0, 2], "upper": [1, 1], "plausible_lower": 0, "plausible_upper": 1},
            "x1 has lower = 2 above",
        ),
        ({"lower": [0, 0], "upper": [1, 1, 1]}, "lengths disagree: lower 2, upper 3"),
        ({"plausible_upper": np.zeros(0)}, "plausible_upper has no entries"),
        ({"lower": 0.0, "upper": 1.0}, "number of parameters is not known"),
        (
            {"lower": [0.0], "upper": [1.0], "plausible_lower": [-0.1], "plausible_upper": [0.5]},
            "outside of its bounds",
        ),
        (
            {"lower": [0.0], "upper": [1.0], "plausible_lower": [0.6], "plausible_upper": [0.5]},
            "must be below plaus",
        ),
        ({"lower": [0.0], "plausible_lower": [1.0]}, "plausible_upper of x0 is missing"),
        ({"plausible_lower": [-1.0], "plausible_upper": [INF]}, "plausible_upper of x0 is inf"),
        ({"lower": [np.nan], "upper": [1.0]}, "bound that is NaN"),
        ({"lower": [1.0], "upper": [1.0]}, "at least one must be free"),
        (
            {"lower": [0.0], "plausible_lower": [0.1], "plausible_upper": [1.0], "periodic": [0]},
            "needs a finite lower",
        ),
        ({"lower": [0.0], "upper": [1.0], "periodic": [3]}, "periodic is"),
        (
            {"lower": [0.0], "upper": [1.0], "names": ["phi"], "periodic": ["psi"]},
            r"periodic is .*'psi'.*names of parameters \(phi\)",
        ),
        ({"lower": [0.0, 0.0], "upper": [1.0, 1.0], "names": ["a", "a"]}, "names must differ"),
        ({"lower": [0.0], "upper": [1.0], "names": ["a", "b"]}, "lengths disagree"),
        ({"lower": [[0.0]], "upper": [1.0]}, "lower has shape"),
    ],
)
def test_bad_bounds(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_coordinates(**arguments)


def test_periodic_parameters_by_name_are_those_by_index():
    given = {"lower": [0.0, 0.0, 0.0], "upper": [6.0, 1.0, 2.0], "names": ["phi", "r", "psi"]}
    made = make_coordinates(**given, periodic=["psi", "phi"])
    made.require_like(make_coordinates(**given, periodic=[0, 2]))
    assert made.periodic.tolist() == [True, False, True]


def test_not_numbers():
    with pytest.raises(TypeError, match="lower is"):
        make_coordinates(["a"], [1.0])


def test_start_outside():
    made = make_coordinates([0.0, 1.0, -INF], [1.0, 1.0, INF], [0.1, 1, -1], [0.9, 1, 1])
    for row, message in [
        ([1.5, 1, 0], "x0 = 1.5 in row 0; it must lie strictly between 0 and 1"),
        ([0.0, 1, 0], "strictly between"),
        ([0.5, 2, 0], "fixed at 1"),
        ([0.5, 1, np.nan], "x2 = nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            made.from_user([row])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        made.from_user([0.5, 1.0, 0.0])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((-1e308, 1e308, -1.0, 1.0), "x0 has a bound, lower or upper, of -1e.308; it must be below 1e.140"),
        ((None, None, -1e200, 1e200), "x0 has plausible_lower = -1e.200 and plausible_upper"),
        ((None, 1.0, 0.0, 1e-320), "plausible_lower and plausible_upper of x0 are too near to each other"),
        ((0.0, 1e30, 0.0, 1e-320), "plausible_lower and plausible_upper of x0 are too near to each other"),
    ],
)
def test_bounds_beyond_floating_point_numbers_are_named(bounds, message, recwarn):
    with pytest.raises(ValueError, match=message):
        make_coordinates(*bounds, dimension=1)
    assert not recwarn.list
