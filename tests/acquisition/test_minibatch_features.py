"""Kernels over data: the factorisation, the MMD, quadrature weights."""

import itertools

import numpy as np
import pytest

import gp
from acquisition import minibatch
from acquisition.minibatch import (
    Features,
    affine_in_labels,
    signed,
    standardised,
)
from acquisition.minibatch.features import Coefficients
from acquisition.minibatch.pools import quadrature_weights
from gp.kernels import Matern32, SquaredExponential

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))


def test_blocks_draw_pivots_as_one_at_a_time_does():
    """The first pivot is uniform, the second has probabilities in proportion to the residuals. Chi-squared,
    false alarm 1e-6.
    """
    import scipy.stats

    from acquisition.minibatch.features import pivoted_cholesky

    x = np.array([[0.0], [0.1], [1.0], [3.0]])
    kernel = SquaredExponential(1.0)
    gram = kernel(x, x)
    expected = np.zeros((4, 4))
    for i in range(4):
        left = np.maximum(1.0 - gram[i] ** 2, 0.0)
        expected[i] = left / left.sum() / 4
    # the residual after two pivots identifies them
    seen = np.zeros((4, 4))
    rng = np.random.default_rng(0)
    for _ in range(4000):
        _, residual = pivoted_cholesky(x, kernel, 2, rng)
        i, j = sorted(np.argsort(residual)[:2])
        seen[i, j] += 1
    pairs = [(i, j) for i, j in itertools.combinations(range(4), 2)]
    chances = np.array([expected[i, j] + expected[j, i] for i, j in pairs])
    counts = np.array([seen[i, j] for i, j in pairs])
    assert scipy.stats.chisquare(counts, 4000 * chances / chances.sum()).pvalue > 1e-6


def test_the_squared_discrepancy_is_the_integral_variance_of_a_gaussian_process():
    def squared_discrepancy(indices, weights):
        quadratic = weights @ features.gram(indices) @ weights
        return gram.mean() - 2.0 * weights @ features.kernel_mean(indices) + quadratic

    kernel = Matern32(0.8)
    features = Features.of(X, kernel, rank=60)
    gram = kernel(X, X)
    chosen = np.array([3, 17, 5, 41, 59])
    weights = quadrature_weights(features, chosen) / 60
    posterior = gp.GaussianProcess(kernel, noise=1e-9).condition(X[chosen], np.zeros(5))
    integral = posterior.integral(gp.measures.Empirical(X))
    assert squared_discrepancy(chosen, weights) == pytest.approx(float(integral.variance), rel=1e-4)
    # and of any weights by brute force
    other = RNG.normal(size=5)
    all_weights = -np.full(60, 1 / 60)
    all_weights[chosen] += other
    brute = all_weights @ kernel(X, X) @ all_weights
    assert squared_discrepancy(chosen, other) == pytest.approx(brute, rel=1e-6)


def test_quadrature_weights_are_the_gaussian_process_mean():
    kernel = Matern32(0.8)
    features = Features.of(X, kernel, rank=60)
    chosen, y = np.array([3, 17, 5, 41, 59]), RNG.normal(size=5)
    posterior = gp.GaussianProcess(kernel, noise=1e-9).condition(X[chosen], y)
    mean = float(posterior.integral(gp.measures.Empirical(X)).mean)
    assert quadrature_weights(features, chosen) @ y / 60 == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("rank", [5, 60])
def test_weights_of_all_rows_are_one_each(noise, rank):
    features = Features.of(X, rank=rank)
    np.testing.assert_allclose(quadrature_weights(features, np.arange(60), noise), 1.0, atol=1e-6)


def test_coefficients_after_gradients_are_those_of_a_joint_gaussian():
    """In two steps, before each of which the covariance C becomes (1 - d^2) C + d^2 I."""
    drift, noise = 0.4, np.array([0.3, 0.5, 0.2])
    found, mean, covariance = Coefficients.prior(Features.of(X, rank=3)), np.zeros((4, 2)), np.eye(4)
    for _ in range(2):
        design, gradients = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 2))
        found = found.observed(design, gradients, noise, drift)
        covariance = (1 - drift**2) * covariance + drift**2 * np.eye(4)
        precision = np.linalg.inv(covariance) + design.T @ (design / noise[:, None])
        mean = np.linalg.solve(
            precision, np.linalg.solve(covariance, mean) + design.T @ (gradients / noise[:, None])
        )
        covariance = np.linalg.inv(precision)
        np.testing.assert_allclose(found.table.T, mean, rtol=1e-9)
        np.testing.assert_allclose(found.covariance, covariance, rtol=1e-9, atol=1e-12)


def test_representations():
    x, y = RNG.normal(size=(20, 3)) * [1, 10, 0], RNG.integers(2, size=20).astype(float)
    table = standardised(x)
    np.testing.assert_allclose(table.std(axis=0), [1, 1, 0], atol=1e-12)
    np.testing.assert_array_equal(signed(x, y), np.where(y[:, None] == 1, x, -x))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Features.of(X, Matern32(0.0)), ValueError, "lengthscale"),
        (lambda: Features.of(X, "matern"), TypeError, "kernel is 'matern'"),
        (lambda: Features.of(X, rank=0), ValueError, "rank is 0; it must be at least 1"),
        (lambda: Features.of(X[:, 0]), ValueError, r"x is a .*\(60,\)"),
        (lambda: Features.of([["a"]]), TypeError, "x cannot be read as an array of real numbers"),
        (lambda: Features.of(np.array([[1.0], [np.nan]])), ValueError, "x is nan in row 1, column 0"),
        (lambda: signed(X, np.full(60, 2.0)), ValueError, "label 0 or 1"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_labels_of_the_affine_kernel_are_what_inputs_leave_of_them():
    """The features are compared with the noise that generated the labels, which is correlated with nothing
    else in the data.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1500, 2))
    noise = rng.standard_normal((1500, 2))
    smooth = np.column_stack([5.0 * np.sin(x[:, 0]), x[:, 1] ** 2 - 4.0 * x[:, 0]])
    rows, _ = affine_in_labels(x, smooth + 0.3 * noise)
    assert rows.shape == (1500, 4)
    np.testing.assert_allclose(rows[:, :2], standardised(x))
    for label, true in zip(rows[:, 2:].T, noise.T, strict=True):
        assert np.corrcoef(label, true)[0, 1] > 0.9


def test_gradients_affine_in_labels_are_linear_in_the_features_of_the_affine_kernel():
    """Gradients J(x)^T (y - f(x)) of an exponential curve at new data: the share of their variance that a
    linear fit leaves.
    """
    rng = np.random.default_rng(4)
    x = rng.uniform(0.0, 2.0, size=(1200, 1))
    rate = 1.0 + 0.2 * rng.standard_normal((1200, 2))  # two measurements, at times 1 and 2
    times = np.array([1.0, 2.0])
    curve = np.exp(-x * times)
    y = curve + 0.1 * rate
    slope = -times * x * curve  # the derivative of the curve in the logarithm of a common rate
    gradient = np.sum(slope * (y - curve), axis=1)
    features = Features.of(*affine_in_labels(x, y), rank=60)
    design = np.column_stack([np.ones(1200), features.phi])
    known, new = design[:300], design[300:]
    gram = known.T @ known + 0.01 * np.eye(known.shape[1])
    left = gradient[300:] - new @ np.linalg.solve(gram, known.T @ gradient[:300])
    assert left.var() < 0.05 * gradient.var()


def test_an_affine_kernel_needs_labels_of_the_same_rows():
    with pytest.raises(ValueError, match="one row of each"):
        affine_in_labels(X, X[:-1])


@pytest.mark.parametrize(
    "made",
    [
        lambda features: minibatch.Balanced(5, features),
        lambda features: minibatch.QuadratureWeighted(5, features),
        lambda features: minibatch.Herding(5, features),
        lambda features: minibatch.SequentialBQ(5, features),
        lambda features: minibatch.GPControlVariate(minibatch.Uniform(5), features),
    ],
)
def test_rows_that_are_no_features_are_refused(made):
    rows = np.random.default_rng(0).standard_normal((20, 2))
    made(Features.of(rows))
    with pytest.raises(TypeError, match=r"features is .*made from the data by minibatch.Features.of\(rows\)"):
        made(rows)
    with pytest.raises(TypeError, match=r"Features.of\(\*rows_and_kernel\)"):
        made((rows, None))
