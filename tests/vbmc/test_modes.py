"""The groups of components of q, against all pairs."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.exploration import connected
from bqvi.variational_bmc.surrogate import Surrogate, fit, noise_shaped
from bqvi.variational_bmc.variational import DiagonalMixture
from experiments.problems import hard_posteriors, published_posteriors

PROBLEMS = {
    "ring": lambda: hard_posteriors.ring(0.5, 3.0),
    "Himmelblau": published_posteriors.himmelblau,
    "clusters": lambda: hard_posteriors.clusters(3),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_groups_are_those_of_all_pairs(name, count):
    problem, rng = PROBLEMS[name](), np.random.default_rng(0)
    x = np.concatenate([problem.sample(80, rng), 4.0 * rng.standard_normal((30, 2))])
    centre, scale = x.mean(0), x.std(0)
    data = noise_shaped((x - centre) / scale, problem.log_density(x), None, None, 20.0)
    surrogate = Surrogate.of(data, fit(data, None)[0])
    means = (problem.sample(count, rng) - centre) / scale
    q = DiagonalMixture(np.full(count, 1.0 / count), means, np.full((count, 2), 0.1))
    joined = np.zeros((count, count), bool)
    for i in range(count):
        for j in range(i):
            along = np.linspace(0.0, 1.0, 7)[:, None]
            heights = surrogate.mean((1.0 - along) * means[i] + along * means[j])
            joined[i, j] = heights.min() > min(heights[0], heights[-1]) - ENGINES.counts
    expected = connected_components(joined, directed=False)[1]
    found = connected(surrogate, q)
    assert sorted(np.concatenate(found)) == list(range(count))
    for rows in found:
        assert len(set(expected[rows])) == 1
    assert len(found) == len(set(expected))
