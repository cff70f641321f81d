"""Climbs from values alone: modes and basins in closed form."""

import numpy as np
import pytest
import scipy.optimize

from bqvi.calls import Evaluations
from bqvi.calls.climb import climb


class Run:
    """Evaluations of a function within a budget."""

    def __init__(self, function, start, budget=200):
        self.function, self.budget, self.points = function, budget, np.zeros((0, len(start)))
        self.evaluate(np.array([start], float))

    @property
    def made(self):
        n = len(self.points)
        values = np.array([self.function(x) for x in self.points])
        return Evaluations(self.points, values, None, None, ~np.isfinite(values), ("",) * n)

    def evaluate(self, points):
        if len(self.points) + len(points) > self.budget:
            return False
        self.points = np.concatenate([self.points, points])
        return True


def gaussian(mean, precision):
    return lambda x: -0.5 * float(np.square(x - mean) @ precision)


def valley(x):
    """Rosenbrock's function: the way is curved, the top 0 at (1, 1)."""
    return -float(scipy.optimize.rosen(x))


CASES = {
    "far": (gaussian(np.array([60.0, -4.0]), np.array([1.0, 9.0])), [0.0, 0.0]),
    "steep": (gaussian(np.array([0.3, -0.2, 0.1]), np.array([1e4, 1e3, 1e4])), [1.0, 1.0, -1.0]),
    "curved": (valley, [-1.0, 1.0]),
}


@pytest.mark.parametrize("name", ["far", "steep"])
def test_a_climb_reaches_the_top_however_far_it_is(name):
    function, start = CASES[name]
    run = Run(function, start)
    ended = climb(run, np.array(start), 0.3, first=0.5)
    assert ended.ended == "gain"
    assert -0.5 < run.made.values.max() <= 0.0
    assert ended.new == len(run.points) - 1 <= 60


def test_a_climb_that_is_made_again_looks_up_its_evaluations():
    function, start = CASES["curved"]
    run = Run(function, start)
    once = climb(run, np.array(start), 0.5)
    again = climb(run, np.array(start), 0.5)
    assert again.rows == once.rows
    assert again.new == 0 < once.new


@pytest.mark.parametrize("seed", range(4))
def test_a_climb_does_not_leap_over_a_valley(seed):
    """The known mode is higher; the other one has the start in its basin."""
    rng = np.random.default_rng(seed)
    known, other = np.array([-0.6, 0.0]), np.array([0.6, 0.3])
    first, second = gaussian(known, np.full(2, 200.0)), gaussian(other, np.full(2, 200.0))
    start = other + np.array([0.25, 0.25]) * rng.choice([-1.0, 1.0], 2)
    run = Run(lambda x: float(np.logaddexp(first(x), second(x) - 1.0)), start)
    run.evaluate(known + 0.05 * rng.standard_normal((8, 2)))
    ended = climb(
        run, start, 0.3, within=lambda x: float(np.square(x - known).sum()) * 200.0 < 9.0, first=0.2
    )
    assert ended.ended == "gain"
    assert np.linalg.norm(run.points[ended.rows[-1]] - other) < 0.1


@pytest.mark.parametrize("budget", [1, 2, 7])
def test_the_budget_of_a_climb_is_not_exceeded(budget):
    run = Run(CASES["far"][0], [0.0, 0.0], budget)
    ended = climb(run, np.zeros(2), 0.5)
    assert ended.ended == "room"
    assert len(run.points) == budget == 1 + ended.new


def test_places_where_the_function_fails_are_left():
    inside, start = gaussian(np.array([0.4, 0.0]), np.full(2, 100.0)), np.array([-1.0, 1.0])
    run = Run(lambda x: -np.inf if x[0] > 0.5 else inside(x), start)
    ended = climb(run, start, 0.3, first=0.5)
    assert ended.ended == "gain"
    assert run.made.values.max() > -1.0  # as high as typical points of a Gaussian in the plane
