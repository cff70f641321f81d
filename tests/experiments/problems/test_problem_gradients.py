"""Gradients of posteriors against central differences."""

import numpy as np
import pytest

from experiments.problems import common_cause, elimination, latent_counts, perception

PROBLEMS = [
    perception.timing,
    perception.multisensory,
    common_cause.common_cause,
    latent_counts.latent_counts,
    elimination.elimination,
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_gradients_are_differences(problem):
    problem, h = problem(), 1e-5
    spread = np.linalg.cholesky(problem.covariance)
    draws = problem.mean + np.random.default_rng(0).standard_normal((4, problem.dimension)) @ spread.T
    for at in (problem.mean + 0.05, *draws):
        steps = h * np.eye(problem.dimension)
        slopes = (problem.log_density(at + steps) - problem.log_density(at - steps)) / (2.0 * h)
        np.testing.assert_allclose(problem.gradient(at), slopes, rtol=1e-5, atol=1e-5)
