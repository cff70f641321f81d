"""Published posteriors: evidences by other rules, and the figures that others print of the same integrals."""

import math

import numpy as np
import pytest
from test_posterior_contract import PUBLISHED


def midpoints(problem, lower, upper, n):
    """The logarithm of the integral over a box, by the midpoints of n x n cells."""
    axes = [lo + (hi - lo) * (np.arange(n) + 0.5) / n for lo, hi in zip(lower, upper, strict=True)]
    logs = problem.log_density(np.stack([g.ravel() for g in np.meshgrid(*axes)], axis=1))
    cell = np.prod((np.asarray(upper) - lower) / n)
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum() * cell))


def test_evidence_of_the_eggbox_by_midpoints_of_one_period():
    box = 2.0 * math.pi
    one = midpoints(PUBLISHED["eggbox"](), [0.0, 0.0], [2 * box, 2 * box], 700)
    # 2.5 periods of 4 pi in each direction; reflected at 2 pi a period is itself, so that half of it has half
    exact = one + math.log(2.5**2)
    assert PUBLISHED["eggbox"]().log_evidence == pytest.approx(exact, abs=1e-4)


def test_evidence_of_the_shells_is_the_published_one():
    """Feroz and Hobson (2008) print -1.75 with a uniform prior over [-6, 6]^2."""
    found = PUBLISHED["shells"]().log_evidence
    assert found - math.log(144.0) == pytest.approx(-1.75, abs=0.01)
    ring = math.log(2.0 * math.pi * 2.0)  # a thin Gaussian ring of that radius
    assert found == pytest.approx(ring + math.log(2.0), abs=1e-3)


def test_evidence_of_himmelblau_by_midpoints():
    found = PUBLISHED["Himmelblau"]()
    assert found.log_evidence == pytest.approx(midpoints(found, [-6.5, -6.5], [6.5, 6.5], 500), abs=1e-8)


def test_evidence_of_rosenbrock_and_gaussian_side_by_side():
    """Each pair is integrated by midpoints with the other coordinates at 0, whose factors are divided out."""
    problem = PUBLISHED["Rosenbrock-Gaussian"]()

    class Pair:
        def __init__(self, first):
            self.first = first

        def log_density(self, x):
            full = np.zeros((len(x), 6))
            full[:, self.first : self.first + 2] = x
            return problem.log_density(full)

    at_zero = problem.log_joint(np.zeros(6))
    logs = [midpoints(Pair(0), [-8, -4], [8, 24], 900), midpoints(Pair(4), [-9, -9], [9, 9], 200)]
    assert problem.log_evidence == pytest.approx(2 * logs[0] + logs[1] - 2 * at_zero, abs=1e-6)
