"""The stratified importance-weighted bound of a mixture of Gaussians, and its two gradients.

On the line, the bound of T draws in each of K components is an integral over K T standard normals: a product
rule has it, and central differences its gradient in all coordinates, weights included. It knows no path, no
score and no responsibilities. Tests of unbiasedness err with probability 1e-6 each.
"""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from oracles import bonferroni_t, z_scores

import bqvi
from bqvi.families import Gaussian, GaussianMixture
from bqvi.gradients import IWAE, Batch, DReG, ImportanceQuadrature
from bqvi.models import LogJoint, SoftmaxMixture

FULL = Batch(None, 0)


def log_joint(theta):
    """Two modes, one of them skewed; not normalised."""
    sin = np.sin if isinstance(theta, np.ndarray) else torch.sin
    add = np.logaddexp if isinstance(theta, np.ndarray) else torch.logaddexp
    return add(0.4 - (theta + 1.0) ** 2, -0.5 * (theta - 1.2) ** 2) + 0.3 * sin(2.0 * theta)


MODEL = LogJoint(lambda theta: log_joint(theta[..., 0]), 1)
Q = {
    1: GaussianMixture(np.ones(1), np.array([[0.3]]), np.array([[[1.3]]])),
    2: GaussianMixture(np.array([0.35, 0.65]), np.array([[-0.7], [0.8]]), np.array([[[0.5]], [[0.9]]])),
}


def flat(values):
    return np.concatenate([np.ravel(v) for v in values])


@cache
def rule(dimension, n):
    """Gauss and Hermite's, for standard normals."""
    line, weight = np.polynomial.hermite_e.hermegauss(n)
    nodes = np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), -1).reshape(-1, dimension)
    shares = np.prod(np.stack(np.meshgrid(*[weight / weight.sum()] * dimension, indexing="ij"), -1), -1)
    return nodes, shares.ravel()


def bound(q, draws, nodes):
    """By a product rule over all draws."""
    k = q.n_components
    noise, weights = rule(k * draws, nodes)
    z = q.means[:, 0] + np.sqrt(q.covariances[:, 0, 0]) * noise.reshape(-1, draws, k)
    logs = q.log_weights + log_joint(z) - q.log_prob(z[..., None]) - np.log(draws)
    top = logs.max((1, 2), keepdims=True)
    return float(weights @ (top[:, 0, 0] + np.log(np.exp(logs - top).sum((1, 2)))))


def log_evidence():
    grid = np.linspace(-12.0, 12.0, 4001)
    return float(np.log(np.exp(log_joint(grid)).sum() * (grid[1] - grid[0])))


@cache
def exact(k, draws, nodes, h=1e-4):
    """The gradient of the bound in u, by central differences, and the bound."""
    q, found = Q[k], []
    for i, part in enumerate(q.unconstrained):
        for index in np.ndindex(part.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = [np.array(u) for u in q.unconstrained]
                moved[i][index] += sign * h
                ends.append(bound(q.from_unconstrained(tuple(moved)), draws, nodes))
            found.append((ends[0] - ends[1]) / (2.0 * h))
    return np.array([*found, bound(q, draws, nodes)])


CASES = [(1, 3, 24), (2, 1, 60), (2, 2, 18)]
"""K, T, and nodes of the rule."""


@pytest.mark.parametrize("kind", [IWAE, DReG])
@pytest.mark.parametrize(("k", "draws", "nodes"), CASES)
def test_unbiased_in_all_coordinates(kind, k, draws, nodes):
    q, rng = Q[k], np.random.default_rng(0)
    found = [kind(draws)(MODEL, q, FULL, rng) for _ in range(400)]
    expected = exact(k, draws, nodes)
    each = np.column_stack([np.stack([flat(g.values) for g in found]), [g.bound for g in found]])
    vary = each.std(0) > 1e-12  # the only weight there is does not
    assert np.abs(each[:, ~vary] - expected[~vary]).max(initial=0.0) < 1e-9
    assert z_scores(each[:, vary], expected[vary]).max() < bonferroni_t(vary.sum(), len(each))


def test_a_tighter_bound_than_the_elbo_that_rises_with_the_draws():
    q, (noise, weights) = Q[2], rule(1, 60)
    z = q.means[:, 0] + np.sqrt(q.covariances[:, 0, 0]) * noise
    elbo = float(weights @ ((log_joint(z) - q.log_prob(z[..., None])) @ q.weights))
    one, two = bound(q, 1, 60), bound(q, 2, 18)
    assert elbo < one - 1e-3
    assert one < two - 1e-3
    assert two < log_evidence()
    rng = np.random.default_rng(0)
    many = np.array([IWAE(60)(MODEL, q, FULL, rng).bound for _ in range(400)])
    error = many.std(ddof=1) / 20.0
    assert two < many.mean() - 6.0 * error
    assert many.mean() < log_evidence() + 6.0 * error


def test_one_component_is_iwae():
    """To the same numbers: the same draws, and no weight to move."""
    single = Gaussian(Q[1].means[0], Q[1].covariances[0])
    for errors in (False, True):
        ours, theirs = (
            IWAE(6, errors)(MODEL, q, FULL, np.random.default_rng(4)) for q in (Q[1], single)
        )  # fmt: skip
        assert ours.bound == pytest.approx(theirs.bound, rel=1e-12)
        assert ours.values[0] == pytest.approx(0.0, abs=1e-12)
        for mine, other in zip(ours.values[1:], theirs.values, strict=True):
            np.testing.assert_allclose(mine[0], other, rtol=1e-10)
        if errors:
            np.testing.assert_allclose(flat(ours.standard_error[1:]), flat(theirs.standard_error), rtol=1e-9)


@pytest.mark.parametrize("kind", [IWAE, DReG])
@pytest.mark.parametrize("full", [True, False])
def test_mean_field_and_full_agree_where_they_are_the_same(kind, full):
    covariances = np.array([[0.5, 0.8], [0.9, 0.4]])
    shaped = covariances if not full else np.stack([np.diag(c) for c in covariances])
    q = GaussianMixture(np.array([0.4, 0.6]), np.array([[-1.0, 0.2], [1.0, 0.6]]), shaped)
    model = LogJoint(lambda theta: -0.25 * (theta**4).sum(-1) + theta[..., 0], 2)
    found = kind(3)(model, q, FULL, np.random.default_rng(2))
    other = GaussianMixture(q.weights, q.means, np.stack([np.diag(c) for c in covariances]))
    whole = kind(3)(model, other, FULL, np.random.default_rng(2))
    np.testing.assert_allclose(found.values[1], whole.values[1], rtol=1e-9)
    diagonal = found.values[2] if not full else np.einsum("kii->ki", found.values[2])
    np.testing.assert_allclose(diagonal, np.einsum("kii->ki", whole.values[2]), rtol=1e-9)


def test_at_the_posterior_dreg_has_no_variance_in_means_and_covariances():
    q = Q[2]
    moving = q.from_unconstrained(tuple(torch.tensor(u) for u in q.unconstrained))
    model = LogJoint(lambda theta: moving.log_prob(theta) + 2.0, 1)
    rng = np.random.default_rng(0)
    found = [DReG(3)(model, q, FULL, rng) for _ in range(300)]
    for part in (1, 2):
        np.testing.assert_allclose([g.values[part] for g in found], 0.0, atol=1e-12)
    assert all(g.bound == pytest.approx(2.0, rel=1e-12) for g in found)
    logits = np.stack([g.values[0] for g in found])
    assert z_scores(logits, np.zeros(2)).max() < bonferroni_t(2, len(found))


def test_dreg_does_not_drown_as_draws_grow():
    """At about equal evaluations its variance falls faster, as for one Gaussian (Rainforth et al. 2018)."""
    rng = np.random.default_rng(0)

    def variance(kind, draws):
        found = np.stack([flat(kind(draws)(MODEL, Q[2], FULL, rng).values)[2:] for _ in range(150)])
        return found.var(0).sum()

    assert variance(DReG, 15) < 0.5 * variance(IWAE, 16)


@pytest.mark.parametrize("kind", [IWAE, DReG])
def test_standard_errors_are_the_spread(kind):
    """Mean squares over 150 runs, within a factor 2: the jackknife is right to O(1 / T)."""
    rng = np.random.default_rng(1)
    found = [kind(16, errors=True)(MODEL, Q[2], FULL, rng) for _ in range(150)]
    spread = np.var([flat(g.values) for g in found], axis=0)
    ratio = np.mean([flat(g.standard_error) ** 2 for g in found], axis=0) / spread
    assert ratio.min() > 0.5
    assert ratio.max() < 2.0


def test_what_is_spent_is_of_all_components():
    rng = np.random.default_rng(0)
    for kind, each in ((IWAE, 5), (DReG, 6)):
        found = kind(5)(MODEL, Q[2], FULL, rng)
        assert found.evaluations == found.samples == 2 * each


def test_a_draw_with_all_the_weight_leaves_numbers():
    sharp = LogJoint(lambda theta: -0.5e6 * (theta[..., 0] - 3.0) ** 2, 1)
    for kind in (IWAE, DReG):
        found = kind(4, errors=True)(sharp, Q[2], FULL, np.random.default_rng(0))
        assert np.isfinite(flat(found.values)).all()
        assert np.isfinite(flat(found.standard_error)).all()


@pytest.mark.parametrize("method", ["iwae", "dreg"])
def test_fit_climbs(method):
    found = bqvi.fit(MODEL, None, method, start_from=Q[2], steps=150, samples=3, seed=0)
    assert isinstance(found.q, GaussianMixture)
    assert bound(found.q, 1, 60) > bound(Q[2], 1, 60) + 0.01


def test_what_is_impossible_says_why():
    moving = SoftmaxMixture(np.random.default_rng(0).standard_normal((20, 1)), 2)
    d = moving.dimension
    wide = GaussianMixture(np.full(2, 0.5), np.zeros((2, d)), np.ones((2, d)))
    for kind, errors in itertools.product((IWAE, DReG), (False, True)):
        with pytest.raises(TypeError, match="moves with q"):
            kind(4, errors)(moving, wide, FULL, np.random.default_rng(0))
    with pytest.raises(TypeError, match="units of one Gaussian"):
        ImportanceQuadrature()(MODEL, Q[2], FULL, np.random.default_rng(0))
    with pytest.raises(ValueError, match="ImportanceQuadrature does not take"):
        bqvi.fit(MODEL, None, ImportanceQuadrature(), start_from=Q[2], steps=1)
