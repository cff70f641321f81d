"""Noise that was not declared: it is found by one further evaluation near the best point, and fitted."""

import re

import numpy as np
import pytest

import bqvi
from bqvi.calls import Evaluations
from bqvi.variational_bmc.stopping import differing, repeated, understated
from bqvi.variational_bmc.surrogate import Surrogate, fit, noise_shaped
from experiments.problems import hard_posteriors, known_posteriors

GAUSSIANS = [(2, 1.0, 1), (4, 0.3, 1)]
"""Dimension, standard deviation of the noise, seed."""


def repeats(found):
    return len(repeated(found.evaluations.points))


def reported(found):
    return [warning for warning in found.warnings if "declared exact" in warning]


def stated(message):
    """The standard deviation that a warning states."""
    return float(message.split("deviation of ")[1].split(":")[0])


@pytest.mark.parametrize(("dimension", "sd", "seed"), GAUSSIANS)
def test_noise_on_a_gaussian_is_found_by_one_further_evaluation(dimension, sd, seed):
    """A surrogate with short lengthscales explains such values as well as noise does."""
    problem = hard_posteriors.gaussian(dimension, seed)
    found = bqvi.vbmc(problem.noisy(sd, seed), **problem.bounds(), budget=60, seed=seed)
    assert found.n_evaluations <= 60
    assert repeats(found) == 1
    (message,) = reported(found)
    assert 0.5 < stated(message) / sd < 2.0
    assert abs(found.log_evidence - problem.log_evidence) < 4 * found.log_evidence_sd


@pytest.mark.parametrize("gradients", [False, True])
def test_the_evaluation_is_not_made_where_values_exclude_noise(gradients):
    for problem in (hard_posteriors.gaussian(3, 0), known_posteriors.rosenbrock(2)):
        gradient = problem.gradient if gradients else None
        found = bqvi.vbmc(problem.log_joint, **problem.bounds(), gradient=gradient, budget=100)
        assert found.converged
        assert repeats(found) == 0


def test_noise_beside_gradients_is_found():
    problem, rng = known_posteriors.rosenbrock(2), np.random.default_rng(0)
    found = bqvi.vbmc(
        lambda x: problem.log_joint(x) + 0.1 * rng.standard_normal(),
        **problem.bounds(), gradient=problem.gradient, budget=60,
    )  # fmt: skip
    assert 0.05 < stated(reported(found)[0]) < 0.2
    assert abs(found.log_evidence - problem.log_evidence) < 3 * found.log_evidence_sd < 0.3


def test_values_at_nearly_the_same_point():
    points = np.array([[0.0, 1.0], [2.0, 3.0], [1e-9, 1.0], [0.0, 1.0]])

    def made(*values):
        failed = ~np.isfinite(values)
        return Evaluations(points, np.array(values), None, None, failed, ("",) * 4)

    assert differing(made(1.0, 5.0, 1.0, 1.5)) == (1.0, 1.5)
    assert differing(made(1.0, 5.0, 1.0, 1.0 + 1e-9)) is None
    assert differing(made(1.0, 5.0, -np.inf, 1.0)) is None
    assert differing(made(-np.inf, -np.inf, -np.inf, -np.inf)) is None
    assert differing(Evaluations.none(2)) is None


@pytest.mark.parametrize("seed", range(2))
def test_a_rough_function_is_found(seed):
    """A value at exactly the same point would be the same again."""
    problem = known_posteriors.rosenbrock(2)

    def rough(x):
        bits = np.frombuffer(np.asarray(x, float).tobytes(), np.uint32)
        return problem.log_joint(x) + 0.3 * np.random.default_rng(bits).standard_normal()

    found = bqvi.vbmc(rough, **problem.bounds(), budget=60, seed=seed)
    assert 0.15 < stated(reported(found)[0]) < 0.6
    assert abs(found.log_evidence - problem.log_evidence) < 4 * found.log_evidence_sd


def test_a_difference_that_the_slope_allows_is_no_noise():
    """A Gaussian that is 4e-6 of the box wide, of which the best point is far from the mode."""
    points = np.array([[0.5, 0.1], [-0.6, 0.8], [0.9, -0.3], [-0.2, -0.7]])
    points = np.vstack([points, points[[3]] + 1e-9])
    values = -0.5 * np.square((points + np.array([0.1, 0.4])) / 4e-6).sum(1)
    assert abs(values[3] - values[4]) > 10.0

    def made(values):
        return Evaluations(points, values, None, None, np.zeros(5, bool), ("",) * 5)

    assert differing(made(values)) is None
    noisy = -0.5 * np.square(points).sum(1) + np.array([0.0, 0.0, 0.0, 0.0, 0.02])
    assert differing(made(noisy)) == (noisy[3], noisy[4])


@pytest.mark.parametrize("seed", [21, 22])
def test_an_exact_function_that_is_steep_in_its_box_is_not_called_noisy(seed):
    means, sds = np.array([0.31, 0.64]), np.array([2e-5, 5e-5])

    def log_joint(t):
        return -0.5 * float(np.square((t - means) / sds).sum())

    found = bqvi.vbmc(log_joint, lower=[0, 0], upper=[1, 1], budget=36, seed=seed)
    assert not reported(found)


def _reasons(factor, seed):
    """Those of 60 values of a curved log density with noise of ``factor`` times the sd that is stated."""
    rng = np.random.default_rng(seed)
    stated = np.exp(rng.uniform(np.log(0.05), np.log(0.3)))
    x = 1.3 * rng.standard_normal((60, 2))
    values = -0.5 * x[:, 0] ** 2 - 0.5 * (x[:, 1] + 0.3 * x[:, 0] ** 2) ** 2
    values += stated * factor * rng.standard_normal(60)
    made = Evaluations(x, values, None, np.full(60, stated**2), np.zeros(60, bool), ("",) * 60)
    data = noise_shaped(x, values, None, made.noise_variance, 30.0)
    return understated(made, Surrogate.of(data, fit(data, None)[0]))


def test_noise_that_is_stated_too_small_is_a_reason_and_the_right_one_is_not():
    """One false alarm in a hundred is allowed: three or more in 40 tables have a probability of .8 %."""
    assert sum(bool(_reasons(1.0, seed)) for seed in range(40)) <= 2
    assert sum(bool(_reasons(10.0, seed)) for seed in range(40)) >= 36


def test_a_run_whose_noise_is_stated_too_small_has_not_converged():
    rng = np.random.default_rng(5)

    def noisy(theta):
        return -0.5 * float(theta @ theta) - abs(float(theta[0])) + 1.6 * rng.standard_normal()

    box = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
    with pytest.warns(UserWarning, match="The values vary by more than their noise"):
        found = bqvi.vbmc(noisy, **box, noise_sd=0.2, budget=80, seed=1)
    assert not found.converged
    told = next(reason for reason in found.reasons if "vary by more" in reason)
    assert 1.0 < float(re.search("deviation of ([0-9.]+) instead of 0.2 ", told)[1]) < 2.4
