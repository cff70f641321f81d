"""The slope of a cost, of a power law."""

import pytest

from benchmarks.gp_scaling import slope


def test_the_slope_of_a_power_law_leaves_out_the_smallest_size():
    assert slope([10, 20, 40, 80], [7.0, 4e-4, 1.6e-3, 6.4e-3]) == pytest.approx(2.0, abs=1e-12)
