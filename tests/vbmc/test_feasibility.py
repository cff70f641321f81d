"""The model of failed evaluations: edges of the domain, and isolated failures."""

import numpy as np
import pytest
from scipy.stats import norm

import bqvi
from bqvi.variational_bmc.frame import Feasibility

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
GRID = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(-2.0, 2.5)] * 2)], axis=1)


def gaussian(x):
    return -0.5 * float(x @ x)


def test_a_failure_among_good_points_is_isolated_until_another_is_near():
    place = np.array([0.1, 0.2])
    points = np.concatenate([GRID[np.abs(GRID).max(1) > 0], [place]])
    failed = np.arange(len(points)) == len(points) - 1
    alone = Feasibility.of(points, failed)
    near = place + 0.05
    assert alone(near[None]) == 1.0
    assert alone.of_all_failures(near[None]) < 0.01
    points, failed = np.concatenate([points, [near]]), np.append(failed, True)
    assert Feasibility.of(points, failed)(near[None]) < 0.01
    failed[-1] = False  # the point beside it was good: little is left in doubt
    assert Feasibility.of(points, failed).of_all_failures(near[None] + 0.05) > 0.9


@pytest.mark.parametrize("seed", range(6))
def test_a_stripe_of_a_gaussian_is_known_as_well_as_its_ends(seed):
    """Of 6 runs, whose sds are right, none is 3 of them off; the false-alarm rate is 1.6 %."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1.5, 0.5)
    high, floor = low + rng.uniform(0.6, 1.6), rng.choice([-2e3, -5e7, -1e200])

    def stripe(x):
        return float(norm.logpdf(x[0])) if low < x[0] < high else floor

    bounds = {"lower": [-7.0], "upper": [7.0], "plausible_lower": [-1.8], "plausible_upper": [1.8]}
    found = bqvi.vbmc(stripe, **bounds, budget=60, seed=seed)
    error = abs(found.log_evidence - np.log(norm.cdf(high) - norm.cdf(low)))
    assert error < 3 * found.log_evidence_sd
    assert not found.converged or error < 0.1


def test_a_uniform_density_with_an_unknown_box():
    found = bqvi.vbmc(lambda x: 0.0 if np.abs(x).max() < 3 else -np.inf, **BOX, budget=80, seed=1)
    error = found.log_evidence - np.log(36.0)
    assert abs(error) < min(3 * found.log_evidence_sd, 1.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_isolated_failures_do_not_lower_the_evidence(seed):
    calls = []

    def flaky(x):
        calls.append(x)
        if len(calls) in (1, 12, 17):
            raise OSError("the node went away")
        return gaussian(x)

    found = bqvi.vbmc(flaky, **BOX, budget=60, seed=seed, run=bqvi.Run(errors="infeasible"))
    error = found.log_evidence - np.log(2 * np.pi)
    assert abs(error) < 3 * found.log_evidence_sd
    assert abs(error) < 0.03
