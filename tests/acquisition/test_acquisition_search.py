"""Searches: against dense grids, against BoTorch's optimiser, and their own limits."""

import numpy as np
import pytest
import torch
from acquisition_cases import CRITERIA, MEASURES, f, posterior

import acquisition as aq
import gp
from acquisition.pointwise import bind
from experiments.quadrature.criteria import LinearisedWarpedUncertainty
from gp.kernels import SquaredExponential
from gp.measures import Empirical, Gaussian, GaussianMixture

THOROUGH = aq.ContinuousSearch(candidates=1024, ascents=8, max_evaluations=100, tolerance=1e-9)
"""Settings that find the maximum itself."""


def grid(domain, size=161):
    axes = [np.linspace(low, high, size) for low, high in zip(domain.lower, domain.upper, strict=True)]
    return domain.points(np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes)))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_thorough_search_finds_the_maximum_on_a_grid(criterion, measure):
    bound = bind(CRITERIA[criterion], posterior(), MEASURES[measure])
    found = THOROUGH.maximise(bound, seed=0)
    best = bound.score(grid(aq.domain_of(MEASURES[measure]))).max()
    assert found.score >= best - 1e-12 * abs(best)
    np.testing.assert_allclose(bound.score(found.x), found.score, rtol=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_same_seed_same_point_in_numpy_and_torch(measure):
    points = []
    for module in (None, None, torch):
        bound = bind(aq.IntegralVarianceReduction(), posterior(torch=module), MEASURES[measure])
        points.append(aq.ContinuousSearch().maximise(bound, seed=3).x)
    np.testing.assert_array_equal(points[0], points[1])
    assert points[2].dtype == torch.float64
    # rounding differs between the two and an ascent of a few steps amplifies it a little
    np.testing.assert_allclose(points[2].numpy(), points[0], atol=1e-8)


@pytest.mark.parametrize("measure", MEASURES)
def test_points_stay_in_the_domain(measure):
    domain = aq.domain_of(MEASURES[measure], radius=1.0)
    bound = bind(aq.UncertaintySampling(density_power=0.0), posterior(), MEASURES[measure])
    x = aq.ContinuousSearch(radius=1.0, max_evaluations=50).maximise(bound, seed=0).x
    u = domain.map.to_standard(x)
    assert np.all(u >= domain.lower - 1e-12)
    assert np.all(u <= domain.upper + 1e-12)
    if measure == "box":
        assert np.isfinite(MEASURES["box"].log_density(x)).all()


def test_the_domain_reaches_a_number_of_sds_around_the_means():
    measure = GaussianMixture(np.array([0.5, 0.5]), np.array([[-3.0], [5.0]]), np.array([[[4.0]], [[1.0]]]))
    for one, ends in ((measure, [-7.0, 7.0]), (measure.components[0], [-7.0, 1.0])):
        domain = aq.domain_of(one, radius=2.0)
        np.testing.assert_allclose(domain.points(np.stack([domain.lower, domain.upper]))[:, 0], ends)


def test_search_over_an_empirical_measure_stays_in_its_hull():
    points = np.random.default_rng(0).normal(size=(50, 2)) @ np.array([[1.0, 2.0], [0.0, 0.0]])  # a line
    bound = bind(aq.IntegralVarianceReduction(), posterior(), Empirical(points))
    x = aq.ContinuousSearch().maximise(bound, seed=0).x
    assert np.all((points.min(axis=0) <= x) & (x <= points.max(axis=0)))


def test_runners_up_are_starts():
    bound = bind(aq.IntegralVarianceReduction(), posterior(), MEASURES["gaussian"])
    best = THOROUGH.maximise(bound, seed=0)
    blind = aq.ContinuousSearch(candidates=1, ascents=1, max_evaluations=1)
    assert blind.maximise(bound, seed=0, starts=best.x).score >= best.score - 1e-9
    scores = bound.score(best.others)
    assert np.all(np.diff(scores) <= 0)


@pytest.mark.parametrize(
    "settings",
    [{"candidates": 0}, {"near_nodes": 1.5}, {"radius": np.inf}, {"tolerance": 0.0}, {"ascents": 0}],
)
def test_bad_settings_are_named(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        aq.ContinuousSearch(**settings)


def test_an_integrand_is_searched_without_any_observation():
    process = gp.GaussianProcess(SquaredExponential(1.0)).condition(np.zeros((0, 2)), np.zeros(0))
    found = THOROUGH.maximise(bind(aq.IntegralVarianceReduction(), process, MEASURES["gaussian"]), seed=0)
    # with nothing known the best node of a symmetric measure is its mean
    np.testing.assert_allclose(found.x, MEASURES["gaussian"].mean[None], atol=1e-4)


def test_peaks_that_the_measure_hardly_hits_are_refined_from_the_nodes():
    """A bump of width .05 in D = 4 under N(0, I), which candidates drawn from the measure do not hit."""
    measure, centre = Gaussian(np.zeros(4), np.ones(4)), np.full(4, 0.7)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(20, 4)), centre + 0.05 * rng.normal(size=(12, 4))])
    y = np.exp(-0.5 * ((x - centre) ** 2).sum(axis=1) / 0.05**2)
    process = gp.GaussianProcess(SquaredExponential(0.1), noise=1e-6).condition(x, y)
    bound = bind(LinearisedWarpedUncertainty(), process, measure)
    found = aq.ContinuousSearch().maximise(bound, seed=0)
    assert np.linalg.norm(found.x - centre) < 0.4
    assert f(found.x).shape == (1,)
