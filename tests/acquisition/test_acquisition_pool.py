"""Pools and batches: incremental moments against refits, greedy choices against brute force."""

import numpy as np
import pytest
import torch
from acquisition_cases import CRITERIA, MEASURES, f, posterior

import acquisition as aq
import gp
from acquisition.search import THOROUGH
from gp.kernels import SquaredExponential
from gp.measures import Empirical

POINTS = np.random.default_rng(7).normal(size=(60, 2))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_pool_scores_as_the_acquisition_does_after_each_observation(criterion):
    bound = aq.bind(CRITERIA[criterion], posterior(), MEASURES["gaussian"])
    pool = aq.Pool.of(bound, POINTS)
    for index, y in ((3, 2.5), (40, -1.0), (8, 0.3)):
        pool = pool.given(index, y)
        bound = bound.given(POINTS[index : index + 1], np.array([y]))
    left = pool.open
    # rounding of 4 rank-one updates, relative to variances down to 1e-4
    np.testing.assert_allclose(pool.scores()[left], bound.score(POINTS[left]), rtol=1e-8, atol=1e-8)
    assert np.all(pool.scores()[~left] == -np.inf)


def test_information_about_several_targets_in_a_pool():
    targets = gp.Integrals((MEASURES["gaussian"], MEASURES["mixture"]))
    bound = aq.bind(aq.MutualInformation(targets), posterior(), MEASURES["gaussian"])
    pool = aq.Pool.of(bound, POINTS)
    for index in (3, 40):
        pool, bound = pool.given(index), bound.given(POINTS[index : index + 1])
    # information depends on what little is left of the variances: 1e-4 of them here
    np.testing.assert_allclose(pool.scores()[pool.open], bound.score(POINTS[pool.open]), rtol=1e-7, atol=1e-7)


def test_greedy_choice_is_the_brute_force_one():
    process, measure = posterior(), MEASURES["gaussian"]
    chosen = aq.Pool.of(aq.bind(aq.IntegralVarianceReduction(), process, measure), POINTS).choose(5)
    expected = []
    for _ in range(5):
        after = [process.extend(x[None], np.zeros(1)).integral(measure).variance for x in POINTS]
        expected.append(int(np.argmin(after)))
        process = process.extend(POINTS[expected[-1]][None], np.zeros(1))
    np.testing.assert_array_equal(chosen.indices, expected)
    assert np.all(np.diff(chosen.scores) < 0)


def test_bayesian_quadrature_on_all_points_of_an_empirical_measure_is_the_average():
    """Greedy nodes exhaust the pool; then the integral's variance is zero and its mean exact."""
    measure, kernel = Empirical(POINTS[:15]), SquaredExponential(0.7)
    process = gp.GaussianProcess(kernel).condition(np.zeros((0, 2)), np.zeros(0))
    pool = aq.Pool.of(aq.bind(aq.IntegralVarianceReduction(), process, measure), measure.points)
    order = pool.choose(15).indices
    assert sorted(order) == list(range(15))
    full = process.extend(measure.points[order], f(measure.points[order])).integral(measure)
    # the condition number of K (1e4) times rounding
    np.testing.assert_allclose(full.mean, f(measure.points).mean(), rtol=1e-9)
    assert full.sd < 1e-6


def test_point_masses_weigh_uncertainty_in_a_pool():
    weights = np.arange(1, 61) / np.arange(1, 61).sum()
    process, measure = posterior(), Empirical(POINTS, weights)
    pool = aq.Pool.of(aq.bind(aq.UncertaintySampling(), process, measure), POINTS)
    np.testing.assert_allclose(np.exp(pool.scores()), process.variance(POINTS) * weights**2, rtol=1e-9)


def test_a_pool_in_torch_chooses_as_in_numpy():
    chosen = []
    for module, points in ((None, POINTS), (torch, torch.tensor(POINTS))):
        bound = aq.bind(aq.MutualInformation(), posterior(torch=module), MEASURES["gaussian"])
        chosen.append(aq.Pool.of(bound, points).choose(6).indices)
    np.testing.assert_array_equal(*chosen)


def test_what_was_chosen_or_ruled_out_is_not_chosen_again():
    pool = aq.Pool.of(aq.bind(aq.UncertaintySampling(0.0), posterior(), MEASURES["gaussian"]), POINTS[:6])
    chosen = pool.without([1, 2]).choose(4)
    assert sorted(chosen.indices) == [0, 3, 4, 5]
    with pytest.raises(ValueError, match="0 points are left"):
        chosen.pool.choose(1)
    with pytest.raises(ValueError, match="columns"):
        aq.Pool.of(aq.bind(aq.UncertaintySampling(), posterior(), MEASURES["gaussian"]), POINTS[:, :1])


def test_a_batch_is_one_point_after_the_other():
    bound = aq.bind(aq.IntegralVarianceReduction(), posterior(), MEASURES["gaussian"])
    batch = aq.sequential_batch(bound, 3, seed=0, search=THOROUGH)
    assert batch.x.shape == (3, 2)
    for i in range(3):
        alone = THOROUGH.maximise(bound.given(batch.x[:i]) if i else bound, seed=9)
        np.testing.assert_allclose(batch.scores[i], alone.score, rtol=1e-8)
    assert np.all(np.diff(batch.scores) < 0)
    np.testing.assert_array_equal(batch.x, aq.sequential_batch(bound, 3, seed=0, search=THOROUGH).x)
    with pytest.raises(ValueError, match="q = 0"):
        aq.sequential_batch(bound, 0, seed=0)
