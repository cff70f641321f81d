"""Gaussians at evaluated points that q lacks: against a grid, on a ring that q hardly covers."""

import numpy as np
import pytest
import scipy.stats
from scipy.special import logsumexp

from bqvi.variational_bmc.added_components import most_components, with_more
from bqvi.variational_bmc.correction import ANYWHERE, polished, proposal_of, variance_penalised, weighed
from bqvi.variational_bmc.local_proposal import local_proposal
from bqvi.variational_bmc.settings import COMPONENTS
from bqvi.variational_bmc.surrogate import Surrogate, noise_shaped
from bqvi.variational_bmc.variational import DiagonalMixture

RADIUS, SD = 1.4, 0.1
LOG_Z = np.log(2.0 * np.pi * RADIUS * SD * np.sqrt(2.0 * np.pi))
SIDE = DiagonalMixture(np.ones(1), np.array([[RADIUS, 0.0]]), np.array([[SD, 3.0 * SD]]))


def on_circles(radius, angle):
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.fixture(scope="module")
def surrogate():
    radius = RADIUS + 2.0 * SD * np.random.default_rng(0).uniform(-1.0, 1.0, 150)
    x = on_circles(radius, 2.0 * np.pi * np.arange(150) / 150)
    data = noise_shaped(x, -0.5 * ((radius - RADIUS) / SD) ** 2, None, np.full(150, 1e-4), 1e4)
    return Surrogate.of(data, np.array([0.3, 0.3, 1.5, 7.7, -0.7]))


def test_the_thorough_estimate_finds_a_ring_that_q_hardly_covers(surrogate):
    """The log evidence of the surrogate by a polar grid, and the ring's in closed form."""
    radii, angles = np.linspace(RADIUS - 0.6, RADIUS + 0.6, 61), 2.0 * np.pi * np.arange(240) / 240
    radius = np.repeat(radii, 240)
    moments = surrogate.moments(on_circles(radius, np.tile(angles, 61)))
    cell = (radii[1] - radii[0]) * (angles[1] - angles[0])
    exact = logsumexp(variance_penalised(*moments, surrogate.data.top) + np.log(radius * cell))
    alone = weighed(surrogate, SIDE, 1024, 0)
    assert alone.log_evidence < exact - 0.5
    found = polished(surrogate, SIDE, 1024, 0)
    assert found.effective_sample_size > 0.6 * 1024
    assert found.log_evidence == pytest.approx(exact, abs=4.0 * found.monte_carlo_sd)
    assert found.log_evidence == pytest.approx(LOG_Z, abs=0.03)
    assert not found.covered


def test_gaussians_on_a_ring_reach_all_of_it_and_are_thin(surrogate):
    local = local_proposal(surrogate, proposal_of(SIDE), LOG_Z)
    directions = local.means / np.linalg.norm(local.means, axis=1)[:, None]
    across = np.einsum("kij,ki->kj", local.factors, directions)
    assert np.linalg.norm(across, axis=1).max() < 2.0 * SD
    ring = on_circles(np.full(240, RADIUS), 2.0 * np.pi * np.arange(240) / 240)
    ring = ring[SIDE.log_density(ring) < -LOG_Z - 2.0]
    whitened = np.linalg.solve(local.factors[:, None], (ring - local.means[:, None])[..., None])
    assert np.square(whitened).sum((2, 3)).min(0).max() < 4.0


def test_where_q_lacks_nothing_there_is_no_proposal(surrogate):
    angle = 2.0 * np.pi * np.arange(60) / 60
    whole = DiagonalMixture(
        np.full(60, 1 / 60), on_circles(np.full(60, RADIUS), angle), np.full((60, 2), 1.2 * SD)
    )
    assert local_proposal(surrogate, proposal_of(whole), LOG_Z) is None
    assert polished(surrogate, whole, 1024, 0).covered


def test_a_posterior_that_q_approximates_in_many_dimensions_is_covered():
    """A logistic density in D = 20, of which a Gaussian q differs by KL = .2, and evaluations in its tails.

    Gaussians at points in the tails have more mass by Laplace's approximation than there is.
    """
    rng, dimension = np.random.default_rng(3), 20
    scale = np.sqrt(3.0) / np.pi  # a logistic variable of variance one
    x = np.concatenate([rng.logistic(0.0, scale, (60, dimension)), np.zeros((1, dimension))])
    values = scipy.stats.logistic.logpdf(x, scale=scale).sum(1)
    data = noise_shaped(x, values, -np.tanh(0.5 * x / scale) / scale, None, 200.0)
    psi = np.log([*np.full(dimension, 2.5), 2.5e-3, 20.0, 1e-6])
    q = DiagonalMixture(np.ones(1), np.zeros((1, dimension)), np.full((1, dimension), 0.93))
    found = polished(Surrogate.of(data, psi), q, 2048, 0)
    assert local_proposal(Surrogate.of(data, psi), proposal_of(q), found.log_evidence) is not None
    assert found.log_evidence == pytest.approx(0.0, abs=0.15)
    assert found.covered


def test_a_full_mixture_is_given_components_where_it_lacks_a_ring_until_it_covers_it(surrogate):
    """It has as many components as its number of evaluations otherwise allows, all on an arc."""
    n = len(surrogate.data.values)
    angle = np.linspace(-0.5, 0.5, most_components(n))
    known = on_circles(np.full(len(angle), RADIUS), angle)
    q = DiagonalMixture(np.full(len(angle), 1.0 / len(angle)), known, np.full((len(angle), 2), SD))
    more = with_more(surrogate, q, n, 0, ANYWHERE)
    added = more.means[q.count :]
    assert len(added) == COMPONENTS.added
    assert (np.abs(np.linalg.norm(added, axis=1) - RADIUS) < 2.0 * SD).all()
    assert (np.abs(np.arctan2(added[:, 1], added[:, 0])) > 0.5).all()
    for step in range(1, n):
        more, before = with_more(surrogate, more, n, step, ANYWHERE), more
        if more is before:
            break
    assert more.count <= COMPONENTS.longer * most_components(n) + COMPONENTS.added
