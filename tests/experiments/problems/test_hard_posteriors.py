"""Hard posteriors: evidences against sums and draws."""

import numpy as np
import pytest
from scipy.special import logsumexp

from experiments.problems import hard_posteriors as hard


@pytest.mark.parametrize("make", [lambda: hard.clusters(1), lambda: hard.ring(0.5), lambda: hard.tilted(2)])
def test_evidences_are_those_of_a_grid(make):
    problem = make()
    grid = np.linspace(-16.0, 16.0, 321)
    x = np.stack([g.ravel() for g in np.meshgrid(grid, grid)], axis=1)
    found = logsumexp(problem.log_density(x)) + 2.0 * np.log(grid[1] - grid[0])
    assert found == pytest.approx(problem.log_evidence, abs=2e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: hard.schools(True),
        lambda: hard.schools(False),
        lambda: hard.funnel(3),
        lambda: hard.turned_funnel(3),
    ],
)
def test_draws_have_the_density(make):
    problem = make()
    x = problem.sample(30_000, 1)
    mean, sd = np.median(x, 0), 0.5 * np.diff(np.quantile(x, [0.25, 0.75], axis=0), axis=0)[0] * 0.5
    log_g = -0.5 * np.square((x - mean) / sd).sum(1) - np.log(sd).sum() - 0.5 * len(sd) * np.log(2 * np.pi)
    found = -(logsumexp(log_g - problem.log_density(x)) - np.log(len(x)))
    assert found == pytest.approx(problem.log_evidence, abs=0.15)


def test_half_of_the_plane_has_half_of_the_mass():
    """The share of 100,000 draws; 4.5 sds, with a false-alarm rate of 7e-6."""
    problem = hard.half_plane()
    x = np.random.default_rng(3).standard_normal((100_000, 2))
    log_g = -0.5 * np.square(x).sum(1) - np.log(2.0 * np.pi)
    share = np.exp(problem.log_density(x) - log_g).mean()
    assert share == pytest.approx(np.exp(problem.log_evidence), abs=4.5 * 0.5 / np.sqrt(1e5))
