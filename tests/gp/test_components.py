"""The terms of a sum, against the joint Gaussian of the terms written out in full."""

import numpy as np
import pytest

import gp
from gp.kernels import Periodic, RationalQuadratic, SquaredExponential

TERMS = (
    SquaredExponential(2.0, 3.0),
    Periodic(1.0, 1.5, 0.5) * SquaredExponential(4.0),
    RationalQuadratic(0.7),
)


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, (25, 1))
    process = gp.GaussianProcess(TERMS[0] + TERMS[1] + TERMS[2], gp.means.Constant(0.7), noise=0.1)
    return process.condition(x, np.sin(x[:, 0]) + 0.3 * rng.standard_normal(25))


@pytest.mark.parametrize("term", range(3))
def test_a_term_is_the_conditional_of_the_joint_gaussian(posterior, term):
    # (f_t at m points, y) is Gaussian; np.linalg.solve conditions it without a Cholesky factor.
    # 1e-10: the condition number of K is about 1e3, far from the 1e-16 / 1e-10 that it would take.
    x, at = posterior.x, np.linspace(-1, 7, 9)[:, None]
    observed = sum(k(x, x) for k in TERMS) + 0.1 * np.eye(25)
    cross = TERMS[term](at, x)
    mean = cross @ np.linalg.solve(observed, posterior.y - 0.7)
    covariance = TERMS[term](at, at) - cross @ np.linalg.solve(observed, cross.T)
    component = gp.components(posterior)[term]
    found, variance = component.mean_and_variance(at)
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(component.mean(at), found, rtol=0, atol=1e-14)
    np.testing.assert_allclose(variance, np.diag(covariance), rtol=0, atol=1e-10)


def test_terms_of_a_mixture_over_hyperparameters_are_the_mixture_of_its_terms():
    """The law of total variance over the members, written out."""
    rng = np.random.default_rng(4)
    x, at = rng.uniform(0, 6, (30, 1)), np.linspace(-1, 7, 5)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 0] + 0.1 * rng.normal(size=30)
    mixture = gp.marginalise(gp.fit(x, y, SquaredExponential() + RationalQuadratic(), seed=0), 5, seed=0)
    for term, found in enumerate(gp.components(mixture)):
        parts = [gp.components(one)[term].mean_and_variance(at) for one in mixture.posteriors]
        means, variances = (np.array(part) for part in zip(*parts, strict=True))
        mean = mixture.weights @ means
        np.testing.assert_allclose(found.mean(at), mean, atol=1e-12)
        spread = mixture.weights @ (variances + (means - mean) ** 2)
        np.testing.assert_allclose(found.variance(at), spread, rtol=1e-9)
