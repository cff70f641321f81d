"""A kernel between what points show: the posterior is that of the general process of gp."""

import numpy as np
import pytest

import gp
from gp.conditioning import Conditioned, ObservedKernel
from gp.observations import Gradients, Observations, Values

RNG = np.random.default_rng(4)
POINTS, OTHERS = RNG.standard_normal((12, 3)), RNG.standard_normal((5, 3))
KERNEL = gp.kernels.SquaredExponential(1.3, 2.0)
NOISE = 0.02


def function(x):
    return np.sin(x[:, 0]) + x[:, 1] * x[:, 2]


def slopes(x):
    return np.column_stack([np.cos(x[:, 0]), x[:, 2], x[:, 1]])


@pytest.mark.parametrize("gradients", [False, True])
def test_values_at_further_points_are_those_of_a_gaussian_process(gradients):
    kernel, targets = ObservedKernel(KERNEL, gradients), function(POINTS)[:, None]
    if gradients:
        targets = np.column_stack([targets, slopes(POINTS)])
    whole = Conditioned.of(kernel, POINTS, targets, lambda x, y: np.full(y.size, NOISE))
    given = Conditioned.of(kernel, POINTS[:7], targets[:7], lambda x, y: np.full(y.size, NOISE))
    given = given.extended(POINTS[7:], targets[7:])
    observed = Observations((Values(POINTS), Gradients(POINTS))) if gradients else Values(POINTS)
    y = np.append(function(POINTS), slopes(POINTS)) if gradients else function(POINTS)
    oracle = gp.GaussianProcess(KERNEL, noise=np.full(len(y), NOISE)).condition(observed, y)
    for one in (whole, given):
        whitened = one.whitening @ kernel.with_values(one.places, OTHERS)
        np.testing.assert_allclose(
            one.residuals_whitened[:, 0] @ whitened, oracle.mean(OTHERS), rtol=1e-8, atol=1e-10
        )
        variance = KERNEL.diagonal(OTHERS) - np.square(whitened).sum(0)
        np.testing.assert_allclose(variance, oracle.variance(OTHERS), rtol=1e-7, atol=1e-10)


def test_covariances_between_observations_have_the_numbers_of_a_point_together():
    kernel = ObservedKernel(KERNEL, True)
    left, right = kernel.at(POINTS[:2]), kernel.at(POINTS[:2].copy())
    np.testing.assert_allclose(kernel.covariance(left, left), kernel.covariance(left, right), atol=1e-12)
    e = np.array([1e-5, 0.0, 0.0])
    value = KERNEL(POINTS[:1], POINTS[1:2])[0, 0]
    moved = (KERNEL(POINTS[:1], POINTS[1:2] + e)[0, 0] - KERNEL(POINTS[:1], POINTS[1:2] - e)[0, 0]) / 2e-5
    assert kernel.covariance(left, right)[0, 4] == pytest.approx(value)
    assert kernel.covariance(left, right)[0, 5] == pytest.approx(moved, rel=1e-6)
