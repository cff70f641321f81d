"""Standard deviations of hyperparameters, against a Hessian and against a posterior on a grid.

On the grid are lengthscales of noise-free gradients. The covariance is singular in double precision, and its
evidence rough. The grid is computed in extended precision, from the formulas of the squared exponential and
an elimination of its own.
"""

import numpy as np
import pytest
import torch
from extended_precision import drawn, log_evidence, needs_extended_precision

import gp
from gp.linalg import next_jitter


@needs_extended_precision
@pytest.mark.parametrize(("n", "seed"), [(15, 0), (15, 2), (25, 3)])
def test_sd_of_lengthscales_is_that_of_a_posterior_on_a_grid(n, seed):
    """Up to skewness, which Laplace's approximation neglects, and an optimum that rounding shifts by tenths
    of an sd.
    """
    x, y = drawn(seed, n)
    found = gp.fit([gp.Values(x), gp.Gradients(x)], [y[:n], y[n:]], noise=None).hyperparameters
    # whether the optimum itself needs any is a matter of the last digit; its neighbours do
    jitter = max(found.jitter, next_jitter(0.0, x))
    points = np.linspace(-4, 4, 13)
    step = 2.5 / n * np.array([0.25, 0.35])  # about a standard deviation; the grid shows whether it is
    values = [
        [log_evidence(x, y, found.values[1:3] * np.exp(step * [a, b]), jitter) for b in points]
        for a in points
    ]
    weights = np.exp(np.array(values) - np.max(values))
    weights /= weights.sum()
    sds = []
    for axis in (1, 0):
        marginal = weights.sum(axis=axis)
        assert max(marginal[0], marginal[-1]) < 1e-2 * marginal.max()  # the grid is wide enough
        sds.append(np.sqrt(marginal @ points**2 - (marginal @ points) ** 2))
    assert min(sds) > 0.5  # the grid is fine enough: its spacing is 2 / 3
    np.testing.assert_allclose(found.sd[1:3], step * sds, rtol=0.15)


@pytest.mark.parametrize("n", [70, 250])
def test_sds_are_those_of_what_is_printed(n):
    """The Hessian in log variance, log lengthscale and log noise, by autodiff; the fit searches a ratio."""
    rng = np.random.default_rng(n)
    x = rng.uniform(-4, 4, (n, 1))
    y = np.cos(1.5 * x[:, 0]) + 0.3 * rng.standard_normal(n)
    posterior = gp.fit(x, y, mean=gp.means.Zero(), n_starts=1)
    found = posterior.hyperparameters
    assert found.names == ("variance", "lengthscale[0]", "noise")
    at, values = torch.from_numpy(x), torch.from_numpy(y)

    def log_evidence(logs):
        variance, lengthscale, noise = logs.exp()
        kernel = gp.kernels.SquaredExponential(lengthscale, variance)
        return gp.GaussianProcess(kernel, noise=noise).condition(at, values).log_marginal_likelihood

    logs = torch.log(
        torch.as_tensor([posterior.kernel.variance, *posterior.kernel.lengthscale, posterior.noise])
    )
    precision = -torch.autograd.functional.hessian(log_evidence, logs).numpy()
    # the priors: of the lengthscale, and of the ratio of noise to variance
    parts = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    precision += parts.T @ (parts / found.coordinates.prior.sd[:, None] ** 2)
    expected = np.sqrt(np.diag(np.linalg.inv(precision)))
    np.testing.assert_allclose(found.sd, expected, rtol=2e-3)
    assert abs(found.sd[2] / np.sqrt(2 / n) - 1) < 0.15  # n independent errors; a few are spent on f
    np.testing.assert_allclose(found.values, np.exp(logs.numpy()), rtol=1e-10)
    assert str(found).count("variance") == 1
    assert "scale" not in str(found).replace("lengthscale", "")


def test_the_sd_of_a_location_is_in_the_unit_of_x():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(50, 1))
    y = 1.5 * (x[:, 0] - 0.3) + 0.2 * rng.standard_normal(50)
    plain, wide = (
        gp.fit(u * x, y, gp.kernels.Linear(u**-2.0, np.zeros(1)), gp.means.Zero(), n_starts=1).hyperparameters
        for u in (1.0, 1e3)
    )
    place = plain.names.index("offset[0]")
    assert plain.values[place] == pytest.approx(0.3, abs=3 * plain.sd[place])
    assert wide.sd[place] == pytest.approx(1e3 * plain.sd[place], rel=0.05)
