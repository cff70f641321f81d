"""The surrogate: against autodiff, finite differences, quadrature on a grid and the general process of gp."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from negative_quadratic import NegativeQuadratic

import gp
from bqvi.variational_bmc.learning import laplace
from bqvi.variational_bmc.settings import FITTING, SHAPING
from bqvi.variational_bmc.surrogate import (
    Surrogate,
    _noises,
    fit,
    kernel_of,
    log_posterior,
    noise_shaped,
    prior_of,
    with_terms_of,
)
from gp.laplace import curvature
from gp.observations import Gradients, Observations, Values, covariance

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((9, 3))
OTHERS = RNG.standard_normal((4, 3))


def log_joint(x):
    return -(x**2).sum(-1) + np.sin(x[..., 0] * x[..., 1])


def slopes(x):
    found, cosine = -2.0 * x, np.cos(x[:, 0] * x[:, 1])
    found[:, 0] += cosine * x[:, 1]
    found[:, 1] += cosine * x[:, 0]
    return found


def surrogate(gradients, n=20, noise_fitted=False):
    x = np.random.default_rng(1).standard_normal((n, 3))
    data = noise_shaped(x, log_joint(x), slopes(x) if gradients else None, None, 30.0, noise_fitted)
    data = replace(data, rough=gradients)
    return Surrogate.of(data, data.prior.lower)


@pytest.mark.parametrize("rows", [60, 1000])
def test_the_covariance_of_observations_is_that_of_functionals(rows):
    """Some or all points have a gradient; against the covariance of any functionals."""
    data = surrogate(True).data.with_best_gradients(rows)
    kernel = data.kernel(data.prior.lower)
    observed = Observations((Values(data.points), Gradients(data.points[: len(data.gradients)])))
    expected = covariance(kernel, observed, observed)
    np.testing.assert_allclose(data.covariance(kernel), expected, rtol=1e-11, atol=1e-11)


def test_hyperparameters_of_a_rough_kernel_begin_at_those_without_and_back():
    data = surrogate(True, noise_fitted=True).data
    psi = np.arange(7.0)
    more = with_terms_of(psi, data)
    assert len(more) == len(data.prior.lower)
    np.testing.assert_array_equal(with_terms_of(more, replace(data, rough=False)), psi)
    one, other = kernel_of(more, 3, rough=True).terms[:3], kernel_of(psi, 3).terms
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a(POINTS, POINTS), b(POINTS, POINTS))


def test_thinned_data_are_the_best_rows_and_give_a_fit_its_gradient():
    x = np.random.default_rng(3).standard_normal((90, 3)) * np.linspace(0.5, 4.0, 90)[:, None]
    data = noise_shaped(x, log_joint(x), slopes(x), np.linspace(0.1, 0.2, 90), 10.0)
    few = data.thinned
    m = len(few.gradients)
    assert len(few.residuals) == len(few.noise)
    assert FITTING.enough - 3 < len(few.residuals) <= FITTING.enough
    assert few.thinned is few
    assert few.values[:m].min() >= few.values[m:].max()
    order = [int(np.flatnonzero((x == point).all(1))[0]) for point in few.points]
    assert sorted(order) == list(range(90))
    rows = np.concatenate([order, (90 + 3 * np.array(order[:m])[:, None] + np.arange(3)).ravel()])
    np.testing.assert_array_equal(few.residuals, data.residuals[rows])
    np.testing.assert_array_equal(few.noise, data.noise[rows])
    excess = np.exp(-data.log_slopes)
    assert few.log_slope == pytest.approx(-np.log(excess).sum() - 3 * np.log(excess[order[:m]]).sum())
    centre = data.prior.lower
    # the evidence of a part is that of its rows' covariance
    matrix = data.gram(data.kernel(centre))[0] + np.diag(_noises(data, centre))
    part, residuals = matrix[np.ix_(rows, rows)], data.residuals[rows]
    normal = residuals @ np.linalg.solve(part, residuals) + np.linalg.slogdet(2.0 * np.pi * part)[1]
    value = log_posterior(few).value(centre)
    assert value == pytest.approx(-0.5 * normal, rel=1e-6)


def test_with_all_interactions_it_is_the_process_of_gp():
    x, u = RNG.standard_normal((15, 2)), RNG.standard_normal((6, 2))
    data = noise_shaped(x, log_joint(x), None, np.full(15, 0.01), 30.0)
    psi = np.array([np.log(1.1), np.log(0.7), np.log(1e9), np.log(2.5), -80.0])
    mine = Surrogate.of(data, psi)
    process = gp.GaussianProcess(
        gp.kernels.SquaredExponential(np.array([1.1, 0.7]), 2.5) + gp.kernels.Constant(FITTING.top_variance),
        mean=NegativeQuadratic(data.top, 0.0, 1.0),
        noise=0.01 + SHAPING.rounding * (2.5 + FITTING.top_variance),
    ).condition(x, log_joint(x))
    mean, variance = mine.moments(u)
    np.testing.assert_allclose(mean, process.mean(u), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, process.variance(u), rtol=1e-5, atol=1e-6)
    value = log_posterior(data).value(psi) - prior_of(2, False).log_density(psi)[0]
    assert value == pytest.approx(process.log_marginal_likelihood, abs=1e-5)
    # The expectation under a diagonal Gaussian, against the general embedding.
    m, v = np.array([[0.3, -0.2]]), np.array([[0.5, 1.5]])
    general = process.integral(gp.measures.Gaussian(m[0], np.diag(v[0]))).mean
    assert mine.function.integrate(m, v).values[0] == pytest.approx(general, rel=1e-6)


@pytest.mark.parametrize("rows", [1000, 60, 40])
def test_values_with_the_gradients_of_some_points_are_the_process_of_gp(rows):
    """By `gp.GaussianProcess` given the same observations; `rows` keeps the gradients of 24, 12 and 10."""
    x, u = np.random.default_rng(5).standard_normal((24, 3)), OTHERS
    data = noise_shaped(x, log_joint(x), slopes(x), np.full(24, 0.01), 30.0).with_best_gradients(rows)
    assert len(data.gradients) == {1000: 24, 60: 12, 40: 10}[rows]
    psi = data.prior.lower
    mine = Surrogate.of(data, psi)
    blocks = (Values(data.points), Gradients(data.points[: len(data.gradients)]))
    process = gp.GaussianProcess(data.kernel(psi), noise=_noises(data, psi)).condition(
        Observations(blocks), data.residuals
    )
    mean, variance = mine.moments(u)
    prior = data.top - 0.5 * (u**2).sum(1)
    np.testing.assert_allclose(mean, prior + process.mean(u), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(variance, process.variance(u), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(mine.function(u), mean, rtol=1e-7, atol=1e-7)
    numeric = [(mine.mean(u + e) - mine.mean(u - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(mine.function.gradient(u), np.stack(numeric, 1), rtol=1e-5, atol=1e-5)
    # an expectation under a narrow Gaussian is the value and half the trace of the curvature
    v = np.full((1, 3), 1e-4)
    bent = sum(mine.mean(u[:1] + e) - 2.0 * mean[:1] + mine.mean(u[:1] - e) for e in 1e-2 * np.eye(3)) / 1e-4
    assert mine.function.integrate(u[:1], v).values[0] == pytest.approx(
        float((mean[:1] + 5e-5 * bent)[0]), abs=1e-6
    )


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("noise_fitted", [False, True])
def test_evidence_gradient_is_a_finite_difference(gradients, noise_fitted):
    data = surrogate(gradients, 8, noise_fitted).data
    objective, centre = log_posterior(data), data.prior.lower
    psi = centre + 0.3 * np.random.default_rng(2).standard_normal(len(centre))
    gradient, value = objective.expanded(psi).gradient, objective.value
    numeric = [(value(psi + e) - value(psi - e)) / 2e-5 for e in 1e-5 * np.eye(len(psi))]
    # exact data make an ill-conditioned covariance: differences of 1e-5 are rounded to 1e-5 of the largest
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("gradients", [False, True])
def test_integrals_are_quadrature_and_their_gradients_differences(gradients):
    made = surrogate(gradients)
    means, variances = (
        np.array([[0.2, -0.5, 0.1], [1.0, 0.0, -1.0]]),
        np.array([[0.3, 1.0, 0.6], [1.2, 0.1, 0.4]]),
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    grid = np.stack([g.ravel() for g in np.meshgrid(nodes, nodes, nodes, indexing="ij")], axis=1)
    mass = np.prod(np.stack(np.meshgrid(weights, weights, weights, indexing="ij")), axis=0).ravel()
    mass = mass / mass.sum()
    found = made.function.integrate(means, variances)
    for k in range(2):
        assert found.values[k] == pytest.approx(
            mass @ made.mean(means[k] + grid * np.sqrt(variances[k])), rel=1e-7
        )
    step = 1e-5
    for e in step * np.eye(3):
        up, down = (
            made.function.integrate(means + e, variances).values,
            made.function.integrate(means - e, variances).values,
        )
        np.testing.assert_allclose(found.means @ e / step, (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
        up, down = (
            made.function.integrate(means, variances + e).values,
            made.function.integrate(means, variances - e).values,
        )
        np.testing.assert_allclose(found.variances @ e / step, (up - down) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gradients", [False, True])
def test_it_interpolates_and_knows_its_slopes(gradients):
    made = surrogate(gradients)
    mean, variance = made.moments(made.data.points)
    np.testing.assert_allclose(mean, log_joint(made.data.points), atol=0.02)
    assert variance.max() < 1e-4
    u, e = OTHERS, 1e-5 * np.eye(3)
    numeric = np.stack([(made.mean(u + d) - made.mean(u - d)) / 2e-5 for d in e], axis=1)
    np.testing.assert_allclose(made.function.gradient(u), numeric, rtol=1e-4, atol=2e-4)


def test_depths_beyond_reach_grow_with_their_logarithm_and_are_vague():
    x = np.array([[0.0], [1.0], [2.0]])
    data = noise_shaped(x, np.array([0.0, -5.0, -80.0]), np.array([[0.0], [-8.0], [-16.0]]), None, 10.0)
    np.testing.assert_allclose(data.values, [0.0, -5.0, -10.0 * (1.0 + np.log(8.0))])
    np.testing.assert_allclose(data.gradients[:, 0], [0.0, -8.0, -2.0])
    assert data.noise[1] < 1e-5 < 1.0 < data.noise[2]
    assert data.log_slope == pytest.approx(-2 * np.log(8.0))


def test_laplace_of_a_thin_quadratic_is_exact():
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    covariance = turn @ np.diag([1.0, 0.3, 0.01]) @ turn.T
    precision, mode = np.linalg.inv(covariance), np.array([0.3, -0.2, 0.5])
    x = rng.standard_normal((25, 3))
    values = -0.5 * np.einsum("ni,ij,nj->n", x - mode, precision, x - mode)
    data = noise_shaped(x, values, None, None, 1e5)
    made = Surrogate.of(data, fit(data, None, 60)[0])
    found = laplace(made, x[np.argmax(values)], x.min(0) - 1, x.max(0) + 1)
    assert found is not None
    np.testing.assert_allclose(found[0], mode, atol=0.02)
    np.testing.assert_allclose(found[1], covariance, atol=0.02)
    found = curvature(made.function.gradient, mode, 1e-3)
    np.testing.assert_allclose(found, precision, rtol=0.05, atol=0.5)


def test_data_are_freed_without_the_garbage_collector():
    """Matrices are large, and the collector counts objects, not bytes: 613 MB for 270 after 700 values."""
    data = replace(surrogate(False).data)
    assert data.thinned is data
    gone = weakref.ref(data)
    gc.disable()
    try:
        del data
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("gradients", [False, True])
def test_left_out_evaluations_are_predicted_as_by_the_surrogate_without_them(gradients):
    """Copies of a value, which would predict it whatever it is, are left out with it."""
    whole = surrogate(gradients)
    data, z = whole.data, whole.left_out(np.array([[3, 7]]))
    n, dimension = data.points.shape
    for i in (0, 7, n - 1):
        others = np.delete(np.arange(n), [3, 7] if i == 7 else i)
        slopes = n + np.arange(n * dimension).reshape(n, dimension)
        less = replace(
            data,
            points=data.points[others],
            values=data.values[others],
            gradients=data.gradients[others] if gradients else None,
            noise=data.noise[np.r_[others, slopes[others].ravel()] if gradients else others],
            log_slopes=data.log_slopes[others],
        )
        mean, variance = Surrogate.of(less, whole.psi).moments(data.points[i : i + 1])
        noise = _noises(data, whole.psi)[i]
        expected = (data.values[i] - mean[0]) / np.sqrt(variance[0] + noise)
        assert z[i] == pytest.approx(expected, rel=5e-3, abs=5e-3)  # variances are floored at rounding
