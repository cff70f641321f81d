"""Scales that depend on a coordinate, from gradients: against models whose conditional scales are known."""

from dataclasses import replace

import numpy as np
import pytest

import bqvi
from bqvi.calls import Evaluations
from bqvi.variational_bmc.frame_selection import _after, _evidence, _with_map
from bqvi.variational_bmc.scaling import scaling_from_gradients
from bqvi.variational_bmc.state import InferenceStep, Settings, begun
from experiments.problems import hard_posteriors, known_posteriors
from gp.linalg import ridge_regressions


def seen(problem, points):
    values, gradients = problem.log_density(points), problem.log_density_gradient(points)
    return Evaluations(points, values, gradients, None, np.zeros(len(points), bool), ("",) * len(points))


def around(problem, seed, n):
    """Points from half to three times the plausible box, none of them draws of the posterior."""
    rng = np.random.default_rng(seed)
    lower, upper = problem.plausible_lower, problem.plausible_upper
    reach = 0.25 * (upper - lower) * rng.uniform(0.5, 3.0, (n, 1))
    return 0.5 * (lower + upper) + reach * rng.standard_normal((n, problem.dimension))


@pytest.mark.parametrize("seed", range(3))
def test_the_map_of_a_funnel(seed):
    """Neal (2003): x_j | v ~ N(0, e^v)."""
    problem = hard_posteriors.funnel(5)
    found = scaling_from_gradients(seen(problem, around(problem, seed, 16)))
    assert found is not None
    scaling, mean, covariance = found
    assert scaling.leading == 0
    np.testing.assert_allclose(scaling.rates, [0.0, 0.5, 0.5, 0.5, 0.5], atol=1e-3)
    np.testing.assert_allclose(scaling.precisions, 0.0, atol=1e-6)
    draws = scaling.into(problem.sample(20_000, 0))
    sd = np.sqrt(np.diag(covariance))
    # 20,000 draws: means to 5 / 141 sds, sds to 5 / 200 of themselves
    np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0.0, atol=0.036)
    np.testing.assert_allclose(draws.std(0) / sd, 1.0, atol=0.025)


@pytest.mark.parametrize(
    "problem",
    [
        hard_posteriors.gaussian(6), hard_posteriors.tilted(6), hard_posteriors.three_gaussians(4, 0),
        known_posteriors.rosenbrock(4), known_posteriors.cigar(4), known_posteriors.lumpy(4),
    ],
    ids=lambda problem: problem.name,
)  # fmt: skip
def test_no_map_where_scales_do_not_depend_on_a_coordinate(problem):
    for seed in range(3):
        assert scaling_from_gradients(seen(problem, around(problem, seed, 40))) is None


@pytest.mark.parametrize("seed", range(3))
def test_the_evidence_is_for_the_map_of_a_funnel(seed):
    """With the right map the log joint is the prior mean, and all observations are predicted exactly."""
    problem = hard_posteriors.funnel(5)
    made = seen(problem, around(problem, seed, 16))
    state, step = begun(made.points[:0], made), InferenceStep(Settings(), seed)
    with_, without = (
        _evidence(_with_map(state, *one), step)
        for one in (scaling_from_gradients(made), _after(None, made.points))
    )
    assert with_ > without + 100.0


@pytest.mark.filterwarnings("error")
def test_gradients_that_overflow_give_no_map_and_no_warning():
    problem = hard_posteriors.funnel(5)
    made = seen(problem, around(problem, 0, 20))
    for size in (1e160, 1e300):
        assert scaling_from_gradients(replace(made, gradients=size * made.gradients)) is None


def test_no_map_where_the_derivatives_of_a_coordinate_do_not_fall():
    """With a rate for which lambda was zero its centre was 4e299, and the run ended in an exception."""
    problem = known_posteriors.rosenbrock(4)
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), gradient=problem.gradient, budget=16, seed=1411)
    assert found.frame.scaling is None
    assert np.isfinite(found.log_evidence)


def test_nothing_without_gradients_or_with_few_of_them():
    problem = hard_posteriors.funnel(5)
    made = seen(problem, around(problem, 0, 11))
    assert scaling_from_gradients(made) is None
    assert scaling_from_gradients(Evaluations.none(5)) is None


def test_a_funnel_takes_few_evaluations():
    """A closed form. Without the map ln Z was .5 to 4 off after 500 evaluations.

    So are the centred schools after 600; `test_run` has them. The climb ends 23 nats above the log evidence,
    in a neck without mass.
    """
    funnel = hard_posteriors.funnel(5)
    found = bqvi.vbmc(funnel.log_joint, **funnel.bounds(), gradient=funnel.gradient, budget=120, seed=1)
    assert found.converged
    assert abs(found.log_evidence - funnel.log_evidence) < 0.05
    assert np.abs(found.trace["log_evidence"]).max() < 30.0


def test_many_regressions_at_once_are_those_of_lstsq():
    rng = np.random.default_rng(0)
    design, values = rng.standard_normal((3, 20, 4)) * [1e4, 1.0, 1e-3, 1.0], rng.standard_normal((3, 20))
    found = ridge_regressions(design, values, 1e-24)
    for one, a, b in zip(found, design, values, strict=True):
        np.testing.assert_allclose(one, np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-8)
    # with two equal columns only the sum of their weights is determined
    twice = np.repeat(design[:, :, :1], 2, axis=-1)
    found = ridge_regressions(twice, values, 1e-14)
    alone = ridge_regressions(design[:, :, :1], values, 1e-14)
    np.testing.assert_allclose(found.sum(-1), alone[:, 0], rtol=1e-8)
