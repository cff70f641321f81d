"""The climb to the mode: against L-BFGS on the function itself."""

import numpy as np
import scipy.optimize

from bqvi.calls import Evaluations
from bqvi.variational_bmc.climbing import next_step

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
