"""The thorough estimate in many dimensions, and components on a ring that q hardly covers."""

import numpy as np
import pytest
import scipy.stats

from bqvi.variational_bmc.correction import ANYWHERE, polished, with_more
from bqvi.variational_bmc.settings import COMPONENTS
from bqvi.variational_bmc.surrogate import Surrogate, noise_shaped
from bqvi.variational_bmc.variational import DiagonalMixture

RADIUS, SD = 1.4, 0.1


def on_circles(radius, angle):
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.fixture(scope="module")
def surrogate():
    radius = RADIUS + 2.0 * SD * np.random.default_rng(0).uniform(-1.0, 1.0, 150)
    x = on_circles(radius, 2.0 * np.pi * np.arange(150) / 150)
    data = noise_shaped(x, -0.5 * ((radius - RADIUS) / SD) ** 2, None, np.full(150, 1e-4), 1e4)
    return Surrogate.of(data, np.array([0.3, 0.3, 1.5, 7.7, -0.7]))


def test_a_posterior_that_q_approximates_in_many_dimensions_has_its_evidence():
    """A logistic density in D = 20, of which a Gaussian q differs by KL = .2; evaluations in tails."""
    rng, dimension = np.random.default_rng(3), 20
    scale = np.sqrt(3.0) / np.pi  # a logistic variable of variance one
    x = np.concatenate([rng.logistic(0.0, scale, (60, dimension)), np.zeros((1, dimension))])
    values = scipy.stats.logistic.logpdf(x, scale=scale).sum(1)
    data = noise_shaped(x, values, -np.tanh(0.5 * x / scale) / scale, None, 200.0)
    psi = np.log([*np.full(dimension, 2.5), 2.5e-3, 20.0, 1e-6])
    q = DiagonalMixture(np.ones(1), np.zeros((1, dimension)), np.full((1, dimension), 0.93))
    found = polished(Surrogate.of(data, psi), q, 2048, 0, tolerance=0.5)
    assert found.log_evidence == pytest.approx(0.0, abs=0.15)


def test_a_full_mixture_is_given_components_where_it_lacks_a_ring_until_it_covers_it(surrogate):
    """It has as many components as its number of evaluations otherwise allows, all on an arc."""
    n = len(surrogate.data.values)
    angle = np.linspace(-0.5, 0.5, int(n ** (2 / 3)))
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
    assert more.count <= COMPONENTS.longer * int(n ** (2 / 3)) + COMPONENTS.added
