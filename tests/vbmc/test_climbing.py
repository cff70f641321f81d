"""The climb to the mode: where it begins, what it asks for, and where it ends."""

import math

import numpy as np
import pytest

import bqvi
from bqvi.calls import Evaluations
from bqvi.variational_bmc.next_points import next_step
from experiments.problems.hard_posteriors import gaussian

PRECISION = np.array([[3.0, 1.0], [1.0, 0.7]])
MODE = np.array([0.8, -1.5])


def evaluate(points, failing=False):
    gap = points - MODE
    values = -0.5 * np.einsum("nd,de,ne->n", gap, PRECISION, gap)
    failed = np.full(len(points), failing)
    slopes = np.where(failed[:, None], np.nan, -gap @ PRECISION)
    return Evaluations(points, np.where(failed, -np.inf, values), slopes, None, failed, ("",) * len(points))


def climbed(made, most):
    while (point := next_step(made, most)) is not None:
        made = made.joined(evaluate(point[None]))
    return made


def test_it_ends_at_its_budget_and_does_not_begin_without_gradients_or_where_it_failed():
    assert len(climbed(evaluate(np.array([[-2.0, 2.0]])), 3)) == 3
    assert next_step(evaluate(np.array([[-2.0, 2.0]]), failing=True), 30) is None
    plain = evaluate(np.array([[-2.0, 2.0]]))
    without = Evaluations(plain.points, plain.values, None, None, plain.failed, plain.reasons)
    assert next_step(without, 30) is None


def test_a_gaussian_of_twenty_dimensions_is_known_from_its_gradients():
    problem = gaussian(20, 3)
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), gradient=problem.gradient, budget=32, seed=3)
    assert abs(found.log_evidence) < 0.05


def in_a_cone(points, width):
    """A plane's Gaussian that is finite only within ``width`` |x| of the ray x_1 = x_2 > 0."""
    failed = np.abs(points[:, 0] - points[:, 1]) > width * np.linalg.norm(points, axis=1)
    failed |= points.sum(1) <= 0.0
    values = np.where(failed, -np.inf, -0.5 * np.square(points).sum(1))
    return Evaluations(points, values, None, None, failed, ("",) * len(points))


@pytest.mark.parametrize("width", [0.3, 0.03, 0.003])
def test_from_one_good_point_the_next_is_found_by_distances(width):
    """An open region contains a ball about a good point, in which a distance is after log2 of halvings."""
    bad = np.random.default_rng(1).uniform(-1.0, 1.0, (60, 2))
    bad = bad[in_a_cone(bad, width).failed][:9]
    made = in_a_cone(np.vstack([bad, [[0.4, 0.4]]]), width)
    while (~made.failed).sum() < 2:
        made = made.joined(in_a_cone(next_step(made)[None], width))
    assert len(made) - 10 <= 2 + math.log2(2.0 / (0.4 * width))  # the ball's radius is above .4 width


def test_a_run_goes_on_from_the_one_first_point_that_is_finite():
    """Ordered parameters in a box that does not know of their order; the answer is by draws of a normal."""
    means, sds = np.array([-1.2, -0.1, 0.9, 1.6]), np.array([0.5, 0.3, 0.3, 0.5])

    def log_joint(t):
        return -0.5 * float(np.square((t - means) / sds).sum()) if (np.diff(t) > 0.0).all() else -np.inf

    with pytest.warns(UserWarning, match="evaluations failed"):
        found = bqvi.vbmc(log_joint, plausible_lower=[-3] * 4, plausible_upper=[3] * 4, budget=60, seed=8)
    draws = means + sds * np.random.default_rng(0).standard_normal((100_000, 4))
    ordered = draws[(np.diff(draws, axis=1) > 0.0).all(1)]
    exact = math.log(len(ordered) / len(draws)) + 2.0 * math.log(2.0 * math.pi) + float(np.log(sds).sum())
    assert (~found.evaluations.failed[:10]).sum() == 1
    assert abs(found.log_evidence - exact) < max(3.0 * found.log_evidence_sd, 0.1)
    assert found.log_evidence_sd < 0.3
    np.testing.assert_allclose(found.posterior.mean, ordered.mean(0), atol=0.15)
