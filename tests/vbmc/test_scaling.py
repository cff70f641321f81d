"""Scales that depend on a coordinate: the map against differences, its centres against a theorem."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import bqvi
from bqvi.variational_bmc.scaling import Scaling, led_by, unlike
from experiments.problems import hard_posteriors
from gp.measures import GaussianMixture

SCALING = Scaling(
    1,
    0.3,
    np.array([0.7, 0.0, 0.0, -0.4]),
    np.array([0.5, 0.0, 0.0, -1.0]),
    np.array([[0.0, 0.2, 1.0, 0.0], [0.0] * 4, [0.0] * 4, [0.0, -0.3, 0.6, 0.0]]),
    np.array([0.6, 0.0, 0.0, 0.2]),
    np.array([-0.8, 0.0, 0.0, 1.5]),
)


@pytest.mark.parametrize("map_", [SCALING, replace(SCALING, sheared=True)], ids=["about A", "about c"])
def test_the_map_its_jacobian_and_gradients(map_):
    rng = np.random.default_rng(0)
    y, step = rng.standard_normal((5, 4)), 1e-6
    np.testing.assert_allclose(map_.into(map_.out(y)), y, atol=1e-12)
    moves = step * np.eye(4)
    numeric = np.stack([(map_.out(y + e) - map_.out(y - e)) / (2 * step) for e in moves], axis=2)
    np.testing.assert_allclose(map_.jacobian(y), numeric, atol=1e-8)
    np.testing.assert_allclose(map_.log_jacobian(y), np.linalg.slogdet(numeric)[1], atol=1e-8)

    def density(y):
        return np.sin(map_.out(y)).sum(1) + map_.log_jacobian(y)

    slopes = np.stack([(density(y + e) - density(y - e)) / (2 * step) for e in moves], axis=1)
    np.testing.assert_allclose(map_.pulled(map_.out(y), np.cos(map_.out(y))), slopes, atol=1e-8)


def test_centres_are_the_weighted_regression_on_the_leading_coordinate():
    """By the Gauss-Markov theorem their covariance is the inverse of the weighted design's Gram matrix."""
    rng = np.random.default_rng(0)
    v = 2.0 * rng.standard_normal(400)
    x = np.column_stack([v, 3.0 + 0.5 * v + np.exp(v) * rng.standard_normal(400)])
    found = led_by(x, 0, v.std())
    np.testing.assert_allclose(found.rates, [0.0, 1.0])
    weighted = np.exp(-v)[:, None] * np.column_stack([np.ones(400), v])
    sds = np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)))
    assert (np.abs([found.centres[1] - 3.0, found.slopes[1, 0] - 0.5]) < 4.0 * sds).all()


def test_maps_are_apart_by_the_scales_they_give():
    x = np.random.default_rng(0).standard_normal((100, 4))
    assert unlike(None, None, x) == unlike(SCALING, SCALING, x) == 0.0
    plain = replace(SCALING, precisions=np.zeros(4), pulls=np.zeros(4))
    assert unlike(plain, None, x) == pytest.approx(0.7 * x[:, 1].std())


def test_a_funnel_is_straightened(tmp_path):
    problem = hard_posteriors.funnel(2)
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=56)
    assert found.frame.scaling is not None
    assert abs(found.log_evidence) < max(0.05, 3.0 * found.log_evidence_sd)
    # the surrogate behind the map interpolates the values of the log density
    x = found.evaluations.points[np.argsort(found.evaluations.values)[-20:]]
    np.testing.assert_allclose(found.surrogate_mean(x), problem.log_density(x), atol=0.1)
    found.save(tmp_path / "run")
    again = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=57, resume=tmp_path / "run")
    assert again.frame.scaling.leading == found.frame.scaling.leading


def test_the_image_of_a_gaussian_is_smooth_along_the_leading_coordinate_which_the_map_leaves():
    """There it is normal again; elsewhere its density is nearly the density before over the Jacobian."""
    mean, covariance = np.array([[0.2, -0.3, 0.1, 0.5]]), 0.5 * np.eye(4)[None]
    covariance[0, 1, 2] = covariance[0, 2, 1] = 0.2
    image = GaussianMixture(*SCALING.image(np.ones(1), mean, covariance))
    grid = np.linspace(-2.0, 1.4, 50)
    along = image.marginal([1]).log_density(grid[:, None])
    np.testing.assert_allclose(along, norm.logpdf(grid, -0.3, np.sqrt(0.5)), atol=0.01)
    before = GaussianMixture(np.ones(1), mean, covariance)
    y = before.sample(4000, 0)
    exact = before.log_density(y) - SCALING.log_jacobian(y)
    assert abs(np.mean(exact - image.log_density(SCALING.out(y)))) < 0.01
