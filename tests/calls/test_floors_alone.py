"""A log joint of which only a floor was seen: no door takes it to be known everywhere."""

import numpy as np
import pytest

import bqvi
from bqvi.calls.table import nothing_above

BOX = {"plausible_lower": [-2.5], "plausible_upper": [2.5], "lower": [-6.0], "upper": [6.0]}


def flat(theta):
    return -70.0 + 0.0 * theta.sum(-1)


def test_equal_values_say_nothing_unless_some_failed():
    values = np.full(7, -3.5)
    (reason,) = nothing_above(values, 0)
    assert "all 7 values are -3.5" in reason
    assert nothing_above(values + 1e-12 * np.arange(7), 0)
    assert nothing_above(np.zeros(4), 0)
    assert not nothing_above(values, 1)  # the others are above those
    assert not nothing_above(values + 1e-6 * np.arange(7), 0)
    assert not nothing_above(values[:0], 0)


@pytest.mark.parametrize("gradient", [None, "autodiff"])
def test_vbmc(gradient):
    found = bqvi.vbmc(lambda t: flat(t) if gradient else float(flat(t)), **BOX, gradient=gradient, budget=40)
    assert not found.converged
    assert any("as on a floor" in reason for reason in found.reasons)
    assert any("as on a floor" in warning for warning in found.warnings)
    assert found.log_evidence == pytest.approx(np.log(12) - 70, abs=0.1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_stripe_in_the_middle_of_a_floor_is_found_or_the_floor_is_not_believed(seed):
    """A sixtieth of the range, where most points that test a claim do not fall."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1.5, 1.5)

    def stripe(theta):
        return -1.0 if abs(theta[0] - middle) < 0.1 else -50.0

    found = bqvi.vbmc(stripe, **BOX, budget=40, seed=seed)
    assert not found.converged or abs(found.log_evidence - np.log(0.2) + 1.0) < 0.1
