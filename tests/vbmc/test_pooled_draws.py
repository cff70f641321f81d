"""Draws beyond the reach of q: integrals in closed form, and a ridge that continues beyond the
evaluations."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.correction import ANYWHERE, correct, moments_of, pool_of
from bqvi.variational_bmc.settings import POOLED
from bqvi.variational_bmc.variational import DiagonalMixture

SD = 0.1


@dataclass(frozen=True)
class Known:
    """A log density whose variance is stated: a stand-in for a surrogate."""

    log_density: object
    variance: object
    data: object = None

    def __post_init__(self):
        object.__setattr__(self, "data", SimpleNamespace(top=0.0, gradients=None))

    def whitened(self, u):
        return np.zeros((1, len(u)))

    def moments(self, u, whitened=None):
        return self.log_density(u), self.variance(u)

    def kernel(self, u, v):
        return np.zeros((len(u), len(v)))


def gaussian(u):
    return -0.5 * (u**2).sum(1)


def ridge(u):
    """Along the second axis, -10 to 10."""
    return -0.5 * (u[:, 0] / SD) ** 2 - 1e3 * np.maximum(np.abs(u[:, 1]) - 10.0, 0.0)


def nothing(u):
    return np.full(len(u), 1e-9)


def unknown_beyond_one(u):
    """Sd one at |y| = 1.5, ten at |y| = 2.5."""
    return np.maximum(10.0 ** (2.0 * (np.abs(u[:, 1]) - 1.5)), 1e-9)


def mixture(means, scale):
    means = np.array(means, float)
    return DiagonalMixture(np.full(len(means), 1.0 / len(means)), means, np.full(means.shape, scale))


ALONG = mixture([[0.0, -0.8], [0.0, -0.3], [0.0, 0.3], [0.0, 0.8]], 0.2)


@pytest.mark.parametrize("seed", range(5))
def test_the_pool_integrates_what_q_covers_in_part(seed):
    """The integral of exp(-|u|^2 / 2) in the plane is 2 pi; q has half of its width."""
    q = mixture([[0.0, 0.0], [0.5, -0.5]], 0.5)
    surrogate = Known(gaussian, nothing)
    pool = pool_of(surrogate, q, correct(surrogate, q, 1024, seed, ANYWHERE), seed, ANYWHERE)
    found = np.exp(pool.mean - pool.log_proposal).sum() / pool.count
    # the standard error of independent draws is 2 % here; Sobol points have less
    assert found == pytest.approx(2.0 * np.pi, rel=0.1)
    assert pool.count == 1024 + 2 * ENGINES.further == len(pool.u)
    np.testing.assert_allclose(pool.log_q, q.log_density(pool.u), rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_pool_follows_a_ridge_beyond_the_draws_of_q(seed):
    surrogate = Known(ridge, unknown_beyond_one)
    found = correct(surrogate, ALONG, 1024, seed, ANYWHERE)
    pool = pool_of(surrogate, ALONG, found, seed, ANYWHERE)
    assert (pool.variance < POOLED.known**2).all()

    def beyond(u):
        return int(((np.abs(u[:, 1]) > 1.7) & (np.abs(u[:, 0]) < 2.0 * SD)).sum())

    assert beyond(pool.u) > 5 * max(beyond(found.u), 1)
    assert pool.possible_rise(found.log_evidence, 0.0) > 0.05


def test_nothing_is_left_open_where_f_is_known():
    surrogate = Known(gaussian, nothing)
    q = mixture([[0.0, 0.0]], 1.0)
    found = correct(surrogate, q, 1024, 0, ANYWHERE)
    assert pool_of(surrogate, q, found, 0, ANYWHERE).possible_rise(found.log_evidence, 0.0) == 0.0


@pytest.mark.parametrize("inside", [1.0, 0.4])
def test_draws_of_which_one_has_all_weight_have_the_moments_of_q(inside):
    """A single draw has no covariance: closed forms of q are what is left."""
    q = DiagonalMixture(
        np.array([0.3, 0.7]), np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[0.5, 2.0], [1.0, 0.3]])
    )
    u, log_weights = np.random.default_rng(0).normal(size=(50, 2)), np.full(50, -800.0)
    log_weights[7] = 0.0
    found = SimpleNamespace(
        u=u, log_q=log_weights, log_proposal=np.zeros(50), weights=np.exp(log_weights), inside=inside,
        effective_sample_size=1.0,
    )  # fmt: skip
    moments = moments_of(found, q)
    mean = 0.3 * np.array([0.0, 1.0]) + 0.7 * np.array([2.0, -1.0])
    between = 0.21 * np.outer([2.0, -2.0], [2.0, -2.0])
    assert moments.mean == pytest.approx(mean)
    assert moments.covariance == pytest.approx(
        between + np.diag([0.3 * 0.25 + 0.7 * 1.0, 0.3 * 4.0 + 0.7 * 0.09])
    )
    assert moments.floor == 0.0
