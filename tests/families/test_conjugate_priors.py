"""The conjugate priors of Gaussians and rates against SciPy's densities; the contract of `check_family`."""

import numpy as np
import pytest
import scipy.stats

from bqvi.families import Dirichlet, Flat, Gamma, NormalInverseGamma, NormalInverseWishart, PointMass
from bqvi.families.testing import check_family


def wishart(rng, batch, j, d):
    root = rng.standard_normal((*batch, d, d + 3))
    return NormalInverseWishart(
        rng.standard_normal((*batch, j, d)),
        rng.uniform(0.5, 3.0, (*batch, j)),
        root @ np.swapaxes(root, -1, -2),
        np.asarray(rng.uniform(d + 4.0, d + 9.0, batch)),
        rng.standard_normal(d),
    )


def inverse_gamma(rng, batch, d):
    values = (np.asarray(rng.uniform(0.5, 3.0, batch)) for _ in range(2))
    dof = np.asarray(rng.uniform(4.0, 9.0, batch))
    return NormalInverseGamma(rng.standard_normal((*batch, d)), *values, dof, rng.standard_normal(d))


@pytest.mark.parametrize(("batch", "j", "d"), [((), 1, 1), ((), 1, 3), ((2,), 1, 2), ((), 3, 2)])
def test_normal_inverse_wishart_keeps_the_contract(batch, j, d):
    check_family(wishart(np.random.default_rng(1), batch, j, d), draws=3000, rtol=1e-9)


@pytest.mark.parametrize(("batch", "d"), [((), 1), ((), 3), ((2, 3), 1)])
def test_normal_inverse_gamma_keeps_the_contract(batch, d):
    check_family(inverse_gamma(np.random.default_rng(2), batch, d), rtol=1e-9)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gamma_keeps_the_contract(batch):
    rng = np.random.default_rng(3)
    check_family(Gamma(np.asarray(rng.uniform(0.3, 3.0, batch)), np.asarray(rng.uniform(0.5, 3.0, batch))))


@pytest.mark.parametrize(("j", "d"), [(1, 1), (1, 3), (3, 2)])
def test_normal_inverse_wishart_density_is_scipys(j, d):
    rng = np.random.default_rng(4)
    q = wishart(rng, (), j, d)
    theta = q.sample(5, rng)
    expected = scipy.stats.invwishart(float(q.dof), q.scale)
    for point, found in zip(theta, q.log_prob(theta), strict=True):
        covariance = point[j:]
        log_density = expected.logpdf(covariance)
        for mean, m, strength in zip(point[:j], q.means, q.strength, strict=True):
            log_density += scipy.stats.multivariate_normal(m, covariance / strength).logpdf(mean)
        assert found == pytest.approx(log_density, rel=1e-10, abs=1e-9)


def test_normal_inverse_gamma_density_is_scipys():
    rng = np.random.default_rng(5)
    q = inverse_gamma(rng, (), 3)
    theta = q.sample(5, rng)
    prior = scipy.stats.invgamma(0.5 * float(q.dof), scale=0.5 * float(q.scale))
    for point, found in zip(theta, q.log_prob(theta), strict=True):
        variance = np.exp(point[-1])
        normal = scipy.stats.norm(q.means, np.sqrt(variance / q.strength))
        expected = prior.logpdf(variance) + normal.logpdf(point[:-1]).sum()
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_gamma_density_and_entropy_are_scipys():
    q = Gamma(np.array([0.4, 3.0]), np.array([2.0, 0.5]))
    peer = scipy.stats.gamma(q.shape, scale=1.0 / q.rate)
    log_rates = np.array([[-2.0, 0.3], [1.0, 2.0]])
    np.testing.assert_allclose(q.log_prob(log_rates), peer.logpdf(np.exp(log_rates)), rtol=1e-12)
    np.testing.assert_allclose(q.entropy, peer.entropy(), rtol=1e-12)


@pytest.mark.parametrize("make", [wishart, inverse_gamma])
def test_the_mode_is_the_densest_point(make):
    rng = np.random.default_rng(6)
    q = make(rng, (), 1, 2) if make is wishart else make(rng, (), 2)
    if make is wishart:
        best = q.log_prob(q.mode[None])[0]
        noise = rng.standard_normal((50, 3, 2)) * 0.01
        noise[:, 1:] += np.swapaxes(noise[:, 1:], 1, 2)
        near = q.mode + noise
    else:  # densities are over v, points have ln v
        best = q.log_prob(q.mode[None])[0]
        near = q.mode + 0.01 * rng.standard_normal((50, 3))
    assert (q.log_prob(near) < best).all()


def test_one_dimension_is_one_family():
    rng = np.random.default_rng(7)
    a, b = (
        NormalInverseWishart(rng.normal(size=(1, 1)), np.array([2.0]), np.array([[s]]), np.array(nu))
        for s, nu in ((1.7, 5.2), (0.6, 3.1))
    )
    c, d = (NormalInverseGamma(w.means[0], w.strength[0], w.scale[0, 0], w.dof) for w in (a, b))
    assert a.kl(b) == pytest.approx(float(c.kl(d)), rel=1e-12)
    assert a.log_normaliser == pytest.approx(float(c.log_normaliser), rel=1e-12)
    assert a.entropy == pytest.approx(float(c.entropy), rel=1e-12)


def test_far_origins_lose_no_digits():
    rng = np.random.default_rng(8)
    near = wishart(rng, (2,), 1, 3)
    far = NormalInverseWishart(
        near.centred_mean + 2.0**30, near.strength, near.scale, near.dof, np.full(3, 2.0**30)
    )
    back = far.from_natural(far.natural)
    np.testing.assert_allclose(back.scale, near.scale, rtol=1e-6)
    np.testing.assert_allclose(back.expected_log_determinant, near.expected_log_determinant, rtol=1e-6)


@pytest.mark.parametrize(
    "family",
    [
        NormalInverseWishart(np.zeros((1, 2)), np.ones(1), np.eye(2), np.array(4.0)),
        NormalInverseGamma(np.zeros(2), np.array(1.0), np.array(1.0), np.array(3.0)),
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NormalInverseWishart(np.zeros((1, 2)), np.ones(1), np.eye(2), np.array(0.9)), "dof is 0.9"),
        (
            lambda: NormalInverseWishart(np.zeros((1, 2)), np.ones(1), -np.eye(2), np.array(4.0)),
            "scale is not",
        ),
        (lambda: NormalInverseWishart(np.zeros((1, 2)), -np.ones(1), np.eye(2), np.array(4.0)), "strength"),
        (lambda: NormalInverseGamma(np.zeros(2), np.array(1.0), np.array(0.0), np.array(3.0)), "scale"),
        (lambda: Gamma(np.array(-1.0), np.array(1.0)), "shape"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
