"""d ln y / da of gamma draws at a fixed value of the CDF, and that of Dirichlet draws, by other formulas."""

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from bqvi.families import Dirichlet
from bqvi.families.gamma import log_gamma_draws, log_gamma_slope


def exact_slope(a, log_y):
    """-(dF/da) / (y p(y)) in 40 digits."""
    with mpmath.workdps(40):
        a, y = mpmath.mpf(float(a)), mpmath.exp(mpmath.mpf(float(log_y)))

        def series(s):  # gamma(s, y) = y^s e^-y sum y^n / (s ... (s + n)), regularised
            term = total = 1 / s
            n = 0
            while term > total * mpmath.mpf(10) ** -45:
                n += 1
                term *= y / (s + n)
                total += term
            return mpmath.exp(s * mpmath.log(y) - y - mpmath.loggamma(s)) * total

        density = mpmath.exp(a * mpmath.log(y) - y - mpmath.loggamma(a))
        return float(-mpmath.diff(series, a, h=a * mpmath.mpf(10) ** -13) / density)


@pytest.mark.parametrize("a", [1e-3, 0.03, 0.5, 1.0, 3.0, 40.0, 1e4])
def test_gamma_slope_in_forty_digits(a):
    shape = np.full(6, a)
    quantiles = np.array([1e-3, 0.05, 0.3, 0.7, 0.95, 0.999])
    y = scipy.stats.gamma.ppf(quantiles, shape)
    log_y = np.where(y > 1e-290, np.log(np.maximum(y, 1e-300)), (np.log(quantiles) + a) / a)
    expected = [exact_slope(a, value) for value in log_y]
    # five-point differences: h^4 against rounding of F over h, about 1e-10 (the module's docstring)
    np.testing.assert_allclose(log_gamma_slope(shape, log_y), expected, rtol=1e-8)


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 3.0, 40.0, 1e4])
def test_gamma_slope_by_differences_of_the_inverse_cdf(a):
    quantiles = np.array([0.02, 0.3, 0.7, 0.97])
    y = scipy.special.gammaincinv(a, quantiles)
    quantiles = scipy.special.gammainc(a, y)
    h = 1e-4 * a

    def difference(step):
        up = np.log(scipy.special.gammaincinv(a + step, quantiles))
        down = np.log(scipy.special.gammaincinv(a - step, quantiles))
        return (up - down) / (2.0 * step)

    expected = (4.0 * difference(h) - difference(2.0 * h)) / 3.0  # error h^4, and 1e-13 / 1e-4 of rounding
    np.testing.assert_allclose(log_gamma_slope(np.full(4, a), np.log(y)), expected, rtol=2e-7)


@pytest.mark.parametrize("alpha", [[1e-3, 1e-3, 1e-3], [1e-3, 1.0, 1e4], [0.3, 2.0, 7.0]])
def test_dirichlet_draws_carry_the_derivative_of_their_own_noise(alpha):
    """The Jacobian of ln pi is that of ln y less its softmax average, column by column."""
    leaf = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    log_pi = Dirichlet(leaf.detach().numpy()).from_natural((leaf,)).rsample(5, 11)
    log_y = log_gamma_draws(np.array(alpha), 5, 11)
    slope = log_gamma_slope(np.array(alpha), log_y)
    weights = scipy.special.softmax(log_y, axis=-1)
    for draw in range(5):
        for k in range(3):
            (found,) = torch.autograd.grad(log_pi[draw, k], leaf, retain_graph=True)
            expected = (np.eye(3)[k] - weights[draw]) * slope[draw]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(slope[draw]).max())


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 1e4])
def test_draws_have_the_gamma_distribution(alpha):
    """Kolmogorov and Smirnov on F(y), where it does not underflow; false alarm 1e-6."""
    log_y = log_gamma_draws(np.array([alpha]), 4000, 3)[:, 0]
    assert np.isfinite(log_y).all()
    if alpha < 0.01:  # F(y) = y^a / Gamma(a + 1) to a relative y
        uniform = np.where(
            log_y < -30.0,
            np.exp(alpha * log_y - scipy.special.gammaln(alpha + 1.0)),
            scipy.special.gammainc(alpha, np.exp(log_y)),
        )
    else:
        uniform = scipy.special.gammainc(alpha, np.exp(log_y))
    assert scipy.stats.kstest(uniform, "uniform").pvalue > 1e-6


def test_underflowing_weights_keep_their_logarithms():
    log_pi = Dirichlet(np.full(10, 1e-3)).sample(1000, 0)
    assert np.isfinite(log_pi).all()
    assert log_pi.min() < -745.0  # where exp underflows
    np.testing.assert_allclose(np.exp(log_pi).sum(-1), 1.0, rtol=1e-12)
