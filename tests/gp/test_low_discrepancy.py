"""Sobol points against SciPy's generator, and by the definition of a digital net."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import qmc

from gp import low_discrepancy
from gp.low_discrepancy import scrambled_sobol, sobol


@pytest.mark.parametrize("own", [True, False], ids=["own", "SciPy's"])
@pytest.mark.parametrize("dimension", [1, 4, 40])
def test_points_are_those_of_scipy_to_the_bit(dimension, own, monkeypatch):
    if not own:
        monkeypatch.setattr(low_discrepancy, "_NUMBERS", Path("no such file"))
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    for n in (1, 2, 5, 64, 100):
        whole = 2 ** int(np.ceil(np.log2(n)))
        expected = qmc.Sobol(dimension, scramble=True, rng=rng).random(whole)[:n]
        np.testing.assert_array_equal(scrambled_sobol(dimension, n, same), expected)
        plain = qmc.Sobol(dimension, scramble=False).random(whole)[:n]
        np.testing.assert_array_equal(sobol.__wrapped__(dimension, n), plain)
    assert rng.random() == same.random()


def test_more_dimensions_than_are_known_are_refused():
    with pytest.raises(ValueError, match="known up to 21201 dimensions"):
        sobol(21_202, 2)


@pytest.mark.parametrize("points", [scrambled_sobol(3, 64, 0), sobol(3, 64)], ids=["scrambled", "plain"])
def test_each_interval_of_a_net_has_one_point(points):
    for column in points.T:
        assert np.array_equal(np.sort(np.floor(column * 64)), np.arange(64))


def test_points_without_scrambling_are_shared_and_not_written_to():
    with pytest.raises(ValueError, match="read-only"):
        sobol(2, 8)[0, 0] = 1.0
