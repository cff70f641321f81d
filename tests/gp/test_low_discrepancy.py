"""Sobol points beside SciPy's own generator, and by what a digital net is."""

import numpy as np
import pytest
from scipy.stats import qmc

from gp.low_discrepancy import scrambled_sobol, sobol


@pytest.mark.parametrize("n", [1, 2, 5, 64, 100])
def test_points_are_those_of_scipy(n):
    whole = 2 ** int(np.ceil(np.log2(n)))
    rng = np.random.default_rng(3)
    expected = qmc.Sobol(4, scramble=True, rng=rng).random(whole)[:n]
    np.testing.assert_array_equal(scrambled_sobol(4, n, 3), expected)
    np.testing.assert_array_equal(sobol(4, n), qmc.Sobol(4, scramble=False).random(whole)[:n])


@pytest.mark.parametrize("points", [scrambled_sobol(3, 64, 0), sobol(3, 64)], ids=["scrambled", "plain"])
def test_each_interval_of_a_net_has_one_point(points):
    for column in points.T:
        assert np.array_equal(np.sort(np.floor(column * 64)), np.arange(64))


def test_the_same_seed_gives_the_same_points_and_a_generator_goes_on():
    np.testing.assert_array_equal(scrambled_sobol(2, 10, 1), scrambled_sobol(2, 10, 1))
    rng = np.random.default_rng(1)
    assert not np.array_equal(scrambled_sobol(2, 10, rng), scrambled_sobol(2, 10, rng))


def test_points_without_scrambling_are_shared_and_not_written_to():
    with pytest.raises(ValueError, match="read-only"):
        sobol(2, 8)[0, 0] = 1.0
