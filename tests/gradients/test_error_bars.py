"""The error estimates of estimators: covariances against product rules, intervals by coverage."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gradient_cases import (
    BATCH,
    SHOWN,
    TARGETS,
    banana,
    between,
    drawn_process,
    exact,
    gauss_hermite,
    gram,
    without,
)
from numpy.testing import assert_allclose

from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.designs import Independent
from bqvi.gradients.gradient_process import Directions, GradientProcess, SeparableKernel, shaped_noise
from bqvi.gradients.standard_errors import of_gradient, standard_errors
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from bqvi.models import LogJoint
from gp.conditioning.function_kernel import standard_observed

ROWS, COLUMNS = np.tril_indices(2)
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
KERNEL = SeparableKernel(1.7, 0.3, 0.2, 0.15, Directions(TURN, np.array([1.3, 0.7])))
SHAPE = (1.6, 0.4, 0.3)
MOVED = WhitenedFrame(np.array([0.3, -0.2]), np.array([[1.1, 0.0], [-0.2, 0.8]]), False)


def flat(moments):
    return np.concatenate([moments.mean, moments.jacobian[ROWS, COLUMNS]])


def with_jackknife(model, process, without):
    """The model's covariance, and of refits without one node each what their larger variances take."""
    every = np.arange(len(process.given.points))
    changes = np.array([flat(process.at_q) - flat(without(np.delete(every, i)).at_q) for i in every])
    refits = changes.T @ changes + np.outer(changes.sum(0), changes.sum(0))
    share = np.sqrt(np.clip(np.diag(refits) - np.diag(model), 0.0, None) / np.diag(refits))
    assert (share > 0.0).any()
    return model + np.diag(share) @ refits @ np.diag(share)


@pytest.mark.parametrize("shown", SHOWN)
def test_the_covariance_of_a_function_s_moments_is_that_of_a_product_rule(shown):
    """Stein: E[grad phi] = E[phi e], E[Hessian phi] = E[phi (e e^T - I)], under the kernel itself."""
    process = drawn_process(SHOWN[shown], SHAPE)
    noise, weights = gauss_hermite(2, 40)
    inner = noise @ noise.T
    distances = np.square(noise).sum(1)[:, None] + np.square(noise).sum(1) - 2.0 * inner
    height = 1.0 if shown == "values" else 1.6**2
    kernel = height * np.exp(-0.5 * distances / 1.6**2) + 0.4 * inner + 0.15 * inner**2
    basis = np.column_stack([noise, noise[:, ROWS] * noise[:, COLUMNS] - (ROWS == COLUMNS)])
    basis *= weights[:, None]
    # against product rules in test_gradient_process
    known = standard_observed(process.given.points, process.given.kernel)
    explained = known.T @ np.linalg.solve(gram(process), known)
    model = process.given.scale * (basis.T @ kernel @ basis - explained)
    expected = with_jackknife(model, process, lambda kept: without(process, kept))
    assert_allclose(process.covariance(), expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    assert (np.diagonal(process.covariance()) <= flat(process.standard_deviations()) ** 2).all()  # of the sum


@pytest.mark.parametrize("q", [WhitenedFrame.standard(2), MOVED])
def test_the_covariance_of_separable_moments_is_that_of_a_product_rule(q):
    """For each output, E[y] and E[y e^T] by the rule; then the symmetric part of J by hand."""
    rng = np.random.default_rng(3)
    process = GradientProcess.of(1.5 * rng.standard_normal((12, 2)), rng.standard_normal((12, 2)), KERNEL)
    process = process.under(q)
    points, targets = process.given.points, process.given.targets
    noise, weights = gauss_hermite(2, 40)
    basis = np.column_stack([np.ones(len(noise)), noise]) * weights[:, None]
    places = q.points(noise)
    prior = basis.T @ between(KERNEL, places, places) @ basis
    across = basis.T @ between(KERNEL, places, points)
    noise_there = shaped_noise(points, KERNEL.directions)
    whole = between(KERNEL, points, points) + np.diag(noise_there)
    one = process.given.scale * (prior - across @ np.linalg.solve(whole, across.T))
    outputs = np.kron(np.eye(2), one)  # indices (output, functional)
    carry = []
    for unit in np.eye(6):
        functional = q.scale.T @ unit.reshape(2, 3)
        carry.append(flat(WhitenedMoments(functional[:, 0], 0.5 * (functional[:, 1:] + functional[:, 1:].T))))
    model = np.transpose(carry) @ outputs @ np.array(carry)
    expected = with_jackknife(
        model, process, lambda kept: GradientProcess.of(points[kept], targets[kept], KERNEL).under(q)
    )
    assert_allclose(process.covariance(), expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    assert (np.diagonal(process.covariance()) <= flat(process.standard_deviations()) ** 2).all()  # of the sum


@pytest.mark.parametrize("diagonal", [False, True])
def test_a_covariance_is_carried_as_the_gradient_is(diagonal):
    """Along the columns of a root of the covariance: the gradient is linear, so differences are exact."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((9, 4))
    scale = np.diag([0.7, 1.2, 0.5]) if diagonal else np.tril(rng.standard_normal((3, 3))) + 2.0 * np.eye(3)
    frame = WhitenedFrame(rng.standard_normal(3), scale, diagonal)
    at = rng.standard_normal(9)

    def gradient(x):
        jacobian = np.zeros((3, 3))
        jacobian[np.tril_indices(3)] = x[3:]
        jacobian = jacobian + jacobian.T - np.diag(np.diagonal(jacobian))
        return np.concatenate([v.ravel() for v in frame.natural_gradient(WhitenedMoments(x[:3], jacobian))])

    carried = np.array([gradient(at + column) - gradient(at) for column in root.T])
    found = of_gradient(frame, root @ root.T)
    assert_allclose(found, carried.T @ carried, rtol=1e-9, atol=1e-10)
    shapes = ((3,), (3,)) if diagonal else ((3,), (3, 3))
    errors = standard_errors(found, tuple(np.zeros(s) for s in shapes))
    assert [e.shape for e in errors] == list(shapes)
    assert_allclose(np.concatenate([e.ravel() for e in errors]) ** 2, np.diagonal(found), atol=1e-12)


def covered(estimator, name, repetitions, quantile=1.96, seed=0):
    """The share of intervals that contain the exact entry."""
    model, q = TARGETS[name]
    rng = np.random.default_rng(seed)
    truth, found = exact(name), []
    for _ in range(repetitions):
        g = estimator(model, q, BATCH, rng)
        for value, error, right in zip(g.values, g.standard_error, truth, strict=True):
            found.append(np.abs(value - right) <= quantile * error)
    return np.mean(np.concatenate([part.ravel() for part in found]))


@pytest.mark.parametrize(
    ("process", "name", "n", "bar"),
    [
        ("derivative", "banana", 12, 0.9),
        ("joint", "banana", 12, 0.9),
        ("separable", "logistic", 12, 0.9),
        ("derivative", "logistic", 12, 0.9),
        ("separable", "banana", 12, 0.9),
        # a quartic whose tails n nodes do not show: .84 in 90 repetitions, .78 without the jackknife's bias
        ("separable", "banana", 50, 0.8),
    ],
)
def test_intervals_of_quadrature_hold_the_gradient(process, name, n, bar):
    """In the units of dL/dmu, at n independent nodes, on average over entries and 30 repetitions."""
    estimator = BayesianQuadrature(n, Independent(), memory=0, process=process, errors=True)
    assert covered(estimator, name, 30) >= bar


@pytest.mark.parametrize("name", ["banana", "logistic"])
def test_intervals_hold_with_memory_and_chosen_nodes(name):
    """The default, 2 nodes a step at a constant q: over steps 4 to 10 of 8 runs."""
    (model, q), estimator, truth, held = TARGETS[name], BayesianQuadrature(errors=True), exact(name), []
    for seed in range(8):
        rng, memory = np.random.default_rng(seed), estimator.start(model, q)
        for step in range(10):
            g = estimator(model, q, BATCH, rng, memory)
            memory = g.memory
            gaps = zip(g.values, truth, g.standard_error, strict=True)
            parts = [np.abs(value - right) <= 1.96 * error for value, right, error in gaps]
            held += [np.concatenate([part.ravel() for part in parts])] if step >= 3 else []
    assert np.mean(held) >= 0.9


def test_errors_of_quadrature_are_asked_for_and_change_nothing_else():
    model, q = TARGETS["banana"]
    plain = BayesianQuadrature(8, Independent(), memory=0)
    asked = replace(plain, errors=True)
    a, b = (e(model, q, BATCH, np.random.default_rng(1)) for e in (plain, asked))
    assert a.standard_error is None
    assert a.covariance is None
    for ours, theirs in zip(a.values, b.values, strict=True):
        assert_allclose(ours, theirs, rtol=0)
    assert b.covariance.shape == (6, 6)
    assert_allclose(b.covariance[3], b.covariance[4])  # G is symmetric
    assert_allclose(np.concatenate([e.ravel() for e in b.standard_error]) ** 2, np.diagonal(b.covariance))


def test_where_every_node_fails_standard_errors_are_infinite():
    def broken(theta):
        return banana(theta) * torch.tensor(float("nan"))

    estimator, model, q = BayesianQuadrature(4, errors=True), LogJoint(broken, 2), TARGETS["banana"][1]
    found = estimator(model, q, BATCH, np.random.default_rng(0), estimator.start(model, q))
    assert all(np.isinf(part).all() for part in found.standard_error)
