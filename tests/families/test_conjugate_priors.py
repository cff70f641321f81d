"""The conjugate priors of Gaussians and rates against SciPy's densities; the contract of `check_family`."""

import numpy as np
import pytest
import scipy.stats
from family_contract import check_family
from test_families import wishart_of

from bqvi.families import Dirichlet, Flat, Gamma, MatrixNormalInverseWishart, PointMass


def wishart(rng, batch, j, d, p):
    """Random parameters; V is diagonal for more inputs than two, as of means with one covariance."""
    precision, scale = (definite(rng, batch, size) for size in (p, d))
    return MatrixNormalInverseWishart(
        rng.standard_normal((*batch, j, d, p)),
        precision if p < 3 else np.diag(rng.uniform(0.5, 3.0, p)),
        scale,
        np.asarray(rng.uniform(d + 4.0, d + 9.0, batch)),
        rng.standard_normal((d, 1)),
    )


def definite(rng, batch, d):
    root = rng.standard_normal((*batch, d, d + 3))
    return root @ np.swapaxes(root, -1, -2)


SIZES = {
    "a mean and a variance": ((), 1, 1, 1),
    "a mean and a matrix": ((2,), 1, 3, 1),
    "means and a matrix": ((), 1, 2, 3),
    "means and a variance": ((), 3, 1, 1),
    "a batch of batches": ((2, 3), 1, 1, 1),
    "regressions with a variance": ((), 2, 1, 2),
    "regressions with a matrix": ((), 2, 2, 2),
}


@pytest.mark.parametrize("size", SIZES)
def test_matrix_normal_inverse_wishart_keeps_the_contract(size):
    check_family(wishart(np.random.default_rng(1), *SIZES[size]), draws=3000, rtol=1e-9)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gamma_keeps_the_contract(batch):
    rng = np.random.default_rng(3)
    check_family(Gamma(np.asarray(rng.uniform(0.3, 3.0, batch)), np.asarray(rng.uniform(0.5, 3.0, batch))))


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 3, 1), (1, 2, 3), (3, 1, 1), (2, 2, 2)])
def test_matrix_normal_inverse_wishart_density_is_scipys(size):
    rng = np.random.default_rng(4)
    q = wishart(rng, (), *size)
    theta = q.sample(5, rng)
    prior = scipy.stats.invwishart(float(q.dof), q.scale)
    between = np.linalg.inv(q.precision)
    for point, found in zip(theta, q.log_prob(theta), strict=True):
        covariance = point[q.n_copies * q.n_inputs :]
        log_density = prior.logpdf(covariance)
        for j, mean in enumerate(q.coefficients):
            w = point[j * q.n_inputs : (j + 1) * q.n_inputs].T
            log_density += scipy.stats.matrix_normal(mean, covariance, between).logpdf(w)
        assert found == pytest.approx(log_density, rel=1e-10, abs=1e-9)


def test_far_origins_lose_no_digits():
    rng = np.random.default_rng(8)
    near = wishart(rng, (2,), 1, 3, 1)
    far = MatrixNormalInverseWishart(
        near.centred_mean + 2.0**30, near.precision, near.scale, near.dof, np.full((3, 1), 2.0**30)
    )
    back = far.from_natural(far.natural)
    np.testing.assert_allclose(back.scale, near.scale, rtol=1e-6)
    np.testing.assert_allclose(back.expected_log_determinant, near.expected_log_determinant, rtol=1e-6)


@pytest.mark.parametrize(
    "family",
    [
        wishart_of(1.0, 1.0, 4.0),
        Gamma(np.array(2.0), np.array(1.0)),
        Dirichlet(np.array([2.0, 3.0])),
    ],
)
def test_a_flat_prior_is_flat(family):
    """exp(<eta, t> + ln h) of its natural parameters is the same at every point."""
    flat = Flat(family)
    theta = family.sample(4, 0)
    level = sum(
        (eta * t).reshape(4, -1).sum(1) for eta, t in zip(flat.natural, family.statistics(theta), strict=True)
    )
    level = level + family.log_base_measure(theta)
    np.testing.assert_allclose(level, level[0], atol=1e-9)
    assert PointMass(family).kl(flat) == 0.0
