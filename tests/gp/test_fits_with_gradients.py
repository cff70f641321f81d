"""Hyperparameters from values and gradients: evidence, its gradient, and what the fits find."""

from dataclasses import replace

import numpy as np
import pytest
from differences import central
from negative_quadratic import NegativeQuadratic

import gp
from gp.kernels import Columns, Linear, Matern12, Matern32, Matern52, RationalQuadratic, SquaredExponential
from gp.observations import Observations
from gp.regression.problem import EvidenceProblem

KERNELS = {
    "se": SquaredExponential(np.array([0.7, 1.3]), 1.5),
    "one lengthscale": SquaredExponential(0.9, 1.5),
    "matern 3/2": Matern32(np.array([0.7, 1.3]), 1.5),
    "matern 5/2": Matern52(np.array([0.7, 1.3]), 1.5),
    "rational quadratic": RationalQuadratic(1.1, 0.8, 1.7),
    "composite": SquaredExponential(0.9, 1.5) * Columns(Matern52(1.4), (1,))
    + Columns(Linear(0.3, 0.2), (0,)),
}
MEANS = {
    "zero": gp.means.Zero(),
    "linear": gp.means.Linear(),
    "quadratic": NegativeQuadratic(0.0, np.array([0.1, -0.2]), np.array([1.2, 0.8])),
}


def blocks(rng, n=5):
    """Values, partial derivatives at other points, and both of some points once more."""
    values, slopes, both = (rng.standard_normal((m, 2)) for m in (n, 4, 2))
    return [gp.Values(values), gp.Gradients(slopes, (1,)), gp.Values(both), gp.Gradients(both)]


PAIRS = [("zero", "per observation"), ("linear", 0.1), ("quadratic", None)]
"""Of means and noises: the kernel's part of the gradient knows neither."""


@pytest.mark.parametrize(
    ("kernel", "mean", "noise"),
    [("se", mean, noise) for mean in MEANS for noise in (None, 0.1, "per observation")]
    + [(kernel, *pair) for kernel in KERNELS if kernel != "se" for pair in PAIRS],
)
def test_evidence_gradient_is_exact(kernel, mean, noise):
    rng = np.random.default_rng(0)
    x = Observations(tuple(blocks(rng)))
    y = rng.standard_normal(len(x))
    known = np.linspace(0.05, 0.2, len(y)) if noise == "per observation" else noise
    problem = EvidenceProblem(x, y, KERNELS[kernel], MEANS[mean], known, profiled=noise is None)
    vector = problem.pack()
    gradient = problem.objective.expanded(vector).gradient
    np.testing.assert_allclose(gradient, central(problem.objective.value, vector), rtol=1e-6, atol=1e-6)


def test_evidence_gradient_counts_the_jitter():
    """A fraction of variances that depend on the lengthscales, as those of derivatives do."""
    rng = np.random.default_rng(0)
    x = Observations(tuple(blocks(rng)))
    y = rng.standard_normal(len(x))
    problem = EvidenceProblem(x, y, KERNELS["se"], MEANS["zero"], None, profiled=True, jitter=0.3)
    vector = problem.pack()
    solution, gradient = problem.objective.evidence(vector), problem.objective.expanded(vector).gradient
    assert solution.factor.jitter == 0.3
    np.testing.assert_allclose(gradient, central(problem.objective.value, vector), rtol=1e-6, atol=1e-6)


def drawn(seed, n, d=2, lengthscale=(0.6, 2.0)):
    """Values and gradients at n points of a function drawn from a process with known lengthscales."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, d))
    x = [gp.Values(x), gp.Gradients(x)]
    y = gp.GaussianProcess(SquaredExponential(np.array(lengthscale), 4.0)).sample(x, 1, rng)[0]
    return x, [y[:n], y[n:].reshape(n, d)]


@pytest.fixture(scope="module")
def plain():
    return gp.fit(*drawn(4, 10))


@pytest.mark.parametrize(("scale_x", "scale_y"), [(1e6, 1.0), (1.0, 1e-6), (1e-5, 1e4)])
def test_units_do_not_matter(scale_x, scale_y, plain):
    x, y = drawn(4, 10)
    x = [gp.Values(scale_x * x[0].x), gp.Gradients(scale_x * x[0].x)]
    other = gp.fit(x, [scale_y * y[0], scale_y / scale_x * y[1]])
    np.testing.assert_allclose(other.kernel.lengthscale / scale_x, plain.kernel.lengthscale, rtol=1e-2)
    np.testing.assert_allclose(other.kernel.variance / scale_y**2, plain.kernel.variance, rtol=1e-2)


def test_many_points_are_screened_on_some(monkeypatch):
    x, y = drawn(7, 24)
    whole = gp.fit(x, y, noise=1e-6, n_starts=2)
    kind = type(whole.hyperparameters.problem)
    on_some = kind.smaller  # there are 72 observations
    monkeypatch.setattr(kind, "smaller", lambda self, _, rng: on_some(self, 48, rng))
    posterior = gp.fit(x, y, noise=1e-6, n_starts=2)
    found = posterior.hyperparameters
    # both climb on all data in the end, until a step down the slope gains less than 0.01 nats
    np.testing.assert_allclose(found.log_evidence, whole.hyperparameters.log_evidence, rtol=0, atol=0.01)
    np.testing.assert_allclose(found.psi, whole.hyperparameters.psi, rtol=0, atol=0.1 * found.sd.min())
    problem = posterior.hyperparameters.problem
    small = problem.smaller(48, np.random.default_rng(0))
    assert len(small.y) == len(small.observed) == 48
    known = posterior.mean(small.observed)  # whole gradients, each beside its own targets
    np.testing.assert_allclose(small.y, known, atol=1e-2)  # noise has a standard deviation of 1e-3


def test_rounding_does_not_stop_a_search_on_a_slope():
    """The covariance has lost all digits; an optimum has no less evidence than the true parameters."""
    x, y = drawn(3, 25)
    found = gp.fit(x, y, noise=None, n_starts=2).hyperparameters
    problem = found.problem
    truth = problem.kernel.with_parameters([np.array([0.6, 2.0]), problem.kernel.variance])
    vector = replace(problem, kernel=truth).pack()
    assert found.log_evidence > problem.objective.value(vector) - 0.1


def test_marginalised_and_extended():
    x, y = drawn(8, 10)
    posterior = gp.fit(x, y, noise=None)
    marginal = gp.marginalise(posterior, 16)
    at = np.random.default_rng(1).uniform(-1, 1, (5, 2))
    assert marginal.effective_size > 4
    np.testing.assert_allclose(
        marginal.mean(at), posterior.mean(at), atol=5 * posterior.variance(at).max() ** 0.5
    )
    assert len(posterior.extend(at, np.zeros(5), 1e-2).y) == 35


def test_what_cannot_be_fitted_is_named():
    x, y = drawn(9, 6)
    with pytest.raises(TypeError, match="Matern12 has no derivatives"):
        gp.fit(x, y, Matern12(1.0))
    with pytest.raises(ValueError, match="give 18 of them"):
        gp.fit(x, y[0])
    with pytest.raises(ValueError, match="are the same point"):
        gp.fit([gp.Values(np.zeros((2, 2))), x[1]], [np.arange(2.0), y[1]], noise=None)
    with pytest.raises(ValueError, match="x has no points"):
        gp.fit([gp.Values(np.zeros((0, 2)))], [np.zeros(0)])

    class Other(gp.Values):
        pass

    with pytest.raises(TypeError, match="x holds Other"):
        gp.fit(Other(x[0].x), y[0])
