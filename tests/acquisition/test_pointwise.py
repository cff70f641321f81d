"""Criteria: against brute force, Monte Carlo, finite differences and autodiff."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from acquisition_cases import CRITERIA, MEASURES, f, numeric_gradient, posterior
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import acquisition as aq
import gp
from acquisition.pointwise import Partials
from bqvi.variational_bmc.next_points import log_remaining_range
from experiments.quadrature.criteria import (
    LinearisedWarpedUncertainty,
    MatchedWarpedUncertainty,
    MutualInformation,
    UpperConfidenceBound,
)
from gp.kernels import Constant, Linear, Matern12, SquaredExponential
from gp.measures import Empirical, Gaussian

X = np.random.default_rng(5).normal(size=(6, 2))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_closed_form_gradient_is_that_of_finite_differences(criterion, measure):
    bound = aq.bind(CRITERIA[criterion], posterior(), MEASURES[measure])
    score, gradient = bound.score_and_gradient(X)
    np.testing.assert_array_equal(score, bound.score(X))
    numeric = numeric_gradient(bound.score, X)
    # central differences: truncation step^2 f''' / 6 ~ 1e-10 and rounding eps |score| / step ~ 1e-9,
    # the latter amplified where a signal nearly vanishes
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_torch_agrees_and_autodiff_gives_the_closed_form(criterion, measure):
    known = aq.bind(CRITERIA[criterion], posterior(), MEASURES[measure])
    bound = aq.bind(CRITERIA[criterion], posterior(torch=torch), MEASURES[measure])
    x = torch.tensor(X, requires_grad=True)
    score = bound.score(x)
    assert score.dtype == torch.float64
    (autodiff,) = torch.autograd.grad(score.sum(), x)
    closed, gradient = bound.score_and_gradient(torch.tensor(X))
    # the same formulas in another order of summation: rounding, amplified by the condition number
    # of K (1e4 here)
    np.testing.assert_allclose(score.detach().numpy(), known.score(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(closed.numpy(), known.score(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(autodiff.numpy(), gradient.numpy(), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(autodiff.numpy(), known.score_and_gradient(X)[1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_partials_are_the_derivatives_in_the_moments(criterion):
    rng = np.random.default_rng(0)
    leaves = {
        "mean": torch.tensor(rng.normal(size=4), requires_grad=True),
        "variance": torch.tensor(rng.uniform(0.5, 1, size=4), requires_grad=True),
        "signals": torch.tensor(rng.uniform(0.1, 0.3, size=4), requires_grad=True),
        "log_density": torch.tensor(rng.normal(size=4), requires_grad=True),
    }
    at = SimpleNamespace(**leaves, predictive_variance=leaves["variance"] + 0.1, integral_variance=1.3)
    expected = torch.autograd.grad(
        CRITERIA[criterion].score(at).sum(), list(leaves.values()), materialize_grads=True, allow_unused=True
    )
    partials = CRITERIA[criterion].partials(at)
    for name, value in zip(leaves, expected, strict=True):
        given_value = getattr(partials, name)
        given_value = torch.zeros_like(value) if given_value is None else given_value
        torch.testing.assert_close(given_value.detach(), value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("noise", [1e-3, 0.0])
@pytest.mark.parametrize("measure", MEASURES)
def test_variance_reduction_is_the_recomputed_one(measure, noise):
    process, measure = posterior(noise=noise), MEASURES[measure]
    reduction = aq.bind(aq.IntegralVarianceReduction(), process, measure).value(X)
    before = process.integral(measure).variance
    after = [process.extend(x[None], np.zeros(1)).integral(measure).variance for x in X]
    # a difference of two variances, each exact to some 1e-13 of the prior's
    np.testing.assert_allclose(reduction, before - after, rtol=1e-9, atol=1e-12)


def test_gradient_observations_count():
    nodes = X[:3] * 0.7
    process = gp.GaussianProcess(SquaredExponential(np.array([0.8, 1.4])), noise=1e-3)
    process = process.condition([gp.Values(nodes), gp.Gradients(nodes)], [f(nodes), np.ones((3, 2))])
    measure = MEASURES["gaussian"]
    for criterion in CRITERIA.values():
        bound = aq.bind(criterion, process, measure)
        gradient = bound.score_and_gradient(X)[1]
        np.testing.assert_allclose(gradient, numeric_gradient(bound.score, X), rtol=1e-6, atol=1e-5)
    reduction = aq.bind(aq.IntegralVarianceReduction(), process, measure).value(X[:1])
    after = process.extend(X[:1], np.zeros(1)).integral(measure).variance
    np.testing.assert_allclose(reduction, process.integral(measure).variance - after, rtol=1e-9)


@pytest.mark.parametrize("kernel", [Matern12(0.9), SquaredExponential(0.8) + Linear(0.3) + Constant(0.2)])
def test_kernels_without_stationarity_or_derivatives(kernel):
    """The Matern 1/2 kernel has a gradient except at the nodes, although its functions have none."""
    points = np.random.default_rng(0).normal(size=(40, 2))
    bound = aq.bind(aq.IntegralVarianceReduction(), posterior(kernel=kernel), Empirical(points))
    gradient = bound.score_and_gradient(X)[1]
    np.testing.assert_allclose(gradient, numeric_gradient(bound.score, X), rtol=1e-5, atol=1e-5)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 1000), n=st.integers(0, 15), scale=st.floats(0.3, 3.0))
def test_adding_a_node_never_raises_the_integral_variance(seed, n, scale):
    rng = np.random.default_rng(seed)
    process = posterior(n, noise=1e-6, seed=seed, kernel=SquaredExponential(scale, 1.3))
    measure = MEASURES["gaussian"]
    x = rng.normal(size=(1, 2)) * 2
    before = process.integral(measure).variance
    after = process.extend(x, np.zeros(1)).integral(measure).variance
    assert after <= before + 1e-12 * 1.3  # rounding of the prior variance
    reduction = aq.bind(aq.IntegralVarianceReduction(), process, measure).value(x)
    assert 0 <= reduction <= before * (1 + 1e-6) + 1e-12


def test_uncertainty_is_the_variance_of_the_integrand():
    process, measure = posterior(), MEASURES["gaussian"]
    expected = process.variance(X) * np.exp(measure.log_density(X)) ** 2
    np.testing.assert_allclose(aq.bind(aq.UncertaintySampling(), process, measure).value(X), expected)


def test_uncertainty_does_not_underflow_far_out():
    process, measure = posterior(), MEASURES["gaussian"]
    bound = aq.bind(aq.UncertaintySampling(), process, measure)
    far = np.array([[200.0, 0.0], [400.0, 0.0]])
    assert np.all(np.isfinite(bound.score(far)))
    assert np.all(bound.score_and_gradient(far)[1][:, 0] < 0)  # the way back is known


def test_lambda_zero_is_pure_exploration():
    process, measure = posterior(), MEASURES["gaussian"]
    bound = aq.bind(UpperConfidenceBound(0.0), process, measure)
    np.testing.assert_allclose(bound.value(X), process.variance(X), rtol=1e-10)
    alone = aq.bind(aq.UncertaintySampling(density_power=0.0), process, measure)
    np.testing.assert_allclose(bound.value(X), alone.value(X), rtol=1e-12)
    ten = aq.bind(UpperConfidenceBound(10.0), process, measure)
    np.testing.assert_allclose(ten.value(X), 10 * process.mean(X) + process.variance(X), rtol=1e-10)


def test_warped_uncertainty_is_that_of_monte_carlo():
    """WSABI-M: variance of offset + g^2 / 2 from draws of g; WSABI-L: of its linearisation."""
    process, measure, n = posterior(), MEASURES["gaussian"], 200_000
    draws = process.sample(X, n, seed=1)
    density = np.exp(measure.log_density(X)) ** 2
    mean = process.mean(X)
    matched = 0.1 + draws**2 / 2
    linear = 0.1 + mean**2 / 2 + mean * (draws - mean)
    for criterion, sample in (
        (MatchedWarpedUncertainty(), matched),
        (LinearisedWarpedUncertainty(), linear),
    ):
        centred = (sample - sample.mean(axis=0)) ** 2
        error = centred.std(axis=0) / np.sqrt(n) * density
        value = aq.bind(criterion, process, measure).value(X)
        # six values at 4.5 standard errors: a false alarm in 2e4 seeds, at this seed never
        np.testing.assert_array_less(np.abs(value - centred.mean(axis=0) * density), 4.5 * error)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_at_a_node_everything_is_finite(criterion):
    process = posterior(noise=0.0)
    score, gradient = aq.bind(CRITERIA[criterion], process, MEASURES["gaussian"]).score_and_gradient(
        process.x
    )
    assert np.all(np.isfinite(score))
    assert np.all(np.isfinite(gradient))


def test_a_noise_for_each_observation_asks_for_the_next_one():
    process = posterior(noise=np.full(12, 1e-3))
    with pytest.raises(ValueError, match="noise for each observation"):
        aq.bind(aq.IntegralVarianceReduction(), process, MEASURES["gaussian"])
    bound = aq.bind(aq.IntegralVarianceReduction(), process, MEASURES["gaussian"], noise=0.2)
    after = process.extend(X[:1], np.zeros(1), noise=np.array([0.2])).integral(MEASURES["gaussian"]).variance
    before = process.integral(MEASURES["gaussian"]).variance
    np.testing.assert_allclose(bound.value(X[:1]), before - after, rtol=1e-9)


def test_a_criterion_of_ones_own_is_one_class():
    class Mean:
        logarithmic = False

        def score(self, at):
            return at.mean

        def partials(self, at):
            return Partials(mean=np.ones_like(at.mean))

    bound = aq.bind(Mean(), posterior(), MEASURES["gaussian"])
    gradient = bound.score_and_gradient(X)[1]
    np.testing.assert_allclose(gradient, numeric_gradient(bound.score, X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aq.UncertaintySampling(-1.0), "density_power"),
        (lambda: UpperConfidenceBound(np.nan), "weight"),
        (
            lambda: aq.bind(aq.UncertaintySampling(), posterior(), Gaussian(np.zeros(3), np.ones(3))),
            "dimension 3",
        ),
        (lambda: aq.bind(aq.UncertaintySampling(), posterior(), MEASURES["box"], noise=-1.0), "noise"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_empirical_measure_has_no_density_to_weigh_with():
    bound = aq.bind(aq.UncertaintySampling(), posterior(), Empirical(X))
    with pytest.raises(TypeError, match="no density"):
        bound.score(X)


def test_records_are_values():
    assert aq.UncertaintySampling() == aq.UncertaintySampling(2.0)
    assert replace(UpperConfidenceBound(1.0), weight=2.0).weight == 2.0


def test_a_variance_of_nothing_but_rounding_can_still_be_conditioned_on():
    """Far from the origin the variance given 30 noise-free nodes of a smooth process is rounding error, or
    negative.
    """
    x = np.random.default_rng(0).normal(size=(30, 1))
    process = gp.GaussianProcess(SquaredExponential(4.0, 16.0)).condition(x[:12], f(x[:12]))
    for point in np.array([[4.0], [-4.0], [3.9], [4.1], [-3.8]]):
        process = process.extend(point[None], process.mean(point[None]))
    bound = aq.bind(aq.IntegralVarianceReduction(), process, Gaussian(np.zeros(1), np.ones(1)))
    assert np.all(np.isfinite(bound.score(np.linspace(-4, 4, 50)[:, None])))


def test_the_interquantile_range_is_what_a_posterior_with_the_point_leaves():
    process, targets = posterior(), np.array([[0.3, 0.1], [-1.0, 0.8], [1.5, -0.4]])
    weights, quantile = np.array([0.2, 0.5, 0.3]), ndtri(0.75)
    left = [
        weights @ np.sinh(quantile * np.sqrt(process.extend(x, np.zeros(1)).variance(targets)))
        for x in X[:, None, :]
    ]
    both = process.covariance(np.concatenate([X, targets]))
    signals, observed = both[: len(X), len(X) :], process.variance(X) + process.noise
    found = log_remaining_range(process.variance(targets), np.log(weights), signals, observed)
    np.testing.assert_allclose(found, np.log(left), rtol=1e-6)


def test_information_follows_from_the_reduction():
    process, measure = posterior(), MEASURES["gaussian"]
    reduction, information = (
        aq.bind(criterion, process, measure).value(X)
        for criterion in (aq.IntegralVarianceReduction(), MutualInformation())
    )
    share = reduction / process.integral(measure).variance
    np.testing.assert_allclose(information, -0.5 * np.log1p(-share), rtol=1e-10)
