"""Designs: unbiasedness, exactness by symmetry, and errors below those of independent points."""

import numpy as np
import pytest
import torch
from acquisition_cases import MEASURES
from scipy import stats
from scipy.special import ndtr

from acquisition import designs
from gp.arrays import as_like
from gp.measures import Gaussian


def antithetic(measure, n, seed):
    cube = ndtr(designs.normal_frames(n, measure.dimension, np.random.default_rng(seed)))
    return measure.from_unit_cube(as_like(cube, measure.mean))


DESIGNS = {"sobol": designs.sobol, "antithetic": antithetic}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("n", [5, 8])
def test_each_design_integrates_moments_without_bias(name, measure, n):
    measure = MEASURES[measure]
    rng = np.random.default_rng(0)
    means, squares = [], []
    for _ in range(400):
        x = DESIGNS[name](measure, n, rng)
        assert x.shape == (n, 2)
        means.append(x.mean(axis=0))
        squares.append((x**2).mean(axis=0))
    for sample, truth in (
        (np.array(means), measure.mean),
        (np.array(squares), np.diag(measure.covariance) + measure.mean**2),
    ):
        error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
        # 48 comparisons at 4.5 standard errors: a false alarm in 3e3 seeds; at this one never
        np.testing.assert_array_less(np.abs(sample.mean(axis=0) - truth), 4.5 * error + 1e-12)


def test_each_antithetic_point_is_normal():
    rng = np.random.default_rng(1)
    x = np.stack([designs.normal_frames(6, 3, rng) for _ in range(500)])
    for i in (0, 5):
        # 2 tests at 1e-4 each
        assert stats.kstest((x[:, i] ** 2).sum(axis=1), stats.chi2(3).cdf).pvalue > 1e-4
    np.testing.assert_allclose(x[:, 0] + x[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose((x[:, 0] * x[:, 2]).sum(axis=1), 0, atol=1e-10)  # orthogonal


def test_odd_functions_are_integrated_exactly_by_pairs():
    x = designs.normal_frames(10, 2, np.random.default_rng(0))
    np.testing.assert_allclose((x**3).sum(axis=0), 0, atol=1e-9)


def test_designs_follow_the_measures_kind_and_the_seed():
    measure = Gaussian(torch.zeros(2, dtype=torch.float32), torch.ones(2, dtype=torch.float32))
    for design in DESIGNS.values():
        x = design(measure, 4, 0)
        assert x.dtype == torch.float32
        assert torch.equal(x, design(measure, 4, 0))


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_bad_number_is_named(n):
    with pytest.raises((ValueError, TypeError), match=r"n is .*; it must be .*at least 1"):
        designs.sobol(MEASURES["gaussian"], n, 0)
