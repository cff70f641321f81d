"""Values without noise: near copies, kernels of low rank, points far from zero."""

import mpmath
import numpy as np
import pytest

import gp
from gp.kernels import Columns, Constant, Linear, Matern52, Periodic, QuadraticTrend, SquaredExponential


def exact_covariance(x, at, profile):
    """The posterior covariance at points on a line, in 60 digits."""
    with mpmath.workdps(60):
        x, at = ([mpmath.mpf(float(t)) for t in part] for part in (x, at))
        gram = mpmath.matrix([[profile(a - b) for b in x] for a in x])
        cross = mpmath.matrix([[profile(a - b) for b in x] for a in at])
        prior = mpmath.matrix([[profile(a - b) for b in at] for a in at])
        found = prior - cross * mpmath.inverse(gram) * cross.T
        return np.array(found.tolist(), dtype=float)


PROFILES = {
    "se": (SquaredExponential(), lambda t: mpmath.exp(-t * t / 2)),
    "matern": (
        Matern52(),
        lambda t: (1 + mpmath.sqrt(5) * abs(t) + 5 * t * t / 3) * mpmath.exp(-mpmath.sqrt(5) * abs(t)),
    ),
}


@pytest.mark.parametrize("gap", [1e-4, 1e-5, 1e-6, 3e-7, 1e-8])
@pytest.mark.parametrize("name", PROFILES)
def test_covariances_beside_near_copies_are_positive_and_not_too_small(name, gap):
    kernel, profile = PROFILES[name]
    x = np.array([-0.7, -0.7 + gap, 0.45, 0.45 + 1.3 * gap])
    at = np.linspace(-1.6, 1.4, 19)
    posterior = gp.GaussianProcess(kernel).condition(x[:, None], np.cos(x))
    covariance = posterior.covariance(at[:, None])
    exact = exact_covariance(x, at, profile)
    assert np.linalg.eigvalsh(covariance).min() > -1e-13  # rounding of the sum itself
    assert np.all(covariance.diagonal() > 0.999 * exact.diagonal())
    # rounding hides at most the slope of a pair: what is left is a point alone
    alone = exact_covariance(x[::2], at, profile).diagonal()
    assert np.all(covariance.diagonal() < 1.001 * alone)
    np.testing.assert_allclose(posterior.variance(at[:, None]), covariance.diagonal(), atol=1e-14)
    other = posterior.covariance(at[:, None], at[:7, None])
    np.testing.assert_allclose(other, covariance[:, :7], atol=1e-13)
    draws = posterior.sample(at[:, None], 4000, 0)
    # the variance of 4000 draws has a relative sd of .022
    np.testing.assert_allclose(draws.var(axis=0), covariance.diagonal(), rtol=0.12, atol=1e-7)


LINE = np.arange(5.0)[:, None]
_NORMAL = np.random.default_rng(4).normal(size=(7, 4))
MISSED = {
    "a parabola by a line": (Linear(), LINE, LINE[:, 0] ** 2),
    "a zigzag by a line": (Linear() + Constant(), LINE, np.array([0.0, 1, 0, 1, 0])),
    "a wave by a parabola": (QuadraticTrend(), LINE, np.sin(2 * LINE[:, 0])),
    "near copies": (SquaredExponential(), np.array([[0.0], [2e-9], [1.5]]), np.array([0.0, 1.0, 0.3])),
    "steep copies": (SquaredExponential(), np.array([[0.0], [8e-7], [1.5]]), np.array([0.0, 1.0, 0.3])),
    "large": (SquaredExponential(), np.array([[0.0], [2e-9], [1.5]]), 1e6 * np.array([0.0, 1.0, 0.3])),
    "an unseen column": (
        Columns(SquaredExponential(), (1,)),
        np.array([[0.0, 0.2], [1.0, 0.2], [0.5, 1.0]]),
        np.array([0.0, 1.0, 0.5]),
    ),
    "copies in two of three columns": (
        Columns(Matern52(np.ones(2)), (0, 1)),
        np.concatenate([_NORMAL[:, :3], [[0.3, 0.1, 4.0], [0.3, 0.1 + 2e-8, 9.0]]]),
        np.append(_NORMAL[:, 3], [2.0, -1.0]),
    ),
    "a period apart": (Periodic(1.0, 0.5), np.array([[0.0], [0.5], [0.2]]), np.array([0.0, 1.0, 0.3])),
    "far from zero": (
        Linear() + SquaredExponential(1e-6),
        2e8 + 1e-6 * np.arange(6.0)[:, None],
        np.array([0.0, 1, 3, 2, 0, 1]),
    ),
}


@pytest.mark.parametrize("gap", [3e-7, 1e-9])
@pytest.mark.parametrize("level", [1.0, -37.0])
def test_values_whose_differences_are_their_rounding_are_held(gap, level):
    """Of copies at a maximum: their range, 1e-14 of their size, is no part that could be missed."""
    x = np.array([[0.0], [gap]])
    posterior = gp.GaussianProcess(Matern52()).condition(x, level * np.cos(x[:, 0]))
    np.testing.assert_allclose(posterior.mean(x), level, rtol=1e-13)


@pytest.mark.parametrize("name", MISSED)
def test_values_that_the_kernel_cannot_hold_are_refused(name):
    kernel, x, y = MISSED[name]
    with pytest.raises(ValueError, match=r"is missed by .* give `noise`"):
        gp.GaussianProcess(kernel).condition(x, y)
    gp.GaussianProcess(kernel, noise=0.5 * y.var()).condition(x, y)


@pytest.mark.parametrize(
    "name", ["a parabola by a line", "a wave by a parabola", "near copies", "copies in two of three columns"]
)
def test_a_fit_without_noise_refuses_them_too(name):
    kernel, x, y = MISSED[name]
    with pytest.raises(ValueError, match=r"is missed by .* give `noise`"):
        gp.fit(x, y, kernel, noise=None)
    assert gp.fit(x, y, kernel).noise > 0


@pytest.mark.parametrize("centre", [0.0, 7.0])
def test_a_function_that_is_known_to_be_zero_somewhere_is_held(centre):
    """A linear kernel at its offset has no variance, of which no deviation is a part, not even 1e-50."""
    x = np.array([-0.9, -0.5, 0.0, 0.5, 0.9])[:, None]
    posterior = gp.fit(centre + x, x[:, 0] * np.cos(x[:, 0]), Linear() * Matern52(), noise=None)
    np.testing.assert_allclose(posterior.mean(centre + x), x[:, 0] * np.cos(x[:, 0]), atol=1e-10)
    with pytest.raises(ValueError, match="is missed by 1"):
        gp.GaussianProcess(Linear() * Matern52()).condition(x, 1 + x[:, 0])


def test_an_observation_that_is_added_is_refused_too():
    x = np.linspace(0, 1, 15)[:, None]
    posterior = gp.GaussianProcess(SquaredExponential()).condition(x, np.sin(x[:, 0]))
    assert posterior.jitter > 0
    with pytest.raises(ValueError, match="is missed by"):
        posterior.extend(x[7:8] + 1e-7, np.sin(x[7:8, 0]) + 0.01)
    posterior.extend(x[7:8] + 1e-7, np.sin(x[7:8, 0] + 1e-7))


@pytest.mark.parametrize("size", [0.1, 1.0, 1e5])
def test_smooth_values_are_held_whatever_their_size(size):
    """Dense points, whose covariance needs jitter, and near copies."""
    rng = np.random.default_rng(5)
    for dimension in (1, 2, 3):
        x = rng.uniform(-1, 1, (30, dimension))
        x = np.concatenate([x, x[:2] + 1e-8 * rng.standard_normal((2, dimension))])
        y = size * (np.sin(x.sum(axis=1)) + 0.5)
        for kernel in (SquaredExponential(), Matern52(1.5)):
            posterior = gp.GaussianProcess(kernel).condition(x, y)
            assert posterior.jitter > 0
            np.testing.assert_allclose(posterior.mean(x), y, atol=1e-4 * size)


def test_a_column_far_from_zero_has_the_unit_of_its_spread():
    x = -1e8 + 1e-6 * np.random.default_rng(1).permutation(np.arange(12.0))[:, None]
    y = np.cos(4e5 * (x[:, 0] + 1e8))
    for noise in (None, "learn"):
        posterior = gp.fit(x, y, Linear() + SquaredExponential(), noise=noise)
        np.testing.assert_allclose(posterior.mean(x), y, atol=1e-2)
