"""Every known posterior: its gradient against central differences, its draws against its moments."""

from functools import partial

import numpy as np
import pytest
import sklearn.datasets  # noqa: F401 - its first import draws from a global generator, no test may

from experiments.problems import (
    common_cause,
    elimination,
    hard_posteriors,
    known_posteriors,
    latent_counts,
    perception,
    published_posteriors,
)

KNOWN = {
    **{f"Rosenbrock {d}": partial(known_posteriors.rosenbrock, d) for d in (2, 4, 6)},
    **{f"cigar {d}": partial(known_posteriors.cigar, d) for d in (2, 4, 6)},
    **{f"lumpy {d}": partial(known_posteriors.lumpy, d) for d in (2, 4)},
    "bounded banana": known_posteriors.bounded_banana,
    "logistic 5": known_posteriors.logistic,
}
PUBLISHED = {
    "Rosenbrock-Gaussian": published_posteriors.rosenbrock_gaussian,
    "Himmelblau": partial(published_posteriors.himmelblau, 600),
    "eggbox": partial(published_posteriors.eggbox, 1500),
    "shells": partial(published_posteriors.shells, 900),
}
HARD = {
    "three Gaussians": partial(hard_posteriors.three_gaussians, 4, 0),
    "clusters": partial(hard_posteriors.clusters, 0),
    "ring": hard_posteriors.ring,
    "funnel": partial(hard_posteriors.funnel, 5),
    "turned funnel": partial(hard_posteriors.turned_funnel, 5),
    "half plane": hard_posteriors.half_plane,
    "schools, centred": partial(hard_posteriors.schools, True),
    "schools, non-centred": partial(hard_posteriors.schools, False),
    "Gaussian": partial(hard_posteriors.gaussian, 6),
    "tilted": partial(hard_posteriors.tilted, 4),
}
TIMED = {
    "timing": perception.timing,
    "multisensory": perception.multisensory,
    "common cause": common_cause.common_cause,
    "latent counts": latent_counts.latent_counts,
    "elimination": elimination.elimination,
}
"""Their draws take minutes, or are those from which the moments were computed."""


def test_every_known_posterior_is_here():
    assert tuple(problem.name for problem in known_posteriors.problems()) == tuple(KNOWN)


@pytest.mark.parametrize("name", [*KNOWN, *PUBLISHED, *HARD, *TIMED])
def test_gradients_are_differences(name):
    problem, step = {**KNOWN, **PUBLISHED, **HARD, **TIMED}[name](), 1e-5
    if name in TIMED:
        root = np.linalg.cholesky(problem.covariance)
        noise = np.random.default_rng(0).standard_normal((4, problem.dimension))
        x = np.concatenate([problem.mean[None] + 0.05, problem.mean + noise @ root.T])
    else:
        x = problem.sample(5, 0)
    moves = step * np.eye(problem.dimension)
    numeric = np.stack([problem.log_density(x + e) - problem.log_density(x - e) for e in moves], axis=1)
    numeric /= 2.0 * step
    exact = problem.log_density_gradient(x)
    # a difference of values of size f has rounding errors of 1e-16 f / step
    atol = 1e-5 * np.abs(numeric).max() if name in HARD else 1e-4 if name not in TIMED else 1e-5
    np.testing.assert_allclose(exact, numeric, atol=atol, rtol=1e-6 if name in KNOWN else 1e-5)
    np.testing.assert_allclose(problem.gradient(x[0]), exact[0], rtol=1e-12)
    assert problem.log_joint(x[0]) == pytest.approx(problem.log_density(x)[0], rel=1e-12)


@pytest.mark.parametrize("name", [*KNOWN, *PUBLISHED, *HARD])
def test_draws_have_the_moments(name):
    """Each moment within 5 standard errors: a false alarm in 1e-5 of the runs, or so."""
    problem = {**KNOWN, **PUBLISHED, **HARD}[name]()
    x = problem.sample(20_000, 1)
    assert (x > problem.lower).all()
    assert (x < problem.upper).all()
    error = x.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(x.mean(axis=0) - problem.mean) < 5 * error + 1e-4).all()
    if "funnel" in name:  # squares of log-normal numbers, whose standard errors draws do not show
        sd = np.sqrt(np.diag(problem.covariance))
        np.testing.assert_allclose(x.std(0) / sd, 1.0, atol=0.5)
        return
    products = (x - problem.mean)[:, :, None] * (x - problem.mean)[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(products.mean(axis=0) - problem.covariance) < 5 * error + 1e-3).all()
