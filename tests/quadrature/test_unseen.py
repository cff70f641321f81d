"""Features between the nodes: jumps, pulses, constants, heavy tails; and nodes that check the surrogate."""

import numpy as np
import pytest
from scipy.stats import binom

import bqvi
import gp
from bqvi.quadrature.credibility import (
    average,
    drawn,
    judge,
    unexpected_change,
)
from bqvi.quadrature.ensemble import Ensemble
from bqvi.quadrature.nodes import by_variance, pool
from bqvi.quadrature.settings import DESIGN
from bqvi.quadrature.state import Direct, Warped
from bqvi.quadrature.surrogate import SMOOTH, StandardData, identity, surrogate
from experiments.problems.integrands import standard
from gp.low_discrepancy import scrambled_sobol, shifted_sobol
from gp.measures import Empirical, Uniform


def pulse(x):
    return 1.0 * ((x[:, 0] > 0.5) & (x[:, 0] < 0.9))


PULSE = 0.1244772  # Phi(0.9) - Phi(0.5)


@pytest.mark.parametrize("seed", range(4))
def test_a_pulse_that_the_first_nodes_miss_is_found(seed):
    found = bqvi.integrate(pulse, standard(1), 80, seed=seed)
    assert 0 < found.sd < 0.05
    # Sobol's 80 nodes in one dimension err by 1 / 80 at each of the two jumps
    assert abs(found.mean - PULSE) < min(4 * found.sd, 2 / 80)


@pytest.mark.parametrize("place", [-0.8, 0.1, 0.45, 1.1])
def test_the_error_at_a_jump_is_of_the_order_of_the_distance_of_nodes(place):
    def jump(x):
        return 2.0 * (x[:, 0] < place) - 1

    truth = 2 * float(np.mean(standard(1).from_unit_cube(scrambled_sobol(1, 2**16, 0))[:, 0] < place)) - 1
    found = bqvi.integrate(jump, standard(1), 80, seed=5)
    assert abs(found.mean - truth) < 2 * (2 / 80)
    assert abs(found.mean - truth) < 6 * found.sd


@pytest.mark.parametrize("model", [Direct(), Warped(matched=False)], ids=["direct", "warped"])
def test_weights_are_what_a_left_out_node_changes(model):
    """Also with the weight of a node times its error left out: the integral from the other nodes."""
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal((9, 2)), 2 + rng.standard_normal((9, 1))
    centred, psi = isinstance(model, Direct), np.array([0.2, 0.4, -6.0])

    def member(kept, values):
        data = StandardData(u[kept], values[kept], centred=centred)
        return surrogate("test", identity(standard(2)), SMOOTH, data, psi)

    def moment(kept, values):
        return model.moments(member(kept, values))[0][0]

    everything, step = np.arange(9), 1e-5
    weights = model.weights(member(everything, y))
    for i, direction in enumerate(step * np.eye(9)[:, :, None]):
        ahead, behind = moment(everything, y + direction), moment(everything, y - direction)
        # central differences of a quadratic: eps / step, times a condition number
        assert weights[i] == pytest.approx((ahead - behind) / (2 * step), abs=1e-5)
    if centred:
        errors, _ = member(everything, y).process.leave_one_out()
        change = moment(everything, y) - moment(np.delete(everything, 3), y)
        assert change == pytest.approx(weights[3] * errors[3, 0], rel=1e-9)


@pytest.mark.parametrize("size", [3.0, 0.1, 1.3, 1e5 / 3.0])
@pytest.mark.parametrize("method", ["bq", "wsabi-l", "qmc", "monte-carlo"])
def test_a_constant_may_be_one_only_where_there_are_nodes(method, size):
    """Of 28 values, whose mean may differ from them by rounding; the sd is that of the rule of succession."""
    found = bqvi.integrate(lambda x: np.full(len(x), size), standard(2), 28, method)
    assert found.mean == pytest.approx(size, rel=1e-6)
    assert found.sd == pytest.approx(size / 30, rel=1e-6) or method == "wsabi-l"
    assert not found.converged
    assert found.reasons[0].startswith("All values are the same")
    nothing = bqvi.integrate(lambda x: np.zeros(len(x)), standard(2), 20, method)
    assert (nothing.mean, nothing.sd, nothing.converged) == (0.0, np.inf, False)
    assert "All values are zero" in " ".join(nothing.reasons)


def test_a_share_of_the_nodes_is_from_the_sobol_sequence():
    def f(x):
        return np.exp(-0.5 * ((x - 0.3) ** 2).sum(axis=1))

    for budget, batch in ((50, None), (30, 1)):
        state = bqvi.integrate(f, standard(2), budget, design=bqvi.Design(batch=batch)).state
        assert DESIGN.checks * budget <= state.sobol.sum() < DESIGN.checks * budget + 8
        sequence = scrambled_sobol(2, int(state.sobol.sum()), 0)
        np.testing.assert_allclose(state.u[state.sobol], standard(2).from_unit_cube(sequence))
    points = np.random.default_rng(0).standard_normal((200, 2))
    finite = bqvi.integrate(f, Empirical(points), 60)
    assert len(np.unique(finite.nodes, axis=0)) == 60


def test_greedy_with_nodes_that_are_given():
    """As if they had been evaluated: their values do not matter for variances."""
    measure, rng = standard(2), np.random.default_rng(1)
    u, given = rng.standard_normal((12, 2)), rng.standard_normal((3, 2))
    psi = np.array([-0.3, 0.1, -9.0])
    member = surrogate("test", identity(measure), SMOOTH, StandardData(u, np.sin(u[:, :1])), psi)
    others = pool(measure, member, 0)
    chosen = by_variance(member, np.concatenate([given, others]), 4, given=3)
    assert chosen.min() >= 3
    more = StandardData(np.concatenate([u, given]), np.zeros((15, 1)))
    grown = surrogate("test", identity(measure), SMOOTH, more, psi)
    np.testing.assert_array_equal(chosen, by_variance(grown, others, 4) + 3)


def test_the_variance_of_an_average_contains_one_more_node():
    """Pareto draws, k = 1/2: the error bar with one more node covers where the plain one does not."""
    rng, runs, everything = np.random.default_rng(2), 400, np.ones(20, dtype=bool)
    hits = {"plain": 0, "drawn": 0}
    for values in rng.pareto(2.0, (runs, 20, 1)):
        for name, (mean, covariance) in (("plain", average(values)), ("drawn", drawn(values, everything))):
            hits[name] += abs(mean[0] - 1.0) <= 2 * np.sqrt(covariance[0, 0])
    assert hits["plain"] < binom.ppf(1e-6, runs, 0.9)
    assert binom.ppf(1e-6, runs, 0.9) <= hits["drawn"]
    even = rng.uniform(size=(2000, 1))  # where nothing can be missed it costs little
    ratio = drawn(even, np.ones(2000, dtype=bool))[1] / average(even)[1]
    assert 1 < float(ratio[0, 0]) < 1.01


def test_the_excess_is_that_of_integrals_without_a_node():
    """Each node is left out for true."""
    measure = standard(2)
    for n in (8, 18, 36):
        u = measure.sample(n, np.random.default_rng(n))
        data = StandardData(u, np.sin(u[:, :1]) + u[:, 1:] ** 2)
        member = surrogate("test", identity(measure), SMOOTH, data, np.array([0.5, 0.5, np.log(1e-8)]))
        whole, changes = float(Direct().moments(member)[0][0]), []
        for i in range(n):  # without node i, for true
            rest = StandardData(np.delete(u, i, axis=0), np.delete(data.values, i, axis=0))
            without = surrogate("test", member.chart, SMOOTH, rest, member.psi)
            changes.append([whole - float(Direct().moments(without)[0][0])])
        weights, (_, sds) = Direct().weights(member), member.process.leave_one_out()
        found = judge(
            Ensemble((member,), np.zeros(1)),
            np.ones(n, dtype=bool),
            data.values,
            weights,
            np.ones(1),
            measure,
        )
        beyond = unexpected_change(np.array(changes), weights[:, None] * sds)[0]
        assert found.excess[0] == pytest.approx(beyond, rel=1e-5)


def test_shifted_points_are_as_even_as_those_of_the_sequence():
    first, second = (shifted_sobol(2, 256, seed) for seed in (0, 1))
    assert first.min() >= 0
    assert first.max() < 1
    assert np.abs(first - second).min() > 0  # another shift each time
    np.testing.assert_array_equal(first, shifted_sobol(2, 256, 0))
    for points in (first, second):
        for d in range(2):  # in each of 256 / 4 intervals 4 points, but for one cut by the shift
            counts = np.histogram(points[:, d], bins=64, range=(0, 1))[0]
            assert counts.min() >= 3
            assert counts.max() <= 5


@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("what", ["bq", "qmc", "monte-carlo", "noise", "gradient"])
def test_units_at_the_ends_of_what_a_number_holds(what, scale):
    """The same run up to rounding, which the search for hyperparameters may enlarge."""
    noise = 0.05 * np.random.default_rng(7).standard_normal(1000) * (what == "noise")

    def f(x):
        return np.exp(-(x[:, 0] ** 2)) * np.cos(x[:, 1]) + noise[: len(x)]

    def slopes(x):
        factors = np.stack([-2 * x[:, 0] * np.cos(x[:, 1]), -np.sin(x[:, 1])], axis=1)
        return np.exp(-(x[:, :1] ** 2)) * factors

    def run(size):
        options = {
            "noise": {"noise_sd": "unknown"},
            "gradient": {"gradient": lambda x: size * slopes(x)},
        }.get(what, {"method": what})
        return bqvi.integrate(lambda x: size * f(x), standard(2), 24, **options)

    plain, scaled, searched = run(1.0), run(scale), what in ("noise", "gradient")
    within = 0.2 * plain.sd if searched else 1e-3 * abs(plain.mean)
    assert scaled.mean / scale == pytest.approx(plain.mean, abs=within)
    assert scaled.sd / scale == pytest.approx(plain.sd, rel=0.2 if searched else 1e-2)


def test_values_are_kept_when_the_gradient_fails():
    with pytest.raises(bqvi.RunError, match="gradient is not finite") as caught:
        bqvi.integrate(lambda x: x[:, 0], standard(2), 20, gradient=lambda x: np.nan * x)
    failure = caught.value.__cause__
    np.testing.assert_array_equal(failure.evaluations.points[:, :1], failure.evaluations.values)
    assert len(failure.evaluations) == 8
    with pytest.raises(bqvi.RunError, match="returned shape") as caught:
        bqvi.integrate(lambda x: np.zeros(3), standard(2), 20)
    assert caught.value.__cause__.evaluations.points.shape == (0, 2)


def test_the_surplus_of_moment_matching_is_in_its_sd():
    """On a peak, the difference of WSABI-M and WSABI-L is in the standard deviation of M."""

    def peak(x):
        return np.exp(-0.5 * np.sum(((x - 0.4) / 0.25) ** 2, axis=1))

    truth = (0.25**2 / (1 + 0.25**2)) * np.exp(-0.16 / (1 + 0.25**2))
    for seed in range(3):
        linear, matched = (
            bqvi.integrate(peak, standard(2), 40, method, seed=seed) for method in ("wsabi-l", "wsabi-m")
        )
        assert matched.sd > linear.sd
        assert abs(matched.mean - truth) < 4 * matched.sd


def two_modes(seed):
    """ln of a density with a narrow mode of 3/5 of the mass and a wide one, over that of a measure."""
    rng = np.random.default_rng([seed, 41])
    angle = rng.uniform(0, 2 * np.pi)
    centres = 1.7 * np.array([[np.cos(angle), np.sin(angle)], [-np.cos(angle), -np.sin(angle)]])
    widths, shares = np.array([0.3, 0.7]), np.array([0.6, 0.4])
    measure = gp.measures.Gaussian(np.zeros(2), 5.0 * np.eye(2))

    def log_f(x):
        squares = np.sum((x[:, None] - centres) ** 2, axis=-1)
        parts = -0.5 * squares / widths**2 - 2 * np.log(widths) - np.log(2 * np.pi) + np.log(shares)
        return np.logaddexp(*parts.T) - measure.log_density(x)

    return log_f, measure


def test_a_mode_that_was_missed_is_found_or_refused():
    """Of six densities none has converged and is wrong, and with more nodes both modes are found in each."""
    for seed in range(6):
        log_f, measure = two_modes(seed)
        few = bqvi.integrate(log_f, measure, budget=60, log=True, seed=seed)
        assert not few.converged or abs(few.log_mean) < max(3 * few.log_sd, 0.1)
        more = bqvi.integrate(log_f, measure, budget=110, log=True, seed=seed, resume=few)
        assert abs(more.log_mean) < 0.3  # without one of the modes -.51 or -.92


def test_a_root_at_the_end_of_a_box_is_not_taken_for_smooth():
    """(x - 2)^p and (5 - x)^p on [2, 5], each with mean 3^p / (p + 1).

    A smooth kernel fits either well up to the outermost node, and was up to 15 standard deviations off.
    """
    box = gp.measures.Uniform(2 * np.ones(1), 5 * np.ones(1))
    for end in (2.0, 5.0):
        for power in (0.45, 0.58):
            for seed in range(3):
                found = bqvi.integrate(
                    lambda x, e=end, p=power: np.abs(x[:, 0] - e) ** p, box, budget=36, seed=seed
                )
                assert abs(found.mean - 3**power / (power + 1)) < 3 * found.sd


def test_a_power_towards_a_place_without_nodes_is_no_result():
    """Of x^-a most of the integral may be below the nearest node, but not of roots or steep exponentials."""
    box, interval = Uniform([0.0, 0.0], [1.0, 1.0]), Uniform([0.0], [1.0])
    singular = (
        (interval, lambda x: x[:, 0] ** -0.9),
        (interval, lambda x: np.abs(x[:, 0] - 0.44) ** -0.8),
        (box, lambda x: x[:, 1] ** -0.85 * np.exp(x[:, 0])),
    )
    found = [bqvi.integrate(f, measure, 40, seed=seed) for measure, f in singular for seed in range(3)]
    assert sum(one.converged for one in found) <= 1
    assert "grow like a power" in found[2].reasons[0]
    for f in (lambda x: np.exp(5 * x[:, 0]), lambda x: np.sqrt(x[:, 0]), lambda x: 1 / (0.1 + x[:, 0])):
        assert bqvi.integrate(f, interval, 40, seed=0).converged
