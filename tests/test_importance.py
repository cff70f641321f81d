"""Proposals that cover a density, against integrals in closed form."""

import numpy as np
import pytest

from bqvi.importance import Proposal, covering, effective_size, normalised

NARROW = Proposal(np.ones(1), np.zeros((1, 2)), 0.5 * np.eye(2)[None])

ALONG = np.linspace(-5.0, 5.0, 21)
RIDGE, BESIDE = np.stack([ALONG, ALONG**2], axis=1), 6.0 + 0.02 * np.stack([ALONG, ALONG[::-1]], axis=1)


def arms(u):
    """A ridge of mass one along a parabola: u_1 is N(0, 1.5^2), u_2 is N(u_1^2, .2^2)."""
    along, across = u[:, 0] / 1.5, (u[:, 1] - u[:, 0] ** 2) / 0.2
    return -0.5 * (along**2 + across**2) - np.log(2.0 * np.pi * 1.5 * 0.2)


def far(u):
    """Three quarters of the mass in N(0, .5^2 I), a quarter in N((6, 6), .1^2 I)."""
    squares = [np.square(u / 0.5).sum(1), np.square((u - 6.0) / 0.1).sum(1)]
    heights = [np.log(0.75 / (2.0 * np.pi * 0.25)), np.log(0.25 / (2.0 * np.pi * 0.01))]
    return np.logaddexp(*(h - 0.5 * s for h, s in zip(heights, squares, strict=True)))


def log_ratios(proposal, log_density, count=4096):
    u = proposal.draws(count, 1)
    return log_density(u) - proposal.density.log_density(u)


@pytest.mark.parametrize(
    ("log_density", "places"),
    [(arms, RIDGE), (far, BESIDE)],
)
def test_draws_of_a_covering_have_the_mass_that_the_first_proposal_misses(log_density, places):
    """By closed form the mass is 1; 4 standard deviations of independent draws, a false alarm in 1e4."""
    assert np.exp(log_ratios(NARROW, log_density)).mean() < 0.8
    proposal = covering(NARROW, places, log_density, 1024, 0)
    logs = log_ratios(proposal, log_density)
    ratios = np.exp(logs)
    assert abs(ratios.mean() - 1.0) < 4.0 * ratios.std() / len(ratios) ** 0.5
    assert effective_size(normalised(logs)) > 0.3 * len(ratios)


def test_a_mode_is_covered_from_places_alone():
    """Without a place beside it, the mode has no draws; by closed form a quarter of the mass is lost."""
    without = np.exp(log_ratios(covering(NARROW, np.zeros((1, 2)), far, 1024, 0), far))
    assert without.mean() == pytest.approx(0.75, abs=0.01)


def test_a_proposal_that_is_the_density_stays_as_it_is():
    same = covering(NARROW, np.zeros((1, 2)), NARROW.density.log_density, 256, 0)
    np.testing.assert_array_equal(same.means, NARROW.means)
    np.testing.assert_allclose(same.weights, 1.0)


def test_a_density_without_mass_adds_nothing():
    nowhere = covering(NARROW, np.zeros((1, 2)), lambda u: np.full(len(u), -np.inf), 256, 0)
    assert len(nowhere.means) == 1
