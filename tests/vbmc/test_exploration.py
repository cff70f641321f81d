"""Modes and exploration: Gaussians whose modes, depths and basins are known."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import qmc

from bqvi.calls import Evaluations
from bqvi.variational_bmc.exploration import explore, left_open
from bqvi.variational_bmc.modes import Modes
from bqvi.variational_bmc.settings import EXPLORATION


def modes_of(*gaussians):
    """Modes of a normalised mixture of (weight, mean, sd)."""
    weights, means, sds = (np.array(column, float) for column in zip(*gaussians, strict=True))
    dimension = means.shape[1]
    heights = np.log(weights) - dimension * np.log(sds) - 0.5 * dimension * np.log(2.0 * np.pi)
    return Modes(heights, means, sds[:, None, None] * np.eye(dimension), weights)


class Run:
    """Evaluations of a mixture (weight, mean, sd) within a budget."""

    def __init__(self, gaussians, budget=1000, gradient=False, start=None):
        self.modes = modes_of(*gaussians)
        self.budget, self.gradient = budget, gradient
        self.points = np.zeros((0, self.modes.means.shape[1]))
        self.evaluate(self.modes.means[:1] if start is None else start)

    def _logs(self):
        return self.modes.heights - 0.5 * self.modes.squares(self.points)

    @property
    def made(self):
        n = len(self.points)
        return Evaluations(self.points, self.values, self.gradients, None, np.zeros(n, bool), ("",) * n)

    @property
    def values(self):
        return logsumexp(self._logs(), axis=1)

    @property
    def gradients(self):
        if not self.gradient:
            return None
        share = np.exp(self._logs() - self.values[:, None])
        precision = self.modes.factors[:, 0, 0] ** -2.0
        return np.einsum("nr,r,nrd->nd", share, precision, self.modes.means - self.points[:, None, :])

    def evaluate(self, points):
        if len(self.points) + len(points) > self.budget:
            return False
        self.points = np.concatenate([self.points, points])
        return True


def sequence(dimension, seed=0):
    return 2.0 * qmc.Sobol(dimension, rng=np.random.default_rng(seed)).random(64) - 1.0


FIRST, SECOND, THIRD = (
    (0.4, [-0.5, -0.4, 0.3], 0.1),
    (0.4, [0.6, 0.5, -0.2], 0.07),
    (0.2, [0.5, -0.6, 0.1], 0.1),
)


def test_modes_agree_with_the_density_far_from_each_other():
    modes = modes_of(FIRST, SECOND)
    points = np.array([FIRST[1], SECOND[1]]) + 0.1
    exact = (
        np.log(0.4)
        - 3 * np.log([0.1, 0.07])
        - 1.5 * np.log(2 * np.pi)
        - 0.5 * 3 * 0.01 / np.square([0.1, 0.07])
    )
    # the other mode is 90 nats below
    np.testing.assert_allclose(
        logsumexp(modes.heights - 0.5 * modes.squares(points), axis=1), exact, rtol=1e-12
    )
    assert modes.contain(np.array([FIRST[1], [0.0, 0.0, 0.0]])).tolist() == [True, False]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_gaussian_is_explained_without_a_climb(gradient, seed):
    run = Run([FIRST], gradient=gradient)
    found = explore(run, modes_of(FIRST), sequence(3, seed))
    assert found.complete
    assert not found.new_mode
    assert found.count == EXPLORATION.count(3)
    assert len(run.points) == 1 + found.count


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_further_modes_are_found_one_after_the_other(gradient, seed):
    run = Run([FIRST, SECOND, THIRD], gradient=gradient)
    for known in ([FIRST], [FIRST, SECOND], [FIRST, THIRD]):
        found = explore(run, modes_of(*known), sequence(3, seed))
        assert found.new_mode
        others = [g for g in (SECOND, THIRD) if g not in known]
        sizes = [np.linalg.norm(run.points - np.array(mean), axis=1).min() / sd for _, mean, sd in others]
        assert min(sizes) < 2.5  # a point where that mode has its mass
        run = Run([FIRST, SECOND, THIRD], gradient=gradient)
    assert not explore(run, modes_of(FIRST, SECOND, THIRD), sequence(3, seed)).new_mode


@pytest.mark.parametrize("budget", [1, 3, 9, 17])
def test_the_budget_is_not_exceeded(budget):
    run = Run([FIRST, SECOND], budget=budget)
    assert not explore(run, modes_of(FIRST), sequence(3)).complete
    assert len(run.points) <= budget


def test_what_was_evaluated_is_not_evaluated_again():
    run = Run([FIRST, SECOND])
    explore(run, modes_of(FIRST), sequence(3))
    known = Run([FIRST, SECOND], start=run.points)
    explore(known, modes_of(FIRST), sequence(3))
    assert len(np.unique(known.points, axis=0)) == len(known.points) > len(run.points)


def test_heavy_tails_cost_a_limited_number_of_climbs():
    class Student(Run):
        @property
        def values(self):
            return self.modes.heights[0] - 3.0 * np.log1p(self.modes.squares(self.points)[:, 0] / 3.0)

    run = Student([FIRST])
    found = explore(run, modes_of(FIRST), sequence(3))
    assert found.complete
    assert not found.new_mode
    assert len(run.points) <= 1 + found.count + EXPLORATION.in_vain * (8 * 3 + 10)


def test_what_is_left_open_follows_the_rule_of_succession():
    """Shares p uniform on (0, 1): given n misses the next point hits with probability 1 / (n + 2)."""
    p = (np.arange(200_000) + 0.5) / 200_000
    for n in (0, 5, 20):
        missed = (1.0 - p) ** n
        hit = (missed * p).sum() / missed.sum()
        # a midpoint rule of 2e5 points
        assert left_open(n) == pytest.approx(0.5 * np.log(2.0) * hit, rel=1e-6)
