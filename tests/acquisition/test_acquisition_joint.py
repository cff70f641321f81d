"""Nodes that are optimised jointly: the variance that they leave, its gradient, and known optima."""

import numpy as np
import pytest
import torch
from acquisition_cases import MEASURES, posterior
from scipy.optimize import minimize

import acquisition as aq
import gp
from acquisition.joint import _gain
from gp.kernels import SquaredExponential
from gp.measures import Gaussian

NODES = np.random.default_rng(3).normal(size=(4, 2))


def left(process, x, measure):
    return process.extend(x, np.zeros(len(x))).integral(measure).variance


@pytest.mark.parametrize("measure", MEASURES)
def test_the_gain_is_the_recomputed_one_and_so_is_its_gradient(measure):
    process, measure = posterior(noise=1e-4), MEASURES[measure]
    bound = aq.bind(aq.IntegralVarianceReduction(), process, measure)
    gain, slope = _gain(bound.predictor, bound.predictor.targets, NODES)
    np.testing.assert_allclose(
        gain, process.integral(measure).variance - left(process, NODES, measure), rtol=1e-9
    )
    step, numeric = 1e-5, np.empty_like(NODES)
    for i in np.ndindex(*NODES.shape):
        moved = [NODES.copy(), NODES.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        numeric[i] = -(left(process, moved[0], measure) - left(process, moved[1], measure)) / (2 * step)
    # rounding of variances (1e-15 times condition 1e3) over the step
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-8)


def test_several_targets_and_derivative_observations():
    nodes = NODES[:2] * 0.5
    process = gp.GaussianProcess(SquaredExponential(1.1), noise=1e-3)
    process = process.condition([gp.Values(nodes), gp.Gradients(nodes)], [np.ones(2), np.zeros((2, 2))])
    measures = (MEASURES["gaussian"], MEASURES["mixture"])
    weights = np.array([1.0, 3.0])
    criterion = aq.IntegralVarianceReduction(gp.Integrals(measures), weights)
    bound = aq.bind(criterion, process, measures[0])

    def variance(x):
        return weights @ np.diag(process.extend(x, np.zeros(len(x))).integral(measures).covariance)

    gain, slope = _gain(bound.predictor, bound.predictor.targets, NODES)
    before = weights @ np.diag(process.integral(measures).covariance)
    np.testing.assert_allclose(gain, before - variance(NODES), rtol=1e-9)
    shift = 1e-5 * np.random.default_rng(0).normal(size=NODES.shape)
    along = (variance(NODES - shift) - variance(NODES + shift)) / 2
    np.testing.assert_allclose((slope * shift).sum(), along, rtol=1e-5)


def test_planned_nodes_leave_less_than_greedy_ones_and_never_more_than_their_start():
    measure = Gaussian(np.zeros(2), np.ones(2))
    process = posterior(10, noise=1e-8, kernel=SquaredExponential(1.0))
    bound = aq.bind(aq.IntegralVarianceReduction(), process, measure)
    planned = aq.plan(bound, 20, seed=0)
    greedy = aq.sequential_batch(bound, 20, seed=0)
    assert left(process, planned.x, measure) < left(process, greedy.x, measure)
    moved = aq.refine_jointly(bound, greedy.x, max_iterations=5)
    assert left(process, moved, measure) < left(process, greedy.x, measure)
    assert np.all(np.diff(planned.scores[:3]) < 0)


def test_two_nodes_in_one_dimension_stand_at_the_optimum_of_a_direct_search():
    measure, kernel = Gaussian(np.zeros(1), np.ones(1)), SquaredExponential(1.0)
    prior = gp.GaussianProcess(kernel, noise=1e-6).condition(np.zeros((0, 1)), np.zeros(0))
    direct = minimize(
        lambda x: left(prior, x[:, None], measure),
        [-0.3, 0.9],
        method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-15},
    ).x
    planned = aq.plan(
        aq.bind(aq.IntegralVarianceReduction(), prior, measure), 2, seed=0, max_iterations=200
    ).x
    np.testing.assert_allclose(np.sort(planned[:, 0]), np.sort(direct), atol=1e-4)
    np.testing.assert_allclose(planned.sum(), 0, atol=1e-4)  # by symmetry


def test_an_earlier_plan_is_continued():
    bound = aq.bind(aq.IntegralVarianceReduction(), posterior(noise=1e-6), MEASURES["box"])
    first = aq.plan(bound, 6, seed=0, max_iterations=200)
    again = aq.plan(bound, 6, seed=1, starts=first.x, max_iterations=1)
    np.testing.assert_allclose(np.sort(again.x, axis=0), np.sort(first.x, axis=0), atol=0.05)
    assert aq.plan(bound, 8, seed=1, starts=first.x).x.shape == (8, 2)
    assert aq.plan(bound, 3, seed=1, starts=first.x).x.shape == (3, 2)
    box = MEASURES["box"]
    assert np.all((box.lower <= first.x) & (first.x <= box.upper))


def test_torch_plans_as_numpy_does():
    plans = [
        aq.plan(
            aq.bind(aq.IntegralVarianceReduction(), posterior(torch=t), MEASURES["gaussian"]),
            3,
            0,
            max_iterations=5,
        )
        for t in (None, torch)
    ]
    assert plans[1].x.dtype == torch.float64
    np.testing.assert_allclose(plans[1].x.numpy(), plans[0].x, atol=1e-7)


def test_a_criterion_without_targets_cannot_be_planned_with():
    bound = aq.bind(aq.UncertaintySampling(), posterior(), MEASURES["gaussian"])
    with pytest.raises(TypeError, match="IntegralVarianceReduction"):
        aq.plan(bound, 3, seed=0)


def test_nodes_that_coincide_are_planned_apart_or_left():
    """Equal nodes without noise have a singular covariance. No error is raised, and the result is no worse
    than that of one node.
    """
    bound = aq.bind(aq.IntegralVarianceReduction(), posterior(noise=0.0), MEASURES["gaussian"])
    start = np.tile(NODES[:1], (3, 1))
    moved = aq.refine_jointly(bound, start)
    gain, _ = _gain(bound.predictor, bound.predictor.targets, moved)
    assert gain >= bound.value(start)[0] * (1 - 1e-9)
