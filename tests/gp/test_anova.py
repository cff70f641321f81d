"""Analysis of variance and quadratic kernels: against autodiff, finite differences, limits, other kernels."""

import numpy as np
import pytest
from differences import central
from measure_contract import check_embedding

import gp
from gp.arrays import differences
from gp.fixed_points import Changes, gram_of
from gp.fixed_points.gram import covariance_with_pullback
from gp.kernels import Anova, Constant, QuadraticTrend, SquaredExponential, Sum, pack, unpack
from gp.kernels.crossed import crossed
from gp.measures import Gaussian, Uniform
from gp.observations import Gradients, Observations, Values, covariance
from gp.testing import check_kernel

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((9, 3))
OTHERS = RNG.standard_normal((4, 3))
ANOVA = Anova(np.array([0.8, 1.3, 2.0]), 0.7, 1.9)
TREND = QuadraticTrend(0.4, 0.3)
KERNELS = {
    "anova": ANOVA,
    "trend": TREND,
    "sum": Sum((ANOVA, TREND, Constant(2.0))),
    "two scales": Sum((ANOVA, TREND, Constant(2.0), Anova(ANOVA.lengthscale / 3.0, 0.7, 0.2))),
}


@pytest.mark.parametrize("name", list(KERNELS))
def test_contract(name):
    check_kernel(KERNELS[name], 3)


@pytest.mark.parametrize("name", ["anova", "trend"])
@pytest.mark.parametrize("measure", ["gaussian", "box"])
def test_embeddings(name, measure):
    measures = {
        "gaussian": Gaussian([0.2, -0.3, 0.1], [0.5, 1.0, 0.7]),
        "box": Uniform([-1.0, -0.5, 0.0], [0.5, 1.0, 2.0]),
    }
    check_embedding(KERNELS[name], measures[measure])


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("slopes", [0, 1, 4, 9])
def test_fixed_points_are_the_covariance_and_its_pullback(name, slopes):
    """Against `derivatives`, block by block, and torch's reverse mode or finite differences."""
    kernel = KERNELS[name]
    blocks = (Values(POINTS), Gradients(POINTS[:slopes])) if slopes else (Values(POINTS),)
    observed, gram = Observations(blocks), gram_of(kernel, Observations(blocks))
    matrix, pullback = gram(kernel)
    np.testing.assert_allclose(matrix, covariance(kernel, observed, observed), rtol=1e-11, atol=1e-13)
    weights = RNG.standard_normal(matrix.shape)
    weights = weights + weights.T
    vector = pack(kernel)

    numeric = central(lambda at: gram(unpack(kernel, at))[0], vector)
    np.testing.assert_allclose(pullback(weights), np.tensordot(weights, numeric), rtol=1e-6, atol=1e-6)
    if isinstance(pullback, Changes):
        changes = pullback.times(np.eye(len(matrix)))
        pulled = [np.vdot(weights, change) for change in changes]
        np.testing.assert_allclose(pulled, pullback(weights), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(np.moveaxis(changes, 0, -1), numeric, rtol=1e-6, atol=1e-6)
    if slopes:
        reverse = covariance_with_pullback(kernel, observed)[1](weights)
        np.testing.assert_allclose(pullback(weights), reverse, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*KERNELS, "squared exponential"])
@pytest.mark.parametrize("slopes", [0, 3, len(POINTS)])
def test_crossed_is_the_covariance(name, slopes):
    kernel = KERNELS.get(name, SquaredExponential(1.2, 0.8))
    observed = Observations((Values(POINTS), Gradients(POINTS[:slopes]))) if slopes else Values(POINTS)
    expected = covariance(kernel, Values(OTHERS), observed)
    np.testing.assert_allclose(crossed(kernel, OTHERS, POINTS, slopes), expected, rtol=1e-11, atol=1e-13)


def test_a_trend_is_the_covariance_of_random_quadratics():
    """200,000 draws: five standard errors of a covariance are exceeded once in two million."""
    rng, count = np.random.default_rng(1), 200_000
    x = OTHERS[:2]
    linear = np.sqrt(TREND.linear) * rng.standard_normal((count, 3))
    root = np.sqrt(TREND.quadratic) * rng.standard_normal((count, 3, 3))
    matrix = (root + np.swapaxes(root, 1, 2)) / np.sqrt(2)
    values = linear @ x.T + 0.5 * np.einsum("nd,cde,ne->cn", x, matrix, x)
    product = values[:, 0] * values[:, 1]
    assert TREND(x, x)[0, 1] == pytest.approx(product.mean(), abs=5 * product.std() / np.sqrt(count))


def test_what_is_no_anova_kernel_is_named():
    with pytest.raises(ValueError, match="lengthscale"):
        Anova(1.0)
    with pytest.raises(ValueError, match="interaction"):
        Anova(np.ones(2), -1.0)
    with pytest.raises(ValueError, match="D lengthscales"):
        ANOVA(POINTS[:, :2], POINTS[:, :2])


def test_a_fit_finds_few_coordinates():
    """Values of a sum of functions of one coordinate each: the interaction becomes small, the fit close."""
    x = np.random.default_rng(2).uniform(-2, 2, (40, 4))
    y = np.sin(2 * x).sum(1)
    posterior = gp.fit(x, y, Anova(np.ones(4)), noise=1e-6)
    at = np.random.default_rng(3).uniform(-1.8, 1.8, (50, 4))
    smooth = gp.fit(x, y, SquaredExponential(np.ones(4)), noise=1e-6)
    errors = [np.std(p.mean(at) - np.sin(2 * at).sum(1)) for p in (posterior, smooth)]
    assert errors[0] < 0.25 * errors[1]
    assert posterior.kernel.interaction < 0.3


def test_differences_are_in_the_order_of_coordinates_in_memory():
    found = differences(OTHERS, POINTS)
    assert found.flags.c_contiguous
    for d, plane in enumerate(found):
        np.testing.assert_array_equal(plane, np.subtract.outer(OTHERS[:, d], POINTS[:, d]))
