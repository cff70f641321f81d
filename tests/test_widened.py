"""Points of an answer widened: beyond its draws, inside of bounds, on straight ridges that bounds bend."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from bqvi.calls.coordinates import make_coordinates
from bqvi.importance import WIDENING, widened

RAYS = 4
"""Points on the two rays along the longest direction; the others are scattered."""


def gaussian(root, count=20_000, seed=0):
    """Draws (M, D) of N(0, root root^T), with equal weights."""
    x = np.random.default_rng(seed).standard_normal((count, len(root))) @ np.asarray(root).T
    return x, np.full(count, 1.0 / count)


@pytest.mark.parametrize("units", [1.0, 1e6])
def test_rays_lie_at_quantiles_along_the_longest_direction_whatever_the_units(units):
    root = np.array([[1.0, 0.0], [0.9, np.sqrt(1 - 0.9**2)]])  # correlation .9
    found = widened(*gaussian(np.diag([1.0, units]) @ root), None, 3) / [1.0, units]
    assert len(found) == RAYS + WIDENING.scattered
    along, across = found[:RAYS] @ np.ones(2) / np.sqrt(2), found[:RAYS] @ [1, -1] / np.sqrt(2)
    sd, reach = np.sqrt(1.9), norm.ppf(WIDENING.reached)
    expected = np.array([1.5, 3.0, -1.5, -3.0]) * reach * sd
    # quantiles of 20,000 draws are known to .03 sds, the distances of points to 3 times that
    assert np.sort(along) == pytest.approx(np.sort(expected), abs=0.2)
    assert np.abs(across).max() < 0.2


def test_scattered_points_have_the_tails_of_a_t_distribution(monkeypatch):
    monkeypatch.setattr("bqvi.importance.WIDENING", replace(WIDENING, scattered=4000))
    root = np.array([[2.0, 0.0], [-1.0, 0.5]])
    found = widened(*gaussian(root), None, 5)[RAYS:]
    squares = np.square(np.linalg.solve(root, found.T)).sum(0) / WIDENING.wider**2
    # |t|^2 / 2 has Fisher's distribution with 2 and 3 degrees, whose median is .881: 4 sds of the share
    assert np.mean(squares / 2 < 0.881) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(4000))


def test_rays_stay_on_a_straight_ridge_that_the_bounds_bend():
    """Draws of theta_1 - theta_0 = 3 +- .02 on a third of its length, in a box of 16 to a side."""
    box = make_coordinates([-8.0, -8.0], [8.0, 8.0], [-4.0, -4.0], [4.0, 4.0])
    rng = np.random.default_rng(1)
    first = rng.uniform(-4.0, 1.0, 5000)
    theta = np.stack([first, first + 3.0 + 0.02 * rng.standard_normal(5000)], axis=1)
    found = widened(box.from_user(theta), np.full(5000, 1 / 5000), box, 0)
    rays = box.to_user(found)[:RAYS]
    assert np.abs(rays[:, 1] - rays[:, 0] - 3.0).max() < 0.2
    # the ridge ends at (5, 8) and at (-8, -5): a point close to each end, and one on the way there
    assert np.sort(rays[:, 0])[[0, -1]] == pytest.approx([-8.0, 5.0], abs=0.4)
    assert ((rays[:, 0] < -4.2).sum(), (rays[:, 0] > 1.2).sum()) == (2, 2)


def test_points_of_a_scale_stay_above_its_bound():
    box = make_coordinates([0.0, 2.0], [np.inf, 2.0], [0.5, 2.0], [3.0, 2.0])  # the second parameter is fixed
    theta = np.random.default_rng(2).gamma(3.0, 1.0, (4000, 1))
    found = widened(box.from_user(np.c_[theta, np.full(4000, 2.0)]), np.full(4000, 1 / 4000), box, 0)
    rays = np.sort(box.to_user(found)[:RAYS, 0])
    low, high = np.quantile(theta, [0.005, 0.995])
    assert 0.0 < rays[0] < rays[1] < low
    middle = np.median(theta)
    assert rays[2:] - middle == pytest.approx(np.array([1.5, 3.0]) * (high - middle), rel=0.1)


def test_draws_nearer_to_a_bound_than_numbers_tell_apart():
    """Half of the mass of Beta(.01, .01) lies below 1e-30, or as near to 1: points stay inside."""
    box = make_coordinates([0.0], [1.0], [0.1], [0.9])
    theta = np.random.default_rng(3).beta(0.01, 0.01, (4000, 1))
    inside = np.clip(theta, np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))
    found = widened(box.from_user(inside), np.full(4000, 1 / 4000), box, 0)
    assert np.isfinite(found).all()


def test_rays_of_a_periodic_parameter_pass_the_cut_of_its_period():
    """Draws of a half normal that begins at the cut, beside a wider parameter: the other half is at 360."""
    box = make_coordinates([0.0, -9.0], [360.0, 9.0], [10.0, -3.0], [350.0, 3.0], periodic=[0])
    rng = np.random.default_rng(4)
    theta = np.c_[np.abs(rng.normal(0.0, 5.0, 4000)), rng.standard_normal(4000)]
    rays = box.to_user(widened(box.from_user(theta), np.full(4000, 1 / 4000), box, 0))[: -WIDENING.scattered]
    beyond = rays[(rays[:, 0] > 345.0) & (np.abs(rays[:, 1]) < 1.0)]
    assert len(beyond) == 2
