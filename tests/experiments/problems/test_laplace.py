"""Laplace's approximation, exact where the density is Gaussian."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.problems.laplace import NoModeError, laplace
from gp.measures import Gaussian


def gaussian(seed, dimension):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((dimension, dimension)) + 2 * np.eye(dimension)
    return Gaussian(rng.normal(size=dimension), root @ root.T / dimension)


def log_density_of(measure, log_scale=0.0):
    mean, precision = torch.as_tensor(measure.mean), torch.as_tensor(np.linalg.inv(measure.covariance))
    constant = log_scale + float(measure.log_density(measure.mean[None])[0])

    def log_density(theta):
        centred = theta - mean
        return constant - 0.5 * torch.einsum("ld,de,le->l", centred, precision, centred)

    return log_density


@settings(deadline=None, derandomize=True, max_examples=15)
@given(st.integers(0, 100), st.integers(1, 5), st.floats(-900.0, 900.0))
def test_a_gaussian_is_its_own_approximation(seed, dimension, log_evidence):
    truth = gaussian(seed, dimension)
    found = laplace(log_density_of(truth, log_evidence), np.zeros(dimension))
    # the gradient at the end is at most 1e-6, and the covariance carries that into the mean; rounding
    # of a number of the size of ln Z limits the line search to the square root of 1e-13
    size = np.linalg.norm(truth.covariance, 2)
    np.testing.assert_allclose(found.gaussian.mean, truth.mean, atol=1e-5 * max(size, 1.0))
    np.testing.assert_allclose(found.gaussian.covariance, truth.covariance, rtol=1e-8, atol=1e-10 * size)
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-8)


def test_stirling():
    # int e^(a u - e^u) du = Gamma(a), by Laplace Stirling's formula: off by 1/(12 a) - 1/(360 a^3)
    a = 20.0
    found = laplace(lambda u: a * u[:, 0] - torch.exp(u[:, 0]), [0.0])
    gamma = float(torch.lgamma(torch.tensor(a, dtype=torch.float64)))
    assert gamma - found.log_evidence == pytest.approx(1 / (12 * a) - 1 / (360 * a**3), abs=1e-8)
    assert found.gaussian.mean[0] == pytest.approx(np.log(a), abs=1e-6)


def test_proposals_around_the_mode():
    truth = gaussian(3, 3)
    found = laplace(log_density_of(truth), np.zeros(3))
    np.testing.assert_allclose(found.widened(2.0).covariance, 2 * found.gaussian.covariance)
    heavy = found.heavy_tailed((1.0, 4.0))
    np.testing.assert_allclose(heavy.mean, found.gaussian.mean)
    np.testing.assert_allclose(heavy.covariance, 2.5 * found.gaussian.covariance)
    with pytest.raises(ValueError, match="factor"):
        found.widened(0.0)


def test_no_mode_is_an_error_that_names_the_start():
    with pytest.raises(NoModeError, match=r"start = \[0.5\]: the log density is not finite"):
        laplace(lambda u: torch.log(-u[:, 0]), [0.5])
    with pytest.raises(NoModeError, match="grows without end"):
        laplace(lambda u: u.sum(1), [0.0, 0.0])
    with pytest.raises(NoModeError, match="not concave"):
        laplace(lambda u: u.square().sum(1) - u[:, 0].pow(4), [0.0, 0.0])
