"""Modes and exploration: Gaussians whose modes, depths and basins are known."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import qmc

import bqvi
from bqvi.calls import Evaluations
from bqvi.unseen import HIDDEN, Evaluated, expected_rise, hidden, revealing
from bqvi.variational_bmc.exploration import Modes, explore
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.variational import DiagonalMixture
from experiments.vbmc.hard import HARD
from gp.measures.mixture import MixtureDensity


def modes_of(*gaussians):
    """Modes of a normalised mixture of (weight, mean, sd)."""
    weights, means, sds = (np.array(column, float) for column in zip(*gaussians, strict=True))
    dimension = means.shape[1]
    factors = sds[:, None, None] * np.eye(dimension)
    outline = MixtureDensity.of(weights, means, factors)
    return Modes(
        means, factors, weights, outline, outline.heights, Frame(np.zeros(dimension), np.eye(dimension))
    )


class Run:
    """Evaluations of a mixture (weight, mean, sd) within a budget."""

    def __init__(self, gaussians, budget=1000, gradient=False, start=None):
        self.modes = modes_of(*gaussians)
        self.budget, self.gradient = budget, gradient
        self.points = np.zeros((0, self.modes.means.shape[1]))
        self.evaluate(self.modes.means[:1] if start is None else start)

    def _logs(self):
        return self.modes.outline.log_parts(self.points).T

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


def sequence(dimension, seed=0, count=512):
    return 2.0 * qmc.Sobol(dimension, rng=np.random.default_rng(seed)).random(count) - 1.0


def explored(run, modes, points, limit=64):
    """The result of an exploration of at most ``limit`` of the points."""
    return explore(run, modes, points, limit)


FIRST, SECOND, THIRD = (
    (0.4, [-0.5, -0.4, 0.3], 0.1),
    (0.4, [0.6, 0.5, -0.2], 0.07),
    (0.2, [0.5, -0.6, 0.1], 0.1),
)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_narrow_gaussian_is_explained_without_a_climb(gradient, seed):
    run = Run([FIRST], gradient=gradient)
    found = explored(run, modes_of(FIRST), sequence(3, seed))
    assert found.complete
    assert 12 <= len(run.points) <= 32
    share = found.unseen / (HIDDEN.prior * np.log(2.0))
    rng = np.random.default_rng(seed)
    places = rng.uniform(-1.0, 1.0, (2000, 3))
    places = places[~run.modes.contain(places)]
    # a mode as high, ln of its width over the known one's uniform, is hidden where it exceeds no value
    widths = 0.1 * 10.0 ** rng.uniform(-1.0, 0.0, len(places))
    logs = run.values[:1, None] - 0.5 * (cdist(run.points, places) / widths) ** 2
    assert abs(np.mean((logs < run.values[:, None]).all(0)) * len(places) / 2000 - share) < 0.06  # 5 sds


@pytest.mark.parametrize("seed", range(3))
def test_a_mode_wider_than_noticed_exceeds_a_value_and_a_narrower_one_none(seed):
    rng = np.random.default_rng(seed)
    x, places = rng.uniform(-1, 1, (30, 2)), rng.uniform(-1, 1, (50, 2))
    depths = rng.uniform(2.0, 60.0, len(x))
    widths = Evaluated(x, depths, depths, np.eye(2)[None] / 0.2).noticed(places)
    for factor, shown in ((1.001, True), (0.999, False)):
        sds = 0.2 * factor * widths
        squares = ((places[:, None] - x) ** 2).sum(2) / sds[:, None] ** 2
        assert ((-0.5 * squares > -depths).any(1) == shown).all()


def test_a_floor_excludes_no_more_than_the_known_modes_do_and_a_heavy_tail_less():
    x, far = np.array([[1.0, 0.0]]), np.array([[1.5, 0.0], [3.0, 1.0]])
    plain, floor, heavy = (
        Evaluated(x, np.array([d]), np.array([9.0]), np.eye(2)[None]) for d in (9.0, 1e6, 4.0)
    )
    np.testing.assert_array_equal(plain.noticed(far), floor.noticed(far))
    assert (heavy.noticed(far) > plain.noticed(far)).all()
    outlined = np.array([20.0, 30.0])
    assert (heavy.expected(far, far + 1.0, outlined) > plain.expected(far, far + 1.0, outlined)).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_place_that_was_evaluated_is_not_searched_again_though_its_tail_is_heavy(seed):
    rng = np.random.default_rng(seed)
    places = rng.uniform(-20.0, 20.0, (60, 2))
    x, outlined = places[:9], 0.5 * (places**2).sum(1)
    given = Evaluated(x, 2.0 * np.log1p(outlined[:9]), outlined[:9], np.eye(2)[None])
    outside = np.ones(60, bool)
    _, chosen, gains = given.search(places, outlined, outside, 60)
    assert chosen
    assert min(chosen) >= 9
    assert np.all(np.diff(gains) <= 0.0)
    # an evaluation there again would show what the first one did
    again = given.expected(places, x, outlined[:9])
    assert (again.min(1) >= given.noticed(places) * (1.0 - 1e-12)).all()


def test_a_wide_part_of_a_mode_with_little_weight_does_not_contain_points_far_below_it():
    """Nearly all components of a curved mode are narrow; one is ten times as wide."""
    means = np.stack([np.linspace(-1, 1, 9), np.linspace(-1, 1, 9) ** 2], axis=1)
    weights, sds = np.full(9, 0.11), np.full((9, 2), 0.1)
    weights[4], sds[4] = 0.01, 1.0

    class Flat:
        def mean(self, u):
            return np.zeros(len(u))

    q = DiagonalMixture(weights / weights.sum(), means, sds)
    modes = Modes.of(Flat(), q, Frame(np.zeros(2), np.eye(2)), 0.0)
    assert len(modes) == 1
    assert len(modes.levels) == 9
    assert modes.contain(np.delete(means, 4, axis=0)).all()
    assert not modes.contain(np.array([[0.0, -1.5], [1.5, -1.0]])).any()


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_further_modes_are_found_one_after_the_other(gradient, seed):
    run = Run([FIRST, SECOND, THIRD], gradient=gradient)
    for known in ([FIRST], [FIRST, SECOND], [FIRST, THIRD]):
        found = explored(run, modes_of(*known), sequence(3, seed))
        assert not found.complete
        others = [g for g in (SECOND, THIRD) if g not in known]
        sizes = [np.linalg.norm(run.points - np.array(mean), axis=1).min() / sd for _, mean, sd in others]
        assert min(sizes) < 2.5  # a point where that mode has its mass
        run = Run([FIRST, SECOND, THIRD], gradient=gradient)
    assert explored(run, modes_of(FIRST, SECOND, THIRD), sequence(3, seed)).complete


@pytest.mark.parametrize("budget", [1, 3, 9, 17])
def test_the_budget_is_not_exceeded(budget):
    run = Run([FIRST, SECOND], budget=budget)
    assert not explored(run, modes_of(FIRST), sequence(3)).complete
    assert len(run.points) <= budget


def test_heavy_tails_cost_a_limited_number_of_climbs():
    class Student(Run):
        @property
        def values(self):
            return self.modes.outline.heights[0] - 3.0 * np.log1p(self.modes.squares(self.points)[:, 0] / 3.0)

    run, points = Student([FIRST]), sequence(3)
    found = explored(run, modes_of(FIRST), points)
    assert found.complete
    assert 0.0 < found.unseen < expected_rise(1.0)  # each climb ends in the known mode
    assert len(run.points) <= 80  # 59 to 78 with other sequences


def test_points_reveal_what_they_are_said_to_reveal():
    rng = np.random.default_rng(0)
    now, then = rng.uniform(0.0, 1.5, 40), rng.uniform(0.0, 2.0, (40, 30))
    chosen, gains = revealing(now, then, 5)
    shares = [hidden(np.minimum(now, then[:, chosen[:k]].min(1, initial=2.0))).mean() for k in range(6)]
    np.testing.assert_allclose(gains, -np.diff(shares), rtol=1e-12)
    alone = [hidden(now).mean() - hidden(np.minimum(now, each)).mean() for each in then.T]
    assert chosen[0] == np.argmax(alone)
    assert np.all(np.diff(gains) <= 0.0)
    # widths 0.1 and 1 hide nothing and all; ln 0.1^0.5 is half way
    np.testing.assert_allclose(
        hidden(np.array([0.0, 0.1, 0.1**0.5, 1.0, 9.0])), [0, 0, 0.5, 1, 1], atol=1e-12
    )


@pytest.mark.parametrize("count", [2, 8, 30])
def test_what_is_left_open_follows_the_share_of_points_that_would_lead_to_unseen_modes(count):
    """24 points in ``count`` basins of equal mass: the nats that unseen basins lack, on average."""
    rng = np.random.default_rng(count)
    stated, exact = [], []
    for _ in range(2000):
        led = np.bincount(rng.integers(count, size=24), minlength=count)
        known = (led > 0).sum()
        stated.append(expected_rise(0.0, 24, int((led == 1).sum())))
        exact.append(np.log(count / known))
    assert 0.9 * np.mean(exact) <= np.mean(stated) < 1.6 * np.mean(exact) + 2.0 / 24


def ring_modes(count=16, radius=2.0, sd=0.1, arc=2.0 * np.pi):
    """The mode of an arc about the origin, by this many components in one frame of the plane."""
    angle = arc * np.arange(count) / count
    centres = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    q = DiagonalMixture(np.full(count, 1.0 / count), centres, np.full((count, 2), 2.0 * sd))

    class Flat:
        def mean(self, u):
            return np.zeros(len(u))

    return Modes.of(Flat(), q, Frame(np.zeros(2), np.eye(2)), 0.0)


def test_an_arc_without_components_and_the_middle_lie_outside_of_a_ring():
    """The Gaussian of the moments contains both."""
    modes = ring_modes(arc=1.5 * np.pi, count=24)
    angle = np.pi * np.array([0.0, 0.5, 1.0, 1.5 - 1 / 16, 1.65, 1.75, 1.85])
    x = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert modes.contain(x[:4]).all()
    missing = np.concatenate([x[4:], np.zeros((1, 2))])
    assert (modes.squares(missing) < 10.0).all()  # those of 2 degrees of freedom reach it with odds of .7 %
    assert not modes.contain(missing).any()
    assert (modes.unexplained(missing, np.full(4, -1.0), 0.1, 3.0) > 0.0).all()


def test_a_run_does_not_converge_on_one_of_two_rings():
    """Each has half of the evidence."""
    two, points = HARD["shells"].problem(0), []

    def log_joint(theta):
        points.append(np.array(theta))
        return two.log_joint(theta)

    found = bqvi.vbmc(log_joint, **two.bounds(), budget=150, seed=0)
    x = np.array(points)
    from_rings = np.abs(np.hypot(x[:, None, 0] - np.array([-3.5, 3.5]), x[:, 1:]) - 2.0)
    assert (from_rings.min(0) < 0.1).all()  # their sd
    assert not found.converged


@pytest.mark.parametrize("gradient", [False, True])
def test_the_flank_of_a_spike_inside_of_a_mode_is_climbed_from(gradient):
    slab, spike = (0.3, [0.0, 0.1], 0.5), (0.7, [0.2, -0.1], 0.02)
    run = Run([slab, spike], gradient=gradient)
    run.evaluate(np.array([[0.2, -0.1]]) + 0.02 * np.array([[1.8, -2.0]]))  # 2.7 of its sds from its top
    run.evaluate(run.points[1:] + 1e-9)  # as the test for noise does
    known = modes_of(slab)
    assert known.contain(run.points).all()
    found = explore(run, known, sequence(2), 64, 0.0, (1,))
    assert not found.complete
    assert np.linalg.norm(run.points - np.array(spike[1]), axis=1).min() < 0.02


EGGS = [(1 / 9, [2.0 * i, 2.0 * j], 0.01) for i in (-1, 0, 1) for j in (-1, 0, 1)]


class Egg(Run):
    """Nine narrow modes, between which values fall by 2000 to 4000 nats and rise again."""

    @property
    def values(self):
        top = self.modes.outline.heights.max()
        waves = np.cos(np.pi * self.points).sum(1) - 2.0
        return top + waves / (0.01 * np.pi) ** 2 * (1.0 + 1e-3 * self.points[:, 0])


@pytest.mark.parametrize("seed", [0, 2])
def test_climbs_that_lead_back_to_the_modes_they_had_found_do_not_end_a_search(seed):
    """Nine equal basins; most climbs lead to modes that earlier climbs had found."""
    run, known = Egg(EGGS, budget=2000, start=np.array([[-2.0, -2.0]])), [EGGS[0]]
    points = 3.0 * (2.0 * qmc.Sobol(2, rng=np.random.default_rng(seed)).random(512) - 1.0)
    for _ in range(40):
        modes = modes_of(*((1.0 / len(known), mean, 0.01) for _, mean, _ in known))
        found = explored(run, modes, points, 512)
        tops = [egg for egg in EGGS if np.abs(run.points - egg[1]).max(1).min() < 0.05 and egg not in known]
        if found.complete:
            break
        known += tops
    assert len(known) >= 8  # of five and six a search that counts such climbs for all points would end


def test_a_search_that_the_budget_ends_at_once_leaves_open_what_it_did():
    run = Run([FIRST], budget=1)
    found = explored(run, modes_of(FIRST), sequence(3))
    assert not found.complete
    assert 0.9 * expected_rise(1.0) < found.unseen < expected_rise(1.0)
