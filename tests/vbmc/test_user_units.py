"""The user's units as coordinates: finite differences, truncated draws, and ridges that end at bounds."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

import bqvi
from bqvi.calls import Evaluations
from bqvi.calls.coordinates import make_coordinates
from bqvi.variational_bmc.correction import weighed
from bqvi.variational_bmc.frame import Feasibility, Frame
from bqvi.variational_bmc.frame_selection import _shaped as shaped
from bqvi.variational_bmc.scaling import UserUnits
from bqvi.variational_bmc.surrogate import Surrogate, fit, noise_shaped
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.measures import GaussianMixture

BOX = make_coordinates([-3.0, 0.0, 2.0], [9.0, np.inf, 3.0], [-1.0, 1.0, 2.2], [5.0, 4.0, 2.5])
UNITS = UserUnits.of(BOX)
X = np.random.default_rng(4).normal(size=(6, 3))


def test_derivatives_are_those_of_finite_differences():
    y, step = UNITS.into(X), 1e-6
    moved = [UNITS.out(y + step * e) - UNITS.out(y - step * e) for e in np.eye(3)]
    jacobian = np.stack(moved, axis=2) / (2 * step)
    np.testing.assert_allclose(UNITS.log_jacobian(y), np.linalg.slogdet(jacobian)[1], rtol=1e-7)
    np.testing.assert_allclose(UNITS.log_scales(X).sum(1), UNITS.log_jacobian(y), rtol=1e-8)

    def density(at):
        x = UNITS.out(at)
        return np.sin(x).sum(1) + UNITS.log_jacobian(at)

    slopes = np.stack([density(y + step * e) - density(y - step * e) for e in np.eye(3)], axis=1) / (2 * step)
    np.testing.assert_allclose(UNITS.pulled(X, np.cos(X)), slopes, rtol=1e-6, atol=1e-8)


def test_values_and_gradients_beside_a_bound_are_those_in_the_users_units():
    """A log density that is affine in theta; t from -9 to 6, where theta itself is rounded to the bound."""
    t = np.array([-9.0, -8.3, -6.5, -6.0, -4.0, 0.5, 6.0])
    x = np.stack([(t - UNITS.centre[0]) / UNITS.half[0], np.zeros(7), np.zeros(7)], axis=1)
    theta = -3.0 + 12.0 * norm.cdf(t)
    f = 0.7 * theta + norm.logpdf(t) + np.log(12.0 * UNITS.half[0])
    slopes = np.zeros((7, 3))
    slopes[:, 0] = (0.7 * 12.0 * norm.pdf(t) - t) * UNITS.half[0]
    frame = Frame(np.zeros(3), np.eye(3), UNITS)
    f = f + UNITS.log_scales(x)[0, 2]  # the third coordinate does not change
    gaps = f + frame.log_stretch_at(x) - 0.7 * theta
    np.testing.assert_allclose(gaps, gaps[5], atol=1e-9)
    pulled = frame.slopes_into(x, slopes)[:, 0]
    assert np.isnan(pulled[:2]).all()  # below the rounding of the gradient in t
    np.testing.assert_allclose(pulled[2:], 0.7 * 3.0, rtol=1e-4)


def test_evidences_in_two_frames_are_of_the_same_observations():
    """The density of what was observed: the log determinant of observed to modelled, by differences."""
    rng = np.random.default_rng(8)
    x = 0.4 * rng.normal(size=(4, 3))
    values, gradients = rng.normal(size=4) * [1.0, 1.0, 1.0, 60.0], rng.normal(size=(4, 3))
    frame = Frame(np.array([0.2, 0.0, -0.1]), np.diag([0.5, 2.0, 1.5]), UNITS)

    def data(observed):
        made = Evaluations(x, observed[:4], observed[4:].reshape(4, 3), None, np.zeros(4, bool), ("",) * 4)
        return shaped(made, frame, 10.0, False)

    def modelled(observed):
        found = data(observed)
        return np.concatenate([found.values, found.gradients.reshape(-1)])

    observed = np.concatenate([values, gradients.reshape(-1)])
    jacobian = np.stack([modelled(observed + h) - modelled(observed - h) for h in 1e-5 * np.eye(16)]) / 2e-5
    assert data(observed).log_slope == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)


def test_the_image_of_a_gaussian_cut_by_a_bound_has_the_moments_of_the_rest():
    """Beside the bound the normal density is cut at z = .5; in x = t(theta) its moments by quadrature."""
    low = UNITS.lower[0] + 0.15 * 0.4
    means = np.array([[low, 0.3, 0.0], [UNITS.lower[0] - 9.0, 0.3, 0.0]])
    parts = np.tile(0.09 * np.eye(3), (2, 1, 1))
    weights, middle, covariances = UNITS.image(np.array([0.7, 0.3]), means, parts)
    np.testing.assert_array_equal(weights, [1.0, 0.0])  # nothing of the second lies between the bounds
    y = np.zeros((20001, 3))
    y[:, 0] = np.linspace(UNITS.lower[0] + 1e-9, low + 2.4, 20001)
    x, density = UNITS.out(y)[:, 0], norm.pdf(y[:, 0], low, 0.3)
    mean = density @ x / density.sum()
    assert middle[0, 0] == pytest.approx(mean, abs=0.01)
    assert covariances[0, 0, 0] == pytest.approx(density @ (x - mean) ** 2 / density.sum(), rel=0.03)
    assert covariances[0, 1, 1] == pytest.approx(0.09, rel=0.03)
    beyond = UNITS.image(np.ones(1), means[1:], 0.09 * np.eye(3)[None])
    # without a draw between the bounds all points were one, and the mixture had no density
    assert np.isfinite(GaussianMixture(*beyond).log_density(beyond[1])).all()


def test_the_density_that_is_returned_is_that_of_the_elbo():
    """In the user's units beside bounds: E_q of the log joint less the log density of q, by its own draws."""
    found = run_on_a_ridge(0)
    assert isinstance(found.frame.scaling, UserUnits)
    q = replace(found.posterior, draws=None)
    draws = q.sample(4000, 1)
    elbo = np.mean([ridge(theta) for theta in draws] - q.log_prob(draws))
    assert elbo == pytest.approx(found.elbo, abs=0.1)


@pytest.mark.parametrize(("upper", "periodic"), [([2.0, np.inf], []), ([2.0, 2.0], [1])])
def test_fewer_than_two_parameters_between_bounds_need_no_other_units(upper, periodic):
    box = make_coordinates([-1.0, -1.0], upper, [-0.5, 0.0], [0.5, 1.0], periodic=periodic)
    assert UserUnits.of(box) is None
    assert UserUnits.of(None) is None


def test_draws_between_bounds_have_the_evidence_of_a_truncated_density():
    """Of exp(-u^2 / 2) over -.5 < u_0 < 1: sqrt(2 pi)^2 times a difference of the normal distribution."""
    points = np.random.default_rng(1).uniform(-2, 2, (15, 2))
    data = noise_shaped(points, -0.5 * np.square(points).sum(1), None, None, 50.0, False)
    surrogate = Surrogate.of(data, fit(data, None, 15)[0])
    feasible = Feasibility.of(points, np.zeros(15, bool), lambda u: (u[:, 0] > -0.5) & (u[:, 0] < 1.0))
    q = DiagonalMixture(np.ones(1), np.full((1, 2), 0.2), np.full((1, 2), 1.2))
    found = weighed(surrogate, q, 4000, 0, feasible)
    share = norm.cdf(1.0) - norm.cdf(-0.5)
    # an effective share of .7 of 4000 draws: an sd of .012
    assert found.log_evidence == pytest.approx(np.log(2 * np.pi * share), abs=0.05)
    assert feasible.inside(found.u).all()
    assert len(found.u) == pytest.approx(4000, rel=0.05)
    assert found.inside == pytest.approx(0.5, abs=0.1)
    assert Feasibility.of(points, np.zeros(15, bool)).between_bounds(lambda n: points[:n], 9)[1] == 1.0


def ridge(theta):
    """2 theta_1 - theta_0 = 3 +- .04, between bounds: Z is .04 sqrt(2 pi) times the length of theta_1."""
    return float(norm.logpdf(2 * theta[1] - theta[0], 3.0, 0.04) + np.log(0.04 * np.sqrt(2 * np.pi)))


RIDGE = {
    "lower": [-5.0, -2.0], "upper": [9.0, 8.0], "plausible_lower": [-1.0, 0.0], "plausible_upper": [6.0, 6.0],
}  # fmt: skip
# theta_0 = 2 theta_1 - 3 is between its bounds for theta_1 between -1 and 6
RIGHT = np.log(0.04 * np.sqrt(2 * np.pi) * 7.0)


@cache
def run_on_a_ridge(seed):
    return bqvi.vbmc(ridge, **RIDGE, budget=130, seed=seed)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_straight_ridge_between_bounds_is_found_along_its_whole_length(seed):
    found = run_on_a_ridge(seed)
    assert abs(found.log_evidence - RIGHT) < 0.03
    assert isinstance(found.frame.scaling, UserUnits)
    assert found.converged
    draws = found.posterior.sample(4000, seed=1)
    assert np.abs(2 * draws[:, 1] - draws[:, 0] - 3.0).max() < 0.3
    # uniform along theta_1: quantiles of 4,000 correlated draws
    assert np.quantile(draws[:, 1], [0.1, 0.5, 0.9]) == pytest.approx([-0.3, 2.5, 5.3], abs=0.3)


def test_a_run_in_these_units_is_resumed_to_the_numbers_of_the_whole_run(tmp_path):
    """It is interrupted at the first call of an exploration, when all pending points have returned."""
    run = {**RIDGE, "budget": 50, "seed": 0}
    steps, path, calls = bqvi.vbmc.steps(ridge, **run), tmp_path / "run.npz", []
    pairs = list(pairwise(steps))
    explored_from = [
        len(one) + len(one.pending) for one, then in pairs if len(then) > len(one) + len(one.pending)
    ]

    def interrupted(theta):
        calls.append(theta)
        if len(calls) == explored_from[-1] + 1:
            raise KeyboardInterrupt
        return ridge(theta)

    with pytest.raises(bqvi.RunInterrupted):
        bqvi.vbmc(interrupted, **run, run=bqvi.Run(checkpoint=path))
    whole, resumed = steps.result(), bqvi.vbmc(ridge, **run, resume=path)
    assert isinstance(whole.frame.scaling, UserUnits)
    assert resumed.log_evidence == whole.log_evidence


@pytest.mark.parametrize("dimension", [3, 6])
def test_a_density_that_piles_up_in_a_corner_is_found(dimension):
    """exp(-5 sum of theta) on the unit cube, whose logarithm these units make linear."""
    found = bqvi.vbmc(
        lambda theta: -5.0 * float(theta.sum()), lower=[0.0] * dimension, upper=1.0, budget=90, seed=1
    )
    right = dimension * np.log((1 - np.exp(-5.0)) / 5.0)
    assert found.converged
    assert abs(found.log_evidence - right) < max(0.05, 2 * found.log_evidence_sd)


def test_the_box_around_all_points_between_bounds_is_that_of_its_corners():
    frame = Frame(np.array([0.3, -0.2, 0.1]), np.diag([2.0, 1.0, 0.5]), UNITS)
    turn = np.array([[1.0, 0.0, 0.4], [0.0, 1.0, 0.0], [0.3, 0.0, 1.0]])
    for one in (frame, replace(frame, scale=turn)):
        lower, upper = one.bounds()
        corners = np.array([[a, 0.0, b] for a in (-5 / 3, 7 / 3) for b in (-7 / 3, 13 / 3)])
        at = np.linalg.solve(one.scale, (corners - one.shift).T).T
        np.testing.assert_allclose(lower[[0, 2]], at.min(0)[[0, 2]])
        np.testing.assert_allclose(upper[[0, 2]], at.max(0)[[0, 2]])
        assert (lower[1], upper[1]) == (-np.inf, np.inf)
    assert np.isinf(Frame(np.zeros(2), np.eye(2)).bounds()).all()
