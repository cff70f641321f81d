"""Evaluations below a cliff, against the region of the floor that is known, and doors on such log joints."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import bqvi
from bqvi.calls import Evaluations
from bqvi.calls.table import below_a_cliff
from bqvi.models import LogJoint

CUT = 0.7


def outside(points):
    """Whether points (n, D) lie beyond a plane at ``CUT`` from the origin."""
    direction = np.cos(1.0 + np.arange(points.shape[1]))
    return points @ (direction / np.linalg.norm(direction)) > CUT


def normal(points):
    return -0.5 * np.square(points).sum(1)


@pytest.mark.parametrize("floor", [-120.0, -3e3, -4e7, -2e40])
@pytest.mark.parametrize("dimension", [1, 3, 6])
def test_a_floor_is_found_with_and_without_a_prior_added_to_it(floor, dimension):
    points = np.random.default_rng(dimension).uniform(-2.5, 2.5, (40, dimension))
    lost, values = outside(points), normal(points)
    for low in (floor, floor + values):
        np.testing.assert_array_equal(below_a_cliff(points, np.where(lost, low, values)), lost)


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.004])
@pytest.mark.parametrize("dimension", [1, 4, 15])
def test_a_gaussian_has_no_cliff_however_narrow_or_far_away_it_is(scale, dimension):
    """The first points of a box, and those of runs that have approached the mode from afar."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        box = rng.uniform(-1.0, 1.0, (12, dimension))
        near = scale * rng.standard_normal((12, dimension))
        way = np.linspace(3.0, 0.0, 8)[:, None] * rng.standard_normal(dimension)
        for points in (box, np.concatenate([box, near]), np.concatenate([near, way])):
            assert not below_a_cliff(points, normal((points - 0.2 * scale) / scale)).any()


def test_exponentials_and_heavy_tails_have_no_cliff():
    x = np.linspace(-2.0, 3.0, 25)[:, None]
    for values in (4.0 * x - np.exp(9.0 * x), -2.0 * np.log1p(1e4 * x**2), -1e3 * np.abs(x) ** 3):
        assert not below_a_cliff(x, values[:, 0]).any()


@pytest.mark.parametrize("sd", [0.5, 2.0])
def test_noise_hides_no_deep_floor(sd):
    rng = np.random.default_rng(8)
    points = rng.uniform(-2.5, 2.5, (60, 2))
    values = np.where(outside(points), -1e6, normal(points) + sd * rng.standard_normal(60))
    found = below_a_cliff(points, values, None, np.full(60, sd**2))
    np.testing.assert_array_equal(found, outside(points))
    assert not below_a_cliff(points[~found], values[~found], None, np.full((~found).sum(), sd**2)).any()


def test_units_of_the_parameters_do_not_matter():
    points = np.random.default_rng(2).uniform(-2.0, 2.0, (30, 3))
    values = np.where(outside(points), -1e4, normal(points))
    np.testing.assert_array_equal(
        below_a_cliff(points * [1e-6, 30.0, 1e5] + 7.0, values), below_a_cliff(points, values)
    )


def test_the_table_has_what_was_returned_and_its_censored_form_a_failure():
    points = np.random.default_rng(4).uniform(-2.0, 2.0, (24, 2))
    lost = outside(points)
    values, failed = np.where(lost, -9e8, normal(points)), np.zeros(24, bool)
    made = Evaluations(points, values, -points, None, failed, ("",) * 24)
    found = made.censored
    np.testing.assert_array_equal(found.failed, lost)
    np.testing.assert_array_equal(np.isneginf(found.values), lost)
    np.testing.assert_array_equal(np.isnan(found.gradients).all(1), lost)
    assert "below a cliff" in found.reasons[int(np.argmax(lost))]
    assert made.values.min() == -9e8
    assert not made.failed.any()
    smooth = made[~lost]
    assert smooth.censored is smooth


def cut(floor):
    def log_joint(theta):
        theta = np.atleast_2d(theta)
        return np.where(outside(theta), floor, normal(theta))

    return log_joint


EXACT = math.log(2.0 * math.pi) + float(norm.logcdf(CUT))


def test_vbmc_takes_a_floor_for_what_it_takes_minus_infinity_for():
    box = {"plausible_lower": [-2.0] * 2, "plausible_upper": [2.0] * 2, "budget": 60, "seed": 12}
    with pytest.warns(UserWarning, match="evaluations failed"):
        none, deep, shallow = (
            bqvi.vbmc(lambda t, low=low: float(cut(low)(t)[0]), **box) for low in (-np.inf, -1e7, -70.0)
        )
    # from 53 evaluations on one is 73 nats low: with -1e7 beside it, but not with -inf, it lies below a cliff
    alike = [[row.log_evidence for row in found.trace.rows[:-2]] for found in (none, deep)]
    assert alike[0] == alike[1]
    assert len(alike[0]) == 10
    assert deep.log_evidence == pytest.approx(none.log_evidence, abs=none.log_evidence_sd)
    for found in (deep, shallow):
        assert abs(found.log_evidence - EXACT) < 3.0 * found.log_evidence_sd
    assert none.n_failed > 5
    assert outside(deep.posterior.sample(2000, seed=0)).mean() < 0.06


@pytest.mark.parametrize("floor", [-70.0, -1e7])
def test_bayesian_quadrature_integrates_over_the_region_above_a_floor_and_resumes(floor):
    def fit(budget, **more):
        with pytest.warns(UserWarning, match="evaluations failed, in a region that holds"):
            return bqvi.fit(
                LogJoint(cut(floor), 2, gradient=None), method="bq", budget=budget, seed=3, **more
            )

    whole = fit(60)
    assert abs(whole.log_evidence - EXACT) < max(3.0 * whole.log_evidence_sd, 0.1)
    assert whole.log_evidence_sd < 0.4
    assert (whole.values == floor).sum() > 3
    np.testing.assert_allclose(fit(60, resume=fit(30)).q.mean, whole.q.mean, rtol=1e-12)
