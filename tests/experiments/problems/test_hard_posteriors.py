"""Hard posteriors: gradients against differences, evidences and moments against sums and draws."""

import numpy as np
import pytest
from scipy.special import logsumexp

from experiments.problems import hard_posteriors as hard

PROBLEMS = {
    "three Gaussians": lambda: hard.three_gaussians(4, 0),
    "clusters": lambda: hard.clusters(0),
    "ring": hard.ring,
    "funnel": lambda: hard.funnel(5),
    "turned funnel": lambda: hard.turned_funnel(5),
    "half plane": hard.half_plane,
    "schools, centred": lambda: hard.schools(True),
    "schools, non-centred": lambda: hard.schools(False),
    "Gaussian": lambda: hard.gaussian(6),
    "tilted": lambda: hard.tilted(4),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients_and_moments(name):
    problem = PROBLEMS[name]()
    draws = problem.sample(8_000, 0)
    x, step = draws[:5], 1e-5
    moves = step * np.eye(problem.dimension)
    numeric = np.stack([problem.log_density(x + e) - problem.log_density(x - e) for e in moves], axis=1)
    np.testing.assert_allclose(
        problem.log_density_gradient(x),
        numeric / (2 * step),
        rtol=1e-5,
        atol=1e-5 * np.abs(numeric / step).max(),
    )
    sd = np.sqrt(np.diag(problem.covariance))
    # four standard errors of 8,000 draws; the funnel's variances are those of a log-normal
    np.testing.assert_allclose(draws.mean(0) / sd, problem.mean / sd, atol=0.05)
    np.testing.assert_allclose(draws.std(0) / sd, 1.0, atol=0.5 if "funnel" in name else 0.05)


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
