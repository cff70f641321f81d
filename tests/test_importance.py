"""Proposals adapted to weighted draws, against expectation maximisation written out draw by draw."""

import numpy as np
import pytest
import scipy.stats

from bqvi.importance import Proposal

MEANS = np.array([[-1.0, 0.0], [2.0, 1.0]])
FACTORS = np.array([[[0.8, 0.0], [0.3, 0.6]], [[1.1, 0.0], [-0.4, 0.9]]])
MIXTURE = Proposal(np.array([0.3, 0.7]), MEANS, FACTORS)


def components(u):
    covariances = FACTORS @ FACTORS.mT
    each = [scipy.stats.multivariate_normal(m, c).logpdf(u) for m, c in zip(MEANS, covariances, strict=True)]
    return np.log(MIXTURE.weights)[:, None] + np.array(each)


@pytest.mark.parametrize("count", [30, 400])
def test_an_adapted_proposal_is_a_step_of_expectation_maximisation(count):
    """Covariances are mixed with the earlier ones by the share D over the effective draws of a component."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((count, 2)) * 1.5 + [0.5, 0.5]
    weights = rng.dirichlet(np.ones(count))
    logs = components(u)
    found = MIXTURE.adapted(u, weights, logs)
    joint = np.exp(logs)
    for k in range(2):
        shares = np.array([weights[i] * joint[k, i] / joint[:, i].sum() for i in range(count)])
        mass = shares.sum()
        mean = sum(share * x for share, x in zip(shares, u, strict=True)) / mass
        spread = sum(s * np.outer(x - mean, x - mean) for s, x in zip(shares, u, strict=True)) / mass
        kept = min(1.0, 2.0 * np.sum(shares**2) / mass**2)
        assert 0.0 < kept < 0.5
        covariance = (1.0 - kept) * spread + kept * FACTORS[k] @ FACTORS[k].T
        assert found.weights[k] == pytest.approx(mass, rel=1e-10)
        np.testing.assert_allclose(found.means[k], mean, rtol=1e-10)
        np.testing.assert_allclose(
            found.factors[k] @ found.factors[k].T,
            covariance + 1e-8 * np.eye(2),
            rtol=1e-9,
        )


def test_a_component_with_one_draw_keeps_its_covariance_and_one_without_mass_is_left_out():
    u = np.array([[-1.0, 0.5]])
    found = MIXTURE.adapted(u, np.ones(1), np.array([[0.0], [-40.0]]))
    np.testing.assert_allclose(found.means, u)
    np.testing.assert_allclose(
        found.factors @ found.factors.mT, FACTORS[:1] @ FACTORS[:1].mT, atol=2.0 * 1e-8
    )
