"""Signal to noise of DReG on a Gaussian posterior, by its closed form, from one draw and from several.

With q = N(m, s^2), the posterior N(m + d s, s^2) and z = m + s e, ln w = d e + constant, so that the gradient
in m is (d / s) sum v^2 with v the normalised weights of e^(d e). At L = 1 it is d / s, whatever the draw; at
L >= 2, by the moments of the variance of L normal numbers and up to d^4,

    E[gradient] = (d / s) (1 + d^2 (L - 1) / L) / L,   sd(gradient) = (d / s) d^2 (2 (L - 1))^1/2 / L^2.
"""

import numpy as np
import pytest

from bqvi.families import Gaussian
from bqvi.gradients import Batch, DReG
from bqvi.models import LogJoint

MEAN, SD = 0.4, 0.7
REPEATS = 1500


def slopes(q_mean, q_sd, samples, repeats=REPEATS, dimension=1):
    """Gradients in u, of means and of logarithms of standard deviations, each (repeats, dimension)."""
    model = LogJoint(lambda z: -0.5 * (((z - MEAN) / SD) ** 2).sum(1), dimension)
    q, rng = Gaussian(np.full(dimension, q_mean), q_sd**2 * np.eye(dimension)), np.random.default_rng(0)
    found = [DReG(samples)(model, q, Batch(None, 1), rng).values for _ in range(repeats)]
    means, factors = (np.array([np.asarray(one[part]) for one in found]) for part in (0, 1))
    return means, factors.diagonal(axis1=1, axis2=2)


def test_one_draw_gives_the_slope_in_the_mean_without_noise():
    for d in (0.1, 1.0):
        found = slopes(MEAN - d * SD, SD, 1, 20)[0]
        np.testing.assert_allclose(found, d / SD, rtol=1e-9)


def test_one_draw_gives_one_ratio_in_the_logarithm_of_the_standard_deviation():
    """(1 - q_sd^2 / SD^2) e^2, of chi-squared: the same ratio near the posterior and far from it.

    A draw of twenty independent coordinates has twenty such numbers.
    """
    for wider in (1.02, 1.5):
        found = slopes(MEAN, wider * SD, 1, REPEATS // 20, 20)[1]
        assert abs(found.mean()) / found.std() == pytest.approx(2**-0.5, rel=0.24)


def test_several_draws_have_a_ratio_that_rises_with_their_number():
    """Five standard errors of the spread of REPEATS chi-squared numbers: 24 % with one degree of freedom."""
    d, ratios = 0.1, []
    for samples, tolerance in ((2, 0.24), (16, 0.11)):
        found = slopes(MEAN - d * SD, SD, samples)[0]
        mean = d / SD * (1 + d**2 * (samples - 1) / samples) / samples
        spread = d / SD * d**2 * np.sqrt(2 * (samples - 1)) / samples**2
        assert found.mean() == pytest.approx(mean, rel=1e-3)
        assert found.std() == pytest.approx(spread, rel=tolerance)
        ratios.append(found.mean() / found.std())
    assert ratios == sorted(ratios)
