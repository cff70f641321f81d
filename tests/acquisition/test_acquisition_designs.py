"""Designs: unbiasedness, exactness by symmetry, and errors below those of independent points."""

import numpy as np
import pytest
import torch
from acquisition_cases import MEASURES
from scipy import stats

import gp
from acquisition import designs
from gp.kernels import SquaredExponential
from gp.measures import Gaussian

DESIGNS = {"sobol": designs.sobol, "antithetic": designs.antithetic_orthogonal}


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
    measure = Gaussian(np.zeros(3), np.ones(3))
    rng = np.random.default_rng(1)
    x = np.stack([designs.antithetic_orthogonal(measure, 6, rng) for _ in range(500)])
    for i in (0, 5):
        # 2 tests at 1e-4 each
        assert stats.kstest((x[:, i] ** 2).sum(axis=1), stats.chi2(3).cdf).pvalue > 1e-4
    np.testing.assert_allclose(x[:, 0] + x[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose((x[:, 0] * x[:, 2]).sum(axis=1), 0, atol=1e-10)  # orthogonal


def test_odd_functions_are_integrated_exactly_by_pairs():
    x = designs.antithetic_orthogonal(MEASURES["gaussian"], 10, 0) - MEASURES["gaussian"].mean
    np.testing.assert_allclose((x**3).sum(axis=0), 0, atol=1e-9)


def test_minimum_variance_nodes_beat_sobol_nodes():
    measure, kernel = MEASURES["gaussian"], SquaredExponential(np.array([1.0, 1.0]))

    def sd(x):
        return gp.GaussianProcess(kernel, noise=1e-10).condition(x, np.zeros(len(x))).integral(measure).sd

    chosen = designs.minimum_variance(kernel, measure, 16, 0)
    assert chosen.shape == (16, 2)
    greedy = designs.minimum_variance(kernel, measure, 16, 0, max_iterations=0)
    # measured: .0028, .016 and .021
    assert sd(chosen) < 0.3 * sd(greedy) < 0.3 * min(sd(designs.sobol(measure, 16, s)) for s in range(10))


def test_designs_follow_the_measures_kind_and_the_seed():
    measure = Gaussian(torch.zeros(2, dtype=torch.float32), torch.ones(2, dtype=torch.float32))
    for design in DESIGNS.values():
        x = design(measure, 4, 0)
        assert x.dtype == torch.float32
        assert torch.equal(x, design(measure, 4, 0))
    nodes = designs.minimum_variance(SquaredExponential(1.0), MEASURES["box"], 5, 3)
    np.testing.assert_array_equal(
        nodes, designs.minimum_variance(SquaredExponential(1.0), MEASURES["box"], 5, 3)
    )


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_bad_number_is_named(n):
    for design in DESIGNS.values():
        with pytest.raises(ValueError, match="n = "):
            design(MEASURES["gaussian"], n, 0)
    with pytest.raises(ValueError, match="candidates = 4"):
        designs.minimum_variance(SquaredExponential(1.0), MEASURES["box"], 5, 3, candidates=4)
