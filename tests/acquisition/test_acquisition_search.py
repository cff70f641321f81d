"""Searches: against dense grids, against BoTorch's optimiser, and their own limits."""

import numpy as np
import pytest
import torch
from acquisition_cases import CRITERIA, MEASURES, f, posterior
from botorch.models import SingleTaskGP

import acquisition as aq
import gp
from acquisition.pointwise import bind
from acquisition.search import ascend
from experiments.quadrature.criteria import LinearisedWarpedUncertainty
from gp.interop import from_botorch
from gp.kernels import SquaredExponential
from gp.low_discrepancy import normal_sobol
from gp.measures import Empirical, Gaussian, Uniform

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


def test_a_fitted_botorch_model_is_searched_with_ours():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(size=(15, 2)))
    model = SingleTaskGP(x, torch.sin(5 * x[:, :1]) + x[:, 1:])
    measure = Uniform(np.zeros(2), np.ones(2))
    bound = bind(aq.UncertaintySampling(density_power=0.0), from_botorch(model), measure)
    at = torch.tensor(rng.uniform(size=(5, 2)))
    variance = model.posterior(at[:, None, :]).variance[:, 0, 0].detach()
    # float64 by two routes; BoTorch standardises the outputs in between
    np.testing.assert_allclose(bound.value(at).numpy(), variance.numpy(), rtol=1e-5)


def test_default_search_is_within_its_tolerance():
    """Scores are logarithms: within .2 of the maximum means 82 % of it, for 20 seeds of 20."""
    for seed in range(20):
        bound = bind(aq.IntegralVarianceReduction(), posterior(seed=seed), MEASURES["gaussian"])
        best = THOROUGH.maximise(bound, seed=0).score
        assert aq.ContinuousSearch().maximise(bound, seed=seed).score > best - 0.2


def test_greedy_nodes_leave_less_variance_than_sobol_nodes():
    measure, kernel = Gaussian(np.zeros(2), np.ones(2)), SquaredExponential(1.0)
    process = gp.GaussianProcess(kernel, noise=1e-8).condition(np.zeros((0, 2)), np.zeros(0))
    rng = np.random.default_rng(0)
    bound, starts = bind(aq.IntegralVarianceReduction(), process, measure), None
    for _ in range(24):
        found = aq.ContinuousSearch().maximise(bound, rng, starts=starts)
        process, starts = process.extend(found.x, process.mean(found.x)), found.others
        bound = bind(aq.IntegralVarianceReduction(), process, measure)
    sobol = [
        gp.GaussianProcess(kernel, noise=1e-8)
        .condition(normal_sobol(2, 24, seed), np.zeros(24))
        .integral(measure)
        .sd
        for seed in range(5)
    ]
    # measured: a third to a half of the Sobol nodes' standard deviation
    assert bound.posterior.integral(measure).sd < 0.6 * min(sobol)


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


def quadratic(centre, scales):
    def function(x):
        gap = x - centre
        return -(gap**2 * scales).sum(axis=1), -2 * gap * scales

    return function


def test_ascents_find_their_own_maxima_in_the_box():
    scales = np.array([1.0, 30.0, 0.1])
    starts = np.random.default_rng(0).uniform(-1, 1, size=(5, 3))
    box = -np.ones(3), np.ones(3)
    ends = ascend(
        quadratic(np.array([0.3, -0.2, 5.0]), scales),
        starts,
        *box,
        first_step=0.2,
        tolerance=1e-14,
        max_evaluations=200,
    )
    np.testing.assert_allclose(ends.points, np.tile([0.3, -0.2, 1.0], (5, 1)), atol=1e-6)
    assert ends.n_evaluations < 60


def test_an_ascent_on_a_curved_ridge():
    def banana(x):
        a, b = x[:, 0], x[:, 1]
        value = -((1 - a) ** 2) - 20 * (b - a**2) ** 2
        return value, np.stack([2 * (1 - a) + 80 * a * (b - a**2), -40 * (b - a**2)], axis=1)

    starts = np.array([[-1.2, 1.0], [0.0, 0.0], [1.9, -1.9]])
    ends = ascend(
        banana,
        starts,
        np.full(2, -2.0),
        np.full(2, 2.0),
        first_step=0.2,
        tolerance=1e-16,
        max_evaluations=300,
    )
    np.testing.assert_allclose(ends.points, np.ones((3, 2)), atol=1e-5)


def test_ascents_never_descend_and_end_at_once_at_a_maximum():
    calls = []

    def flat(x):
        calls.append(len(x))
        return np.zeros(len(x)), np.zeros_like(x)

    ends = ascend(
        flat, np.zeros((2, 2)), -np.ones(2), np.ones(2), first_step=0.1, tolerance=1e-9, max_evaluations=50
    )
    assert calls == [2]
    assert ends.n_evaluations == 1
    wiggly = lambda x: (np.sin(7 * x).sum(axis=1), 7 * np.cos(7 * x))  # noqa: E731
    starts = np.random.default_rng(0).uniform(-1, 1, size=(6, 2))
    ends = ascend(wiggly, starts, -np.ones(2), np.ones(2), first_step=0.5, tolerance=1e-9, max_evaluations=30)
    assert np.all(ends.values >= wiggly(starts)[0])


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
