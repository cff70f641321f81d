"""d ln y / da of gamma draws at a fixed value of the CDF, and that of Dirichlet draws, by other formulas."""

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

from bqvi.families import Dirichlet
from bqvi.families.gamma import log_gamma_slope


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


def test_underflowing_weights_keep_their_logarithms():
    log_pi = Dirichlet(np.full(10, 1e-3)).sample(1000, 0)
    assert np.isfinite(log_pi).all()
    assert log_pi.min() < -745.0  # where exp underflows
    np.testing.assert_allclose(np.exp(log_pi).sum(-1), 1.0, rtol=1e-12)
