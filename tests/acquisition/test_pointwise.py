"""Criteria: against brute force, Monte Carlo, finite differences and autodiff."""

import numpy as np
import pytest
from acquisition_cases import CRITERIA, MEASURES, f, posterior
from differences import central
from scipy.special import ndtri

import acquisition as aq
import gp
from acquisition.pointwise import Partials
from bqvi.variational_bmc.next_points import log_remaining_range
from experiments.quadrature.criteria import (
    MutualInformation,
    UpperConfidenceBound,
)
from gp.kernels import SquaredExponential
from gp.measures import Empirical, Gaussian

X = np.random.default_rng(5).normal(size=(6, 2))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_closed_form_gradient_is_that_of_finite_differences(criterion, measure):
    process = posterior(slope=np.array([-0.2, 0.3]))
    bound = aq.bind(CRITERIA[criterion], process, MEASURES[measure])
    score, gradient = bound.score_and_gradient(X)
    np.testing.assert_array_equal(score, bound.score(X))
    numeric = central(bound.score, X)
    # central differences: truncation step^2 f''' / 6 ~ 1e-10 and rounding eps |score| / step ~ 1e-9,
    # the latter amplified where a signal nearly vanishes
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


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
        np.testing.assert_allclose(gradient, central(bound.score, X), rtol=1e-6, atol=1e-5)
    reduction = aq.bind(aq.IntegralVarianceReduction(), process, measure).value(X[:1])
    after = process.extend(X[:1], np.zeros(1)).integral(measure).variance
    np.testing.assert_allclose(reduction, process.integral(measure).variance - after, rtol=1e-9)


def test_uncertainty_does_not_underflow_far_out():
    process, measure = posterior(), MEASURES["gaussian"]
    bound = aq.bind(aq.UncertaintySampling(), process, measure)
    far = np.array([[200.0, 0.0], [400.0, 0.0]])
    assert np.all(np.isfinite(bound.score(far)))
    assert np.all(bound.score_and_gradient(far)[1][:, 0] < 0)  # the way back is known


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
    np.testing.assert_allclose(gradient, central(bound.score, X), rtol=1e-6, atol=1e-8)


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
