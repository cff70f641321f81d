"""Sample paths: moments against exact covariances, for every kernel; that they are functions."""

import numpy as np
import pytest
from gaussian_draws import FALSE_ALARM, mahalanobis_p_value

import gp
from gp.kernels import (
    Columns,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    White,
)

ARD = np.array([0.7, 1.6])


def f(x):
    return np.sin(2 * x[:, 0]) + x[:, 1] ** 2


def f_gradient(x):
    return np.stack([2 * np.cos(2 * x[:, 0]), 2 * x[:, 1]], axis=1)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x, at = rng.normal(size=(12, 2)), rng.normal(size=(7, 2))
    return x, f(x), at


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(ARD, 1.7),
        Matern12(ARD, 1.7),
        Matern32(ARD, 1.7),
        Matern52(0.9, 1.7),
        RationalQuadratic(ARD, 1.3, alpha=0.8),
        SquaredExponential(ARD) * Columns(Matern52(0.5), (1,)) * Constant(1.3),
        Periodic(np.array([0.9, 1.4]), np.array([1.3, 2.1]), 1.7),
        Matern52(ARD) * Columns(Periodic(1.2, 1.1), (0,)),
        Linear(0.6, 0.2) + Constant(0.4) + Columns(Linear(0.3), (1,)) + SquaredExponential(0.8),
        SquaredExponential(ARD, 1.7) * (Columns(Matern52(0.5) + Constant(0.4), (1,)) + Matern32(2.0, 0.6)),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_paths_have_the_posterior_moments(kernel, data):
    x, y, at = data
    posterior = gp.GaussianProcess(kernel, gp.means.Constant(0.3), noise=0.05).condition(x, y)
    paths = np.stack([posterior.sample_path(seed, n_features=256)(at) for seed in range(1000)])
    assert mahalanobis_p_value(paths, posterior.mean(at), posterior.covariance(at)) > FALSE_ALARM


def test_a_path_is_one_function_and_has_a_gradient(data):
    x, y, at = data
    posterior = gp.GaussianProcess(SquaredExponential(ARD, 1.7) + Linear(0.3)).condition(
        [gp.Values(x), gp.Gradients(at)], [y, f_gradient(at)]
    )
    path = posterior.sample_path(seed=3)
    np.testing.assert_allclose(path(x), y, atol=1e-6)  # no noise: it passes through the data
    np.testing.assert_allclose(path.gradient(at), f_gradient(at), atol=1e-6)
    np.testing.assert_allclose(path(at)[:3], path(at[:3]), atol=1e-12)
    step = np.array([1e-5, 0.0])
    slope = (path(x + step) - path(x - step)) / 2e-5
    np.testing.assert_allclose(path.gradient(x)[:, 0], slope, atol=1e-6)
    prior = gp.GaussianProcess(SquaredExponential(ARD, 1.7)).sample_path(at[:0], seed=0)
    assert prior(at).shape == (7,)
    assert prior.gradient(at).shape == (7, 2)


def test_kernels_without_features_say_so(data):
    x, y, _ = data

    class Other(gp.kernels.Stationary):
        def profile(self, s):
            return 1 / (1 + s)

    kernel = Other(1.0)
    with pytest.raises(TypeError, match=r"Other has no random features.*sample\(x, n, seed\)"):
        gp.GaussianProcess(kernel).condition(x, y, 0.1).sample_path(seed=0)
    for kernel in (Other(1.0), White(), Linear() * SquaredExponential()):
        with pytest.raises(TypeError, match="has no random features"):
            gp.GaussianProcess(kernel).sample_path(x, seed=0)
    with pytest.raises(ValueError, match="have 2 columns"):
        gp.GaussianProcess(Columns(SquaredExponential(), (2,))).sample_path(x, seed=0)
