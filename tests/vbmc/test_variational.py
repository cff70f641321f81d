"""q, its correction and the choice of nodes: against finite differences, closed forms and brute force."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from bqvi.importance import Proposal
from bqvi.variational_bmc.correction import (
    ANYWHERE,
    correct,
    polished,
    resampled,
    spread,
    variance_penalised,
    weighed,
)
from bqvi.variational_bmc.exploration import pooled_within
from bqvi.variational_bmc.frame import Feasibility, Frame, alternative, axes, elite, fitting, turned
from bqvi.variational_bmc.frame_selection import evaluated_box
from bqvi.variational_bmc.learning import annealed
from bqvi.variational_bmc.next_points import NodeCriterion, _tempers, next_points
from bqvi.variational_bmc.settings import NODES
from bqvi.variational_bmc.surrogate import Surrogate, fit, log_posterior, noise_shaped, prior_of
from bqvi.variational_bmc.variational import (
    Box,
    DiagonalMixture,
    base_points,
    climb,
    elbo,
    entropy,
    grown,
    pruned,
)
from gp.low_discrepancy import scrambled_sobol

MIXTURE = DiagonalMixture(
    np.array([0.3, 0.7]), np.array([[1.0, 0.0], [-1.0, 0.5]]), np.array([[0.5, 0.6], [1.0, 0.4]])
)


def banana(x):
    return -0.5 * x[:, 0] ** 2 - (x[:, 1] - 0.5 * x[:, 0] ** 2) ** 2


LOG_Z = 0.5 * np.log(2 * np.pi) + 0.5 * np.log(np.pi)


@pytest.fixture(scope="module")
def surrogate():
    x = 4.0 * scipy.stats.qmc.Sobol(2, rng=np.random.default_rng(0)).random(64) - 2.0
    x = np.concatenate([x, 2.0 * x[:32]])
    data = noise_shaped(x, banana(x), None, np.full(96, 1e-4), 1e4)
    return Surrogate.of(data, fit(data, None, 100)[0])


def test_elbo_gradient_is_a_finite_difference():
    x = np.random.default_rng(0).standard_normal((12, 2))
    data = noise_shaped(x, banana(x), None, np.full(12, 1e-2), 1e3)
    surrogate = Surrogate.of(data, np.array([0.3, 0.3, 1.0, 1.0, -1.0]))
    base = base_points(2, 16, 2, 0)

    def mixture(flat):
        weights = np.exp(flat[:2])
        return DiagonalMixture(
            weights / weights.sum(), flat[2:6].reshape(2, 2), np.exp(flat[6:].reshape(2, 2))
        )

    flat = np.concatenate([np.log(MIXTURE.weights), MIXTURE.means.ravel(), np.log(MIXTURE.scales).ravel()])

    def value(at):
        return sum(elbo(surrogate, mixture(at), base)[:2])

    numeric = [(value(flat + e) - value(flat - e)) / 2e-5 for e in 1e-5 * np.eye(10)]
    np.testing.assert_allclose(elbo(surrogate, mixture(flat), base)[2], numeric, rtol=1e-6, atol=1e-7)


def test_entropy_of_one_gaussian_and_of_a_mixture():
    q = DiagonalMixture(np.ones(1), np.zeros((1, 3)), np.array([[0.5, 1.0, 2.0]]))
    exact = scipy.stats.multivariate_normal(np.zeros(3), np.diag([0.25, 1.0, 4.0])).entropy()
    assert entropy(q, base_points(1, 4096, 3, 0)).value == pytest.approx(exact, abs=2e-3)
    x = np.linspace(-8, 8, 801)
    grid = np.stack([g.ravel() for g in np.meshgrid(x, x)], axis=1)
    logs = MIXTURE.log_density(grid)
    exact = -np.sum(np.exp(logs) * logs) * (x[1] - x[0]) ** 2
    assert entropy(MIXTURE, base_points(2, 4096, 2, 0)).value == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_base_points_of_each_component_are_balanced(count):
    points = base_points(count, 64, 3, 0)
    np.testing.assert_allclose(points.mean(1), 0.0, atol=1e-12)
    np.testing.assert_allclose(points.var(1), 1.0, atol=0.2)


def test_moments_and_draws_of_a_mixture():
    factors = MIXTURE.scales[:, :, None] * np.eye(2)
    draws = Proposal(MIXTURE.weights, MIXTURE.means, factors).draws(2**14, 0)
    np.testing.assert_allclose(draws.mean(0), MIXTURE.mean, atol=5e-3)
    np.testing.assert_allclose(np.cov(draws.T), MIXTURE.covariance, atol=1e-2)


def test_climbing_a_gaussian_finds_it():
    """A surrogate that is -|u|^2 / 2 up to a constant: the ELBO is the evidence, q is N(0, I)."""
    x = np.random.default_rng(0).standard_normal((30, 2))
    data = noise_shaped(x, 1.0 - 0.5 * (x**2).sum(1), None, None, 1e3)
    made = Surrogate.of(data, fit(data, None)[0])
    q = DiagonalMixture(np.ones(1), np.array([[0.7, -0.5]]), np.array([[0.4, 2.0]]))
    found = climb(made, q, Box(np.full(2, -5.0), np.full(2, 5.0)), 0, 256, 100)
    assert sum(elbo(made, found, base_points(1, 256, 2, 0))[:2]) == pytest.approx(
        1.0 + np.log(2 * np.pi), abs=0.02
    )
    np.testing.assert_allclose(found.scales, 1.0, atol=0.02)
    np.testing.assert_allclose(found.means, 0.0, atol=0.02)


def test_growing_raises_the_elbo_towards_the_evidence(surrogate):
    box = Box(np.full(2, -5.0), np.full(2, 5.0))
    one = climb(surrogate, DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2))), box, 0, 256, 100)
    found = correct(surrogate, one, 512, 0)
    more = climb(surrogate, grown(one, found.u, found.log_weights, 4), box, 0, 256, 200)
    low, high = (sum(elbo(surrogate, q, base_points(q.count, 256, 2, 0))[:2]) for q in (one, more))
    assert low < high - 0.02 < LOG_Z
    few = pruned(DiagonalMixture(np.array([0.999, 0.001]), np.zeros((2, 2)), np.ones((2, 2))), 0.01)
    assert few.count == 1
    assert few.weights == pytest.approx([1.0])


@pytest.mark.parametrize("weigh", [correct, polished])
def test_the_correction_finds_the_evidence_past_q(surrogate, weigh):
    q = DiagonalMixture(np.ones(1), np.array([[0.0, 0.4]]), np.array([[1.0, 0.9]]))
    found = weigh(surrogate, q, 8192, 0)
    assert found.log_evidence == pytest.approx(LOG_Z, abs=0.02)
    assert found.surrogate_sd < 0.02
    assert np.exp(found.log_weights).sum() == pytest.approx(1.0)
    mean = found.weights @ found.u
    np.testing.assert_allclose(mean, [0.0, 0.5], atol=0.03)


def test_the_evidence_of_a_surrogate_that_is_well_known_is_that_of_gauss_legendre():
    """The draws alone are 6e-5 off, with a Monte Carlo error of 8e-4."""
    x = 6.0 * scrambled_sobol(2, 64, 0) - np.array([3.0, 2.0])
    data = noise_shaped(x, banana(x), None, np.full(64, 1e-10), 1e4)
    made = Surrogate.of(data, fit(data, None, 20)[0])
    nodes, weights = np.polynomial.legendre.leggauss(160)
    grid = np.stack(np.meshgrid(6.0 * nodes, 7.0 * nodes + 4.0, indexing="ij"), axis=-1).reshape(-1, 2)
    mean, variance = made.moments(grid)
    density = np.exp(variance_penalised(mean, variance, data.top)).reshape(160, 160)
    found = polished(made, MIXTURE, 8192, 0)
    assert found.log_evidence == pytest.approx(np.log(42.0 * weights @ density @ weights), abs=2e-5)
    assert found.monte_carlo_sd < 1e-5


def test_sd_of_the_evidence_is_that_of_joint_draws():
    """To first order, against 2000 joint draws at 256 points: their sd is within 12 % with p > .999."""
    x = np.random.default_rng(0).standard_normal((12, 2))
    data = noise_shaped(x, banana(x), None, None, 1e3)
    made = Surrogate.of(data, np.array([0.3, 0.3, 1.0, -2.0, -3.0]))
    q = DiagonalMixture(np.ones(1), np.array([[0.0, 0.4]]), np.array([[0.8, 0.8]]))
    found = correct(made, q, 1024, 0)
    index = resampled(found.weights, 256, 0)
    u, half = found.u[index], found.whitened[:, index]
    covariance = made.covariance(u, u, half, half) + 1e-8 * np.eye(256)
    draws = np.linalg.cholesky(covariance) @ np.random.default_rng(1).standard_normal((256, 2000))
    assert found.surrogate_sd == pytest.approx(draws.mean(0).std(), rel=0.12)


def test_nodes_leave_least_uncertainty_by_brute_force(surrogate):
    """Refitting with each candidate in turn, the one chosen leaves nearly the least interquantile range."""
    x = np.random.default_rng(0).standard_normal((10, 2))
    data = noise_shaped(x, banana(x), None, None, 1e3)
    made = Surrogate.of(data, np.array([0.3, 0.3, 1.0, 1.0, -1.0]))
    q = DiagonalMixture(np.ones(1), np.array([[0.0, 0.4]]), np.array([[1.0, 0.8]]))
    found = correct(made, q, 128, 0)
    chosen = next_points(made, found, 2, 0, NodeCriterion(noise=0.0))
    assert len(np.unique(chosen, axis=0)) == 2
    spread = 0.6744897501960817 * np.sqrt(found.variance)
    weights = np.exp(0.75 * (found.mean - found.mean.max()) - found.log_proposal)

    def left(node):
        more = noise_shaped(
            np.concatenate([x, node[None]]), np.append(data.values, made.mean(node[None])), None, None, 1e3
        )
        variance = Surrogate.of(more, made.psi).moments(found.u)[1]
        return weights @ np.sinh(0.6744897501960817 * np.sqrt(variance))

    scores = np.array([left(node) for node in found.u])
    assert left(chosen[0]) < np.quantile(scores, 0.03)
    assert left(chosen[0]) < weights @ np.sinh(spread)


def test_feasibility_is_even_halfway_and_one_without_failures():
    points = np.array([[0.0, 0.0], [2.0, 0.0]])
    phi = Feasibility.of(points, np.array([False, True]))
    np.testing.assert_allclose(
        phi(np.array([[1.0, 5.0], [0.0, 0.0], [2.0, 0.0]])), [0.5, 1.0, 0.0], atol=1e-6
    )
    nothing = Feasibility.of(points, np.array([False, False]))
    assert np.all(nothing(points) == 1.0)


def test_frames_carry_densities():
    rng = np.random.default_rng(0)
    frame = Frame(rng.standard_normal(2), rng.standard_normal((2, 2)) + 2 * np.eye(2))
    u = rng.standard_normal((5, 2))
    np.testing.assert_allclose(frame.into(frame.out(u)), u)
    outside = frame.measure(MIXTURE).log_density(frame.out(u))
    np.testing.assert_allclose(outside, MIXTURE.log_density(u) - frame.log_volume)
    covariance = np.array([[4.0, 1.9], [1.9, 1.0]])
    np.testing.assert_allclose(turned(u[0], covariance).scale @ turned(u[0], covariance).scale.T, covariance)
    diagonal = axes(u[0], np.diag([4.0, 1.0]))
    moved = diagonal.moved(MIXTURE, Frame(np.zeros(2), np.eye(2)))
    np.testing.assert_allclose(diagonal.measure(MIXTURE).log_density(u), moved.log_density(u))


def test_components_keep_their_precisions_where_axes_are_turned():
    """The variances that a Gaussian has along turned axes, given the other coordinates."""
    turned_axes = Frame(np.array([0.3, -1.0]), np.array([[1.0, 0.5], [0.5, 2.0]]))
    moved = Frame(np.zeros(2), np.eye(2)).moved(MIXTURE, turned_axes)
    into = np.linalg.inv(turned_axes.scale)
    for k in range(MIXTURE.count):
        covariance = into @ np.diag(MIXTURE.scales[k] ** 2) @ into.T
        np.testing.assert_allclose(moved.scales[k], np.diag(np.linalg.inv(covariance)) ** -0.5)
    np.testing.assert_allclose(turned_axes.out(moved.means), MIXTURE.means)


@pytest.mark.parametrize(("correlation", "kinds"), [(0.5, "a"), (0.9, "at"), (0.999, "t")])
def test_frames_are_turned_by_thin_posteriors_and_between_as_they_were(correlation, kinds):
    covariance = np.array([[4.0, 2.0 * correlation], [2.0 * correlation, 1.0]])
    mean = np.array([3.0, 1.0])
    for last in (axes(mean, covariance), turned(mean, covariance)):
        kept = "a" if last.diagonal else "t"
        assert fitting(mean, covariance, last).diagonal == ((kept if len(kinds) > 1 else kinds) == "a")
    along, across = axes(mean, covariance), turned(mean, covariance)
    other = {frame: alternative(mean, covariance, frame) for frame in (along, across)}
    if kinds == "at":
        np.testing.assert_array_equal(other[along].scale, across.scale)
        np.testing.assert_array_equal(other[across].scale, along.scale)
    else:
        assert set(other.values()) == {None}


def test_the_covariance_within_modes_is_that_of_draws_about_the_nearest():
    """A surrogate of two Gaussians 4 apart; q has two components in the first mode and one in the second."""
    far, x = np.array([2.0, 0.0]), scrambled_sobol(2, 128, 0) * [7.0, 3.0] - [3.5, 1.5]
    squares = [np.square((x - at) / 0.4).sum(1) for at in (far, -far)]
    data = noise_shaped(x, np.logaddexp(-0.5 * squares[0], -0.5 * squares[1]), None, None, 100.0)
    surrogate = Surrogate.of(data, fit(data, None)[0])
    means = np.array([[-2.1, 0.0], [-1.9, 0.0], [2.0, 0.0]])
    q = DiagonalMixture(np.array([0.25, 0.25, 0.5]), means, np.array([[0.4, 0.3], [0.4, 0.3], [0.2, 0.6]]))
    rng = np.random.default_rng(0)
    k = rng.choice(3, 200_000, p=q.weights)
    draws = q.means[k] + q.scales[k] * rng.standard_normal((len(k), 2))
    centred = draws - np.where(draws[:, :1] > 0.0, far, -far)
    np.testing.assert_allclose(pooled_within(surrogate, q), np.cov(centred.T), atol=0.01)
    one = DiagonalMixture(2.0 * q.weights[:2], q.means[:2], q.scales[:2])
    assert pooled_within(surrogate, one) is None


def test_frames_of_several_modes_follow_the_correlations_within_them():
    """Two modes without correlations, far apart along the diagonal: the posterior as a whole is thin, neither
    mode is.
    """
    within, mean = np.diag([1.0, 2.0]), np.zeros(2)
    whole = within + 100.0 * np.ones((2, 2))
    last = axes(mean, whole)
    assert not fitting(mean, whole, last).diagonal
    assert fitting(mean, whole, last, within).diagonal
    bent = np.array([[1.0, 0.85], [0.85, 1.0]])
    assert alternative(mean, whole, last) is None
    assert not alternative(mean, whole, last, bent).diagonal


def test_a_gaussian_is_moved_to_the_mass_of_a_surrogate_and_no_farther():
    """The log density of N((1, -1), diag(1, .09)) is known; beyond the evaluations the process rises."""
    mean, sd = np.array([1.0, -1.0]), np.array([1.0, 0.3])
    x = mean + sd * np.random.default_rng(0).uniform(-3.5, 3.5, (60, 2))
    data = noise_shaped(x, -0.5 * (((x - mean) / sd) ** 2).sum(1), None, None, 100.0)
    psi = np.log([1.5, 1.5, 1.0, 100.0, 30.0])
    m, c = annealed(Surrogate.of(data, psi), np.zeros(2), 0.01 * np.eye(2), 1, ANYWHERE)
    np.testing.assert_allclose(m, mean, atol=0.3)
    assert np.all((np.sqrt(np.diag(c)) > 0.5 * sd) & (np.sqrt(np.diag(c)) < 1.5 * sd))
    flat = np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])  # rounding has made it indefinite
    m, c = annealed(Surrogate.of(data, psi), mean, flat, 1, ANYWHERE)
    np.testing.assert_allclose(m, mean, atol=0.3)
    assert np.linalg.eigvalsh(c).min() > 0.0
    here = noise_shaped(np.zeros((1, 2)), np.zeros(1), None, None, 100.0)
    m, c = annealed(Surrogate.of(here, psi), np.zeros(2), np.eye(2), 1, ANYWHERE)
    assert np.linalg.norm(m) < 1.0  # one value: a prior variance of nats to the fourth power keeps it there
    assert np.linalg.eigvalsh(c).max() < 2.0


def test_the_highest_points_locate_the_posterior():
    x = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    mean, covariance = elite(x, -100.0 * ((x - 1.0) ** 2).sum(1))
    assert (mean > 0.3).all()
    assert np.linalg.eigvalsh(covariance).min() > 0.0


def test_spread_over_hyperparameters_is_that_of_many_weighted_draws():
    """Eight sets against 2000, from a wide normal proposal; within a factor of two."""
    x = np.random.default_rng(0).standard_normal((9, 2))
    data = noise_shaped(x, banana(x), None, np.full(9, 1e-2), 1e3)
    psi, _ = fit(data, None, 200)
    made, objective = Surrogate.of(data, psi), log_posterior(data)
    found = correct(
        made, DiagonalMixture(np.ones(1), np.array([[0.0, 0.4]]), np.array([[0.8, 0.8]])), 1024, 0
    )
    rng = np.random.default_rng(1)
    u = found.u[resampled(found.weights, 256, 1)]
    normal = rng.standard_normal((2000, 5))
    steps = 1.5 * normal
    scores = np.array([objective.value(psi + step) for step in steps])
    scores += 0.5 * (normal**2).sum(1)
    kept = np.argsort(-scores)[:300]
    shifts = [
        np.log(np.mean(np.exp(Surrogate.of(data, psi + steps[i]).mean(u) - made.mean(u)))) for i in kept
    ]
    weights = np.exp(scores[kept] - scores.max())
    exact = np.sqrt(weights @ np.square(shifts) / weights.sum())
    assert 0.5 < spread(made, found, 0) / exact < 2.0


def test_one_outlying_evaluation_does_not_widen_the_region_of_the_search():
    x = np.concatenate([np.random.default_rng(0).standard_normal((20, 2)), [[1e6, 0.0]]])
    near = evaluated_box(noise_shaped(x, banana(x), None, None, 20.0))
    assert np.abs([near.lower, near.upper]).max() < 5.0


def test_variational_targets_are_where_q_is():
    """With q on one of two modes, VIQR evaluates there; IMIQR also where only the surrogate has mass."""
    x = np.concatenate(
        [np.random.default_rng(2).standard_normal((8, 2)) * 0.5 + [c, 0.0] for c in (-3.0, 3.0)]
    )
    values = np.logaddexp(*(-((x - [c, 0.0]) ** 2).sum(1) for c in (3.0, -3.0)))
    made = Surrogate.of(noise_shaped(x, values, None, None, 1e3), np.array([0.3, 0.3, 1.0, 2.0, -3.0]))
    q = DiagonalMixture(np.ones(1), np.array([[3.0, 0.0]]), np.array([[0.6, 0.6]]))
    wide = DiagonalMixture(np.full(2, 0.5), np.array([[3.0, 0.0], [-3.0, 0.0]]), np.full((2, 2), 0.8))
    found = correct(made, wide, 512, 0)
    found = replace(found, log_q=q.log_density(found.u))
    by_q = next_points(made, found, 6, 0, NodeCriterion(noise=1.0, variational=True))
    by_density = next_points(made, found, 6, 0, NodeCriterion(noise=1.0))
    assert (by_q[:, 0] > 0.0).all()
    assert 0 < (by_density[:, 0] > 0.0).sum() < 6


@pytest.mark.parametrize("edge", [False, True])
def test_the_elbo_of_the_draws_is_a_lower_bound_and_that_of_the_feasible_part_of_q(edge):
    """Against E_q[mean - log q] of q cut off at the edge, on a grid."""
    x = np.random.default_rng(0).standard_normal((30, 2))
    made = Surrogate.of(noise_shaped(x, banana(x), None, None, 1e3), prior_of(2, False).lower)
    q = DiagonalMixture(
        np.array([0.6, 0.4]), np.array([[0.2, 0.3], [-0.5, 0.2]]), np.array([[0.6, 0.7], [0.5, 0.9]])
    )

    def left(u):
        return np.where(u[:, 0] < 0.3, 1.0, 1e-12)

    class Left(Feasibility):
        """The points left of the edge can be evaluated."""

        def __call__(self, u):
            return left(u) if edge else np.ones(len(u))

    possible = Left(None, None, None, 1.0)
    found = weighed(made, q, 4096, 0, possible)
    line = np.linspace(-5.0, 5.0, 401)
    grid = np.stack([g.ravel() for g in np.meshgrid(line, line, indexing="ij")], axis=1)
    log_q, inside = q.log_density(grid), possible(grid)
    mass = np.exp(log_q) * inside
    share = mass.sum() * (line[1] - line[0]) ** 2
    exact = mass @ (made.mean(grid) - log_q) / mass.sum() + np.log(share)
    assert found.elbo == pytest.approx(exact, abs=0.02)
    assert found.elbo <= found.log_evidence


def test_a_variance_that_is_the_same_everywhere_lowers_no_evidence():
    mean = np.random.default_rng(0).standard_normal(1000)
    np.testing.assert_allclose(variance_penalised(mean, np.full(1000, 184.0), 10.0), mean + 0.5)
    known = variance_penalised(mean, np.append(np.full(500, 0.1), np.full(500, 184.0)), 10.0)
    np.testing.assert_allclose(known[:500], mean[:500] + 0.05)
    np.testing.assert_allclose(known[500:], mean[500:] + 1.0 - 92.0)


@pytest.mark.parametrize("dimension", [4, 12, 20, 30])
def test_tempered_draws_are_that_many_sds_deeper(dimension):
    """Depth below the top is half a chi-squared variable: mean and sd from scipy."""
    depth = scipy.stats.gamma(dimension / 2)
    least, usual = _tempers(dimension)
    for power, usually, deeper in zip((least, usual), NODES.tempers, NODES.deeper, strict=True):
        tempered = scipy.stats.gamma(dimension / 2, scale=1.0 / power)
        away = (tempered.mean() - depth.mean()) / depth.std()
        assert away == pytest.approx(deeper) or (power == usually and away < deeper)
    assert _tempers(2) == NODES.tempers
