"""Recombination: exact on its features, few points, positive weights, whatever the features."""

import numpy as np
import pytest
import torch
from acquisition_cases import MEASURES, posterior
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import acquisition as aq
from gp.measures import Empirical


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 400),
    m=st.integers(0, 25),
    kind=st.sampled_from(["normal", "polynomial", "repeated", "few"]),
)
def test_few_positive_weights_with_the_same_sums(seed, n, m, kind):
    rng = np.random.default_rng(seed)
    features = {
        "normal": lambda: rng.normal(size=(n, m)),
        "polynomial": lambda: rng.uniform(-1, 1, size=(n, 1)) ** np.arange(m),  # badly conditioned
        "repeated": lambda: rng.normal(size=(n, 1)) * np.ones((1, m)),  # rank one
        "few": lambda: rng.normal(size=(3, m))[rng.integers(3, size=n)],  # three distinct points
    }[kind]()
    weights = rng.random(n) * (rng.random(n) < 0.8)
    weights[0] = 0.5
    found = aq.recombine(features, weights, cost=rng.random(n))
    assert len(found.indices) <= min(m + 1, np.count_nonzero(weights))
    assert np.all(found.weights > 0)
    assert len(set(found.indices.tolist())) == len(found.indices)
    scale = weights.sum() * np.abs(features).max(initial=1.0)
    # each of the at most n eliminations rounds once
    np.testing.assert_allclose(found.weights.sum(), weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        found.weights @ features[found.indices], weights @ features, atol=1e-12 * scale
    )


def test_the_cost_falls_towards_that_of_the_linear_programme():
    rng = np.random.default_rng(0)
    features, weights, cost = rng.normal(size=(60, 6)), np.full(60, 1 / 60), rng.random(60)
    found = aq.recombine(features, weights, cost=cost)
    reached = found.weights @ cost[found.indices]
    rows = np.column_stack([np.ones(60), features])
    best = linprog(cost, A_eq=rows.T, b_eq=weights @ rows, method="highs").fun
    blind = aq.recombine(features, weights)
    assert best - 1e-9 <= reached <= weights @ cost
    # a greedy walk closes most of the gap between a vertex found blindly and the best one
    assert reached - best < 0.5 * (blind.weights @ cost[blind.indices] - best)


def test_few_points_are_not_recombined():
    found = aq.recombine(np.eye(3), np.array([0.2, 0.0, 0.8]))
    np.testing.assert_array_equal(found.indices, [0, 2])
    np.testing.assert_allclose(found.weights, [0.2, 0.8], rtol=1e-15)


@pytest.mark.parametrize("measure", [*MEASURES, "empirical"])
def test_a_batch_integrates_the_eigenfunctions_of_what_is_not_known(measure):
    process = posterior()
    rng = np.random.default_rng(0)
    candidates = rng.normal(size=(300, 2))
    measure = Empirical(candidates) if measure == "empirical" else MEASURES[measure]
    points = candidates if isinstance(measure, Empirical) else measure.sample(300, 1)
    batch = aq.kernel_recombination(process, measure, 8, seed=0, candidates=points, landmarks=300)
    assert 1 <= len(batch.weights) <= 8
    assert np.all(batch.weights > 0)
    np.testing.assert_allclose(batch.weights.sum(), 1, rtol=1e-12)
    np.testing.assert_array_equal(batch.x, points[batch.indices])
    values, vectors = np.linalg.eigh(process.covariance(points))
    leading = vectors[:, -7:]
    # with all points as landmarks Nystrom's functions are the eigenvectors; K's rounding (1e-13 of
    # the largest eigenvalue) moves the smallest used by some 1e-13 * 1e4
    np.testing.assert_allclose(batch.weights @ leading[batch.indices], leading.mean(axis=0), atol=1e-8)
    assert values[-7] > 0


def test_a_recombined_batch_beats_random_ones_of_the_same_size():
    """Squared error of the weighted batch over functions of the posterior: w'Cw - 2 w'C mu + mu'C mu."""
    process, measure = posterior(), MEASURES["gaussian"]
    points = measure.sample(512, 0)
    covariance, mu = process.covariance(points), np.full(512, 1 / 512)

    def error(indices, weights):
        gap = -mu.copy()
        gap[indices] += weights
        return gap @ covariance @ gap

    batch = aq.kernel_recombination(process, measure, 10, seed=0, candidates=points)
    rng = np.random.default_rng(0)
    random = [error(rng.choice(512, 10, replace=False), np.full(10, 0.1)) for _ in range(50)]
    assert error(batch.indices, batch.weights) < 0.2 * min(random)


def test_batches_in_torch_and_from_an_empirical_measure():
    process = posterior(torch=torch)
    points = torch.tensor(np.random.default_rng(0).normal(size=(100, 2)))
    batch = aq.kernel_recombination(process, Empirical(points), 5, seed=0)
    assert batch.x.dtype == batch.weights.dtype == torch.float64
    host = aq.kernel_recombination(posterior(), Empirical(points.numpy()), 5, seed=0)
    np.testing.assert_array_equal(batch.indices, host.indices)
    np.testing.assert_allclose(batch.weights.numpy(), host.weights, rtol=1e-6)


def test_one_point_is_enough_for_the_constant():
    batch = aq.kernel_recombination(posterior(), MEASURES["gaussian"], 1, seed=0)
    np.testing.assert_allclose(batch.weights, [1.0])


@pytest.mark.parametrize(
    ("features", "weights", "message"),
    [
        (np.zeros((3, 2)), np.ones(2), "shape"),
        (np.full((3, 2), np.nan), np.ones(3), "NaN"),
        (np.zeros((3, 2)), np.array([1.0, -1.0, 1.0]), "negative"),
        (np.zeros((3, 2)), np.zeros(3), "none is positive"),
    ],
)
def test_bad_input_is_named(features, weights, message):
    with pytest.raises(ValueError, match=message):
        aq.recombine(features, weights)


def test_more_points_than_candidates():
    with pytest.raises(ValueError, match="q = 9"):
        aq.kernel_recombination(posterior(), Empirical(np.eye(2)), 9, seed=0)
    with pytest.raises(ValueError, match="candidates"):
        aq.kernel_recombination(posterior(), MEASURES["box"], 2, seed=0, weights=np.ones(3))
