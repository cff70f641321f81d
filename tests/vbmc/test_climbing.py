"""The climb to the mode: against L-BFGS on the function itself."""

import numpy as np
import scipy.optimize

import bqvi
from bqvi.calls import Evaluations
from bqvi.variational_bmc.climbing import next_step
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


def test_it_asks_for_what_l_bfgs_asks_for_and_stops_when_little_is_gained():
    made = climbed(evaluate(np.array([[-2.0, 2.0], [5.0, 5.0]])), 30)
    asked = []

    def objective(x):
        asked.append(x.copy())
        found = evaluate(x[None])
        return -found.values[0], -found.gradients[0]

    scipy.optimize.minimize(objective, np.array([-2.0, 2.0]), jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(made.points[2:], asked[1 : len(made) - 1], atol=1e-9)
    assert made.values.max() > -0.5
    assert len(made) < len(asked) + 1


def test_it_ends_at_its_budget_and_does_not_begin_without_gradients_or_where_it_failed():
    assert len(climbed(evaluate(np.array([[-2.0, 2.0]])), 3)) == 3
    assert next_step(evaluate(np.array([[-2.0, 2.0]]), failing=True), 30) is None
    plain = evaluate(np.array([[-2.0, 2.0]]))
    without = Evaluations(plain.points, plain.values, None, None, plain.failed, plain.reasons)
    assert next_step(without, 30) is None


def quadratic(dimension, seed=0):
    """The evaluations of a Gaussian with random axes, and its precision."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    precision = (turn * np.linspace(3.0, 60.0, dimension)) @ turn.T
    mode = rng.uniform(-0.2, 0.2, dimension)

    def evaluate(points, failed=False):
        gap = points - mode
        values = -0.5 * np.einsum("nd,de,ne->n", gap, precision, gap)
        lost = np.full(len(points), failed)
        slopes = np.where(failed, np.nan, -gap @ precision)
        return Evaluations(points, np.where(failed, -np.inf, values), slopes, None, lost, ("",) * len(points))

    return evaluate, precision


def test_what_is_evaluated_determines_a_quadratic_of_many_dimensions():
    evaluate, precision = quadratic(20)
    made = evaluate(np.zeros((1, 20)))
    while (point := next_step(made, 30)) is not None:
        made = made.joined(evaluate(point[None]))
    assert len(made) < 30
    best = made.values.argmax()
    steps, slopes = made.points - made.points[best], made.gradients - made.gradients[best]
    found = -np.linalg.lstsq(steps, slopes, rcond=None)[0]
    np.testing.assert_allclose(found, precision, atol=1e-6)
    assert made.values.min() > -15.0  # no step beyond the posterior but the first of L-BFGS


def test_points_in_new_directions_that_fail_are_not_asked_for_again():
    evaluate, _ = quadratic(12)
    made, asked = evaluate(np.zeros((1, 12))), 0
    while (point := next_step(made, 6)) is not None and asked < 40:
        made, asked = made.joined(evaluate(point[None], failed=asked >= 6)), asked + 1
    assert asked < 20


def test_a_gaussian_of_twenty_dimensions_is_known_from_its_gradients():
    problem = gaussian(20, 3)
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), gradient=problem.gradient, budget=45, seed=3)
    assert abs(found.log_evidence) < 0.05
