"""Posteriors: against peers and closed forms, derivatives, extension, sampling, bad input."""

import gpytorch
import numpy as np
import pytest
import torch
from gaussian_draws import FALSE_ALARM, mahalanobis_p_value
from negative_quadratic import NegativeQuadratic
from sklearn.gaussian_process import GaussianProcessRegressor

import gp
from gp import linalg
from gp.kernels import (
    Columns,
    Constant,
    Linear,
    Matern52,
    Periodic,
    SquaredExponential,
    White,
)

ARD = np.array([0.7, 1.6])
KERNELS = {
    "se": SquaredExponential(ARD, 1.7),
    "matern52": Matern52(ARD, 2.0),
    "sum": SquaredExponential(ARD, 0.5) + Linear(0.4) + Constant(0.3),
    "product": Matern52(ARD) * Columns(Periodic(1.2, 1.1), (0,)),
}


def f(x):
    return np.sin(2 * x[:, 0]) + x[:, 1] ** 2


def f_gradient(x):
    return np.stack([2 * np.cos(2 * x[:, 0]), 2 * x[:, 1]], axis=1)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x, at = rng.normal(size=(12, 2)), rng.normal(size=(7, 2))
    return x, f(x), at


def test_agrees_with_scikit_learn(data):
    import sklearn.gaussian_process.kernels as sk

    x, y, at = data
    noise = np.linspace(0.01, 0.2, 12)
    ours = gp.GaussianProcess(KERNELS["se"], noise=noise).condition(x, y)
    peer = GaussianProcessRegressor(1.7 * sk.RBF(ARD), alpha=noise, optimizer=None).fit(x, y)
    mean, covariance = peer.predict(at, return_cov=True)
    np.testing.assert_allclose(ours.mean(at), mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.covariance(at), covariance, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.variance(at), np.diag(covariance), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ours.log_marginal_likelihood, peer.log_marginal_likelihood_value_, rtol=1e-12)


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        matern = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2)
        self.covar_module = gpytorch.kernels.ScaleKernel(matern)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_agrees_with_gpytorch(data):
    x, y, at = (torch.from_numpy(part) for part in data)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = ExactGP(x, y, likelihood).double()
    likelihood.noise, model.covar_module.outputscale, model.mean_module.constant = 0.05, 2.0, 0.4
    model.covar_module.base_kernel.lengthscale = torch.tensor(ARD)
    model.eval()
    ours = gp.GaussianProcess(KERNELS["matern52"], gp.means.Constant(0.4), 0.05).condition(x, y)
    with torch.no_grad():
        peer = model(at)
    np.testing.assert_allclose(ours.mean(at), peer.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.covariance(at), peer.covariance_matrix, rtol=0, atol=1e-8)


@pytest.mark.parametrize("make", [np.float32, torch.float32])
def test_float32_stays_float32(make, data):
    x, y, at = data
    if make is torch.float32:
        x, y, at = (torch.from_numpy(part).float() for part in data)
    else:
        x, y, at = (part.astype(make) for part in data)
    posterior = gp.GaussianProcess(KERNELS["se"], noise=0.1).condition(x, y)
    for result in (
        posterior.mean(at),
        posterior.variance(at),
        posterior.sample(at, 2, seed=0),
        posterior.sample_path(seed=0)(at),
        posterior.gradient(at).covariance,
        posterior.extend(at, y[:7]).mean(at),
        posterior.log_marginal_likelihood,
        *posterior.predict(at, return_std=True),
        *gp.fit(x, y, n_starts=1).predict(at, return_std=True),
    ):
        assert result.dtype == make


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_moments_are_those_of_differences(name, data):
    x, y, at = data
    posterior = gp.GaussianProcess(KERNELS[name], NegativeQuadratic(1.0), 0.1).condition(x, y)
    gradient = posterior.gradient(at)
    step = 1e-4  # a central difference is off by step^2 / 6 times a third derivative, here up to 300
    steps = step * np.eye(2)
    for d in range(2):
        ahead, behind = at + steps[d], at - steps[d]
        mean = (posterior.mean(ahead) - posterior.mean(behind)) / (2 * step)
        np.testing.assert_allclose(gradient.mean[:, d], mean, atol=2e-6)
        both = np.concatenate([ahead, behind])
        covariance = posterior.covariance(both)
        m = len(at)
        difference = covariance[:m, :m] - covariance[:m, m:] - covariance[m:, :m]
        difference = np.diag(difference + covariance[m:, m:]) / (2 * step) ** 2
        np.testing.assert_allclose(gradient.covariance[:, d, d], difference, rtol=1e-5, atol=1e-5)


def test_samples_have_the_posterior_moments(data):
    x, y, at = data
    process = gp.GaussianProcess(KERNELS["matern52"], noise=0.05)
    posterior = process.condition(x, y)
    draws = posterior.sample(at, 4000, seed=1)
    assert mahalanobis_p_value(draws, posterior.mean(at), posterior.covariance(at)) > FALSE_ALARM
    prior = process.sample(at, 4000, seed=2)
    assert mahalanobis_p_value(prior, np.zeros(7), process.covariance(at)) > FALSE_ALARM
    np.testing.assert_array_equal(draws, posterior.sample(at, 4000, seed=1))


def test_jitter_is_zero_unless_needed_and_reported(data):
    x, y, at = data
    assert gp.GaussianProcess(KERNELS["se"]).condition(x, y).jitter == 0
    twice = np.concatenate([x, x])
    posterior = gp.GaussianProcess(KERNELS["se"]).condition(twice, np.concatenate([y, y]))
    assert 0 < posterior.jitter < 1e-10
    np.testing.assert_allclose(
        posterior.mean(at), gp.GaussianProcess(KERNELS["se"]).condition(x, y).mean(at), atol=1e-8
    )
    extended = gp.GaussianProcess(KERNELS["se"]).condition(x, y).extend(x[:1], y[:1])
    assert 0 < extended.jitter < 1e-10


def test_one_point_with_two_values_needs_noise(data):
    x, y, at = data
    twice, values = np.concatenate([x, x[3:4]]), np.append(y, y[3] + 0.5)
    with pytest.raises(ValueError, match=r"x\[3\] and x\[12\] are the same point"):
        gp.GaussianProcess(KERNELS["se"]).condition(twice, values)
    with pytest.raises(ValueError, match=r"x\[3\] and x\[12\] are the same point"):
        gp.GaussianProcess(KERNELS["se"]).condition(x, y).extend(twice[12:], values[12:])
    noisy = gp.GaussianProcess(KERNELS["se"], noise=0.1).condition(twice, values)
    assert np.all(np.isfinite(noisy.mean(at)))


def test_no_point_and_one_point():
    at = np.ones((3, 2))
    none = gp.GaussianProcess(KERNELS["se"], gp.means.Constant(2.0)).condition(at[:0], at[:0, 0])
    np.testing.assert_array_equal(none.mean(at), 2.0)
    assert none.log_marginal_likelihood == 0
    assert none.sample(at, 2, seed=0).shape == (2, 3)
    assert none.sample_path(seed=0)(at).shape == (3,)
    one = none.extend(at[:1], np.array([1.0]))
    np.testing.assert_allclose(one.mean(at), 1.0)
    empty = torch.ones((0, 2), dtype=torch.float64)
    torch_none = gp.GaussianProcess(KERNELS["se"]).condition(empty, empty[:, 0])
    assert torch_none.variance(torch.ones((3, 2), dtype=torch.float64)).shape == (3,)


BAD = {
    "NaN in y": (lambda x, y: (x, np.where(np.arange(12) == 4, np.nan, y)), ValueError, "y is nan in row 4"),
    "inf in x": (
        lambda x, y: (np.where(x == x[2, 1], np.inf, x), y),
        ValueError,
        "x is inf in row 2, column 1",
    ),
    "one column": (lambda x, y: (x[:, 0], y), ValueError, r"x\[:, None\]"),
    "too few y": (lambda x, y: (x, y[:-1]), ValueError, "y is a ndarray of shape"),
    "mixed kinds": (lambda x, y: (torch.from_numpy(x), y), TypeError, "y is a ndarray"),
    "mixed dtypes": (
        lambda x, y: (torch.from_numpy(x), torch.from_numpy(y).float()),
        TypeError,
        "float32",
    ),
    "masked": (lambda x, y: (np.ma.masked_greater(x, 1.0), y), ValueError, "x has . masked entries"),
    "text": (lambda x, y: (x, ["a"] * 12), TypeError, "y cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_observations_are_named(name, data):
    x, y, _ = data
    change, error, message = BAD[name]
    with pytest.raises(error, match=message):
        gp.GaussianProcess(KERNELS["se"]).condition(*change(x, y))


@pytest.mark.parametrize("noise", [-1.0, np.nan, np.full(12, -1.0), np.ones(5)])
def test_bad_noise_is_named(noise, data):
    x, y, _ = data
    with pytest.raises(ValueError, match="noise"):
        gp.GaussianProcess(KERNELS["se"], noise=noise).condition(x, y)


def test_noise_that_single_precision_does_not_have_is_named(data):
    x, y = (part.astype(np.float32) for part in data[:2])
    with pytest.raises(ValueError, match=r"noise = 1e\+39: give variances below 3.403e\+38"):
        gp.GaussianProcess(KERNELS["se"]).condition(x, y, noise=1e39)
    given = gp.GaussianProcess(KERNELS["se"]).condition(*data[:2], noise=np.float32(0.5))
    assert float(given.noise) == 0.5
    with pytest.raises(ValueError, match=r"noise = 1e\+39"):
        gp.fit(x, y, noise=1e39, n_starts=1, max_iterations=1)


def test_noise_may_be_a_list_and_arrays_of_other_kinds_are_taken(data):
    x, y, at = data
    process = gp.GaussianProcess(KERNELS["se"])
    expected = process.condition(x, y, np.full(12, 0.1)).mean(at)
    np.testing.assert_array_equal(process.condition(x, y, [0.1] * 12).mean(at), expected)
    unmasked = np.ma.masked_array(x, mask=False)
    np.testing.assert_array_equal(process.condition(unmasked, list(y), [0.1] * 12).mean(at), expected)
    with pytest.raises(TypeError, match="noise = True"):
        process.condition(x, y, True)


def test_other_bad_arguments_are_named(data):
    x, y, at = data
    posterior = gp.GaussianProcess(KERNELS["se"], noise=np.ones(12)).condition(x, y)
    with pytest.raises(ValueError, match="noise of the new ones"):
        posterior.extend(at, f(at))
    with pytest.raises(ValueError, match="columns"):
        posterior.mean(at[:, :1])
    with pytest.raises(TypeError, match="same device"):
        posterior.mean(torch.from_numpy(at))
    with pytest.raises(ValueError, match="dimensions"):
        gp.Gradients(x, (2,))
    with pytest.raises(TypeError, match="derivatives"):
        gp.GaussianProcess(White()).condition(gp.Gradients(x), f_gradient(x))
    with pytest.raises(TypeError, match="kernel"):
        gp.GaussianProcess("rbf")
    with pytest.raises(TypeError, match="mean"):
        gp.GaussianProcess(White(), "zero")


class Indefinite(SquaredExponential):
    def profile(self, s):
        return -1.0 + 0 * s


def test_a_covariance_that_is_none_is_refused(data):
    x, y, _ = data
    with pytest.raises(gp.NotPositiveDefiniteError, match="check_kernel"):
        gp.GaussianProcess(Indefinite()).condition(x, y)


MEANS = [
    gp.means.Zero(),
    gp.means.Constant(1.3),
    gp.means.Linear(0.3, np.array([1.0, -2.0])),
    NegativeQuadratic(1.0, np.array([0.2, -0.3]), np.array([0.8, 1.7])),
    gp.means.Fixed(NegativeQuadratic(1.0)),
]


@pytest.mark.parametrize("mean", MEANS, ids=lambda mean: type(mean).__name__)
def test_means(mean, data):
    x, _, at = data
    points = torch.from_numpy(x).requires_grad_()
    value = mean(points)
    np.testing.assert_allclose(value.detach(), mean(x), rtol=1e-14)
    (value.sum() + 0 * points.sum()).backward()
    np.testing.assert_allclose(points.grad, mean.gradient(x), atol=1e-14)
    location, root = at[0], np.array([[0.6, 0.0], [0.3, 1.1]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)  # exact to degree 9
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2) @ root.T + location
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    np.testing.assert_allclose(mean.expectation(location, root @ root.T), weights @ mean(grid), atol=1e-12)
    basis = mean.basis(x)
    ones = np.ones(basis.shape[1])
    offset = mean.with_coefficients(0 * ones)(x)
    np.testing.assert_allclose(mean.with_coefficients(ones)(x), offset + basis @ ones)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_many_extensions_equal_a_refit(make):
    """More extensions than a factor has room for; all posteriors on the way remain unchanged."""
    rng = np.random.default_rng(8)
    x, at = rng.uniform(-2, 2, size=(90, 2)), make(rng.normal(size=(4, 2)))
    points, y = make(x), make(f(x))
    process = gp.GaussianProcess(SquaredExponential(ARD), noise=1e-3)
    posterior = early = process.condition(points[:10], y[:10])
    for i in range(10, 90):
        posterior = posterior.extend(points[i : i + 1], y[i : i + 1])
        early = posterior if i == 40 else early
    for extended, n in ((posterior, 90), (early, 41)):
        refit = process.condition(points[:n], y[:n])
        for method in ("mean", "covariance"):
            ours, theirs = getattr(extended, method)(at), getattr(refit, method)(at)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8)
        np.testing.assert_allclose(extended.weights, refit.weights, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(extended.factor.lower, refit.factor.lower, atol=1e-10)
        np.testing.assert_allclose(extended.log_marginal_likelihood, refit.log_marginal_likelihood, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_values_and_gradients_in_any_unit(scale, data):
    """The variances of the rows differ by 1e16, and jitter is relative to each."""
    x, y, at = data
    kernel = SquaredExponential(ARD * scale, 1.7)
    blocks = [gp.Values(x * scale), gp.Gradients(x[:3] * scale), gp.Values(x[:2] * scale)]
    posterior = gp.GaussianProcess(kernel).condition(blocks, [y, f_gradient(x[:3]) / scale, y[:2]])
    reference = gp.GaussianProcess(KERNELS["se"]).condition(
        [gp.Values(x), gp.Gradients(x[:3])], [y, f_gradient(x[:3])]
    )
    assert posterior.jitter > 0
    np.testing.assert_allclose(posterior.mean(at * scale), reference.mean(at), atol=1e-7)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_an_extension_that_cannot_be_made_is_a_refit(make, data, monkeypatch):
    def refuse(*_):
        raise gp.NotPositiveDefiniteError("no jitter helps the new rows alone")

    x, y, at = (make(part) for part in data)
    process = gp.GaussianProcess(KERNELS["se"], noise=0.01)
    first = process.condition(x[:8], y[:8])
    monkeypatch.setattr("gp.regression.posterior.extend", refuse)
    extended, refit = first.extend(x[8:], y[8:]), process.condition(x, y)
    np.testing.assert_array_equal(extended.covariance(at), refit.covariance(at))
    np.testing.assert_array_equal(extended.mean(at), refit.mean(at))


def test_noise_free_points_without_end_can_be_added():
    """The jitter of successive rows accumulates until a further row may have none; refitting all rows
    together needs little.
    """
    rng = np.random.default_rng(15)
    for _ in range(4):  # with OpenBLAS, two of these come to such a row
        x = rng.uniform(-1, 1, (60, 1))
        y = np.cos(x[:, 0])
        posterior = gp.GaussianProcess(SquaredExponential(4.0)).condition(x[:5], y[:5])
        for i in range(5, 60):
            posterior = posterior.extend(x[i : i + 1], y[i : i + 1])
        at = rng.uniform(-0.8, 0.8, (20, 1))
        np.testing.assert_allclose(posterior.mean(at), np.cos(at[:, 0]), atol=1e-4)


def test_jitter_of_single_precision_stays_small():
    """A singular covariance in float32: jitter is at most a hundredth of the variance, or none is enough."""
    x = np.linspace(0, 1, 40, dtype=np.float32)[:, None]
    posterior = gp.GaussianProcess(SquaredExponential(3.0)).condition(x, np.cos(x[:, 0]))
    assert 0 < posterior.jitter < 1e-2
    with pytest.raises(gp.NotPositiveDefiniteError, match="jitter"):
        linalg.cholesky(np.array([[1.0, 1.2], [1.2, 1.0]], dtype=np.float32))
