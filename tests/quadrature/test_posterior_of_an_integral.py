"""The posterior that `integrate` returns for a log density, against closed forms."""

import numpy as np
import pytest

import bqvi
import gp


@pytest.mark.parametrize("method", ["bq", "wsabi-l"])
def test_a_gaussian_likelihood_times_the_measure_has_the_conjugate_posterior(method, tmp_path):
    """Errors of 8,192 independent draws would be .02 standard deviations; those of a sequence are less."""
    measure = gp.measures.Gaussian(np.array([1.0, 0.0]), np.diag([1.0, 4.0]))
    precision, centre = np.linalg.inv([[0.14, 0.05], [0.05, 0.41]]), np.array([1.7, -0.2])

    def log_likelihood(x):
        return -0.5 * np.einsum("ni,ij,nj->n", x - centre, precision, x - centre)

    found = bqvi.integrate(log_likelihood, measure, budget=60, method=method, log=True, seed=0)
    covariance = np.linalg.inv(precision + np.diag([1.0, 0.25]))
    mean, sd = covariance @ (precision @ centre + [1.0, 0.0]), np.sqrt(np.diag(covariance))
    units = np.outer(sd, sd)
    np.testing.assert_allclose((found.posterior.mean - mean) / sd, 0.0, atol=0.01)
    np.testing.assert_allclose(found.posterior.covariance / units, covariance / units, atol=0.02)
    found.save(tmp_path / "integral.npz")
    np.testing.assert_array_equal(bqvi.load(tmp_path / "integral.npz").posterior.mean, found.posterior.mean)


def test_on_a_box_it_stays_within_the_bounds():
    """x0 has the distribution Beta(3, 1), and x1 Beta(1, 2)."""
    found = bqvi.integrate(
        lambda x: 2.0 * np.log(x[:, 0]) + np.log1p(-x[:, 1]), lower=[0, 0], upper=[1, 1], budget=60, log=True
    )
    np.testing.assert_allclose(found.posterior.mean, [3 / 4, 1 / 3], atol=0.003)
    np.testing.assert_allclose(found.posterior.sd, np.sqrt([3 / 80, 1 / 18]), atol=0.003)
    draws = found.posterior.sample(2000)
    assert (draws > 0).all()
    assert (draws < 1).all()


def test_there_is_none_without_mass_without_a_surrogate_and_of_a_finite_measure():
    standard, points = gp.measures.Gaussian(np.zeros(1), np.eye(1)), np.linspace(-2.0, 2.0, 80)[:, None]
    empirical = gp.measures.Empirical(points, np.full(80, 1 / 80))

    def run(f, measure, **options):
        return bqvi.integrate(f, measure, budget=24, **options).posterior

    def square(x):
        return -(x[:, 0] ** 2)

    assert run(lambda x: np.full(len(x), -np.inf), standard, log=True) is None
    assert run(square, standard, log=True, method="qmc") is None
    assert run(square, empirical, log=True) is None
    assert run(square, standard) is None
