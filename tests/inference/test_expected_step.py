"""The step of stochastic variational inference, averaged over mini-batches, is the full-data gradient.

With equally likely disjoint batches the expectation is a finite mean, so that no sampling error is allowed
for. Of point families, whose full-data step is a step of EM; full families are tested beside each model.
"""

import numpy as np
import pytest

import bqvi
from bqvi.gradients import Batch, Conjugate
from bqvi.inference.beginning import in_family
from bqvi.models import (
    DirichletProcessMixture,
    DirichletWeights,
    GaussianMixture,
    HiddenMarkovModel,
    LatentDirichletAllocation,
    Mixture,
    MultinomialMixture,
    bernoulli,
    categorical,
    exponential,
    gaussian_components,
    poisson,
)
from bqvi.models.contracts import settled
from bqvi.models.data import n_rows, take

N, BATCH = 24, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)) + 3.0 * (np.arange(N) % 2)[:, None]
COUNTS = RNG.poisson(3.0, (N, 5))
SEQUENCES = [RNG.integers(3, size=1 + n % 7) for n in range(N)]
MODELS = {
    "known covariance": (GaussianMixture(3, np.eye(2), concentration=1.5), X),
    **{
        f"Gaussian, {shape}": (GaussianMixture(3, shape, concentration=1.2), X)
        for shape in ("full", "tied", "diagonal", "spherical")
    },
    "Poisson": (Mixture(DirichletWeights(3, 1.0), poisson(2.0, 0.7)), COUNTS),
    "exponential": (Mixture(DirichletWeights(2, 1.0), exponential(2.0, 1.0)), COUNTS + 0.5),
    "Bernoulli": (Mixture(DirichletWeights(2, 2.0), bernoulli(2.0, 2.0)), COUNTS > 2),
    "categorical": (Mixture(DirichletWeights(2, 1.0), categorical(3, 1.5)), COUNTS % 3),
    "sticks": (DirichletProcessMixture("diagonal", 4, concentration=2.0), X),
    "multinomial": (MultinomialMixture(2, 5, concentration=1.5, word_concentration=1.2), COUNTS),
    "topics": (LatentDirichletAllocation(3, 5, concentration=1.1, word_concentration=1.3), COUNTS),
    "symbols in time": (HiddenMarkovModel(2, categorical(3, 1.0)), SEQUENCES),
    "counts in time": (HiddenMarkovModel(2, poisson()), SEQUENCES),
    "numbers in time": (
        HiddenMarkovModel(2, gaussian_components("full")),
        [X[: 2 + n % 5] for n in range(N)],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_steps_of_a_point_average_to_that_of_all_data(name):
    model, data = MODELS[name]
    model = settled(model, data)
    data = model.check(data)
    rng = np.random.default_rng(1)
    q = in_family(model.initial(data, "random", rng), "point")
    q = bqvi.fit(model, data, family="point", start_from=q, steps=1).q
    step = Conjugate()
    assert n_rows(data) == N
    whole = step(model, q, Batch(data, N), rng).values
    batches = rng.permutation(N).reshape(-1, BATCH)
    weights = np.full(BATCH, N / BATCH)
    parts = [step(model, q, Batch(take(data, rows), BATCH, weights), rng).values for rows in batches]
    away = max(np.abs(a - b).max() for part in parts for a, b in zip(part, whole, strict=True))
    assert away > 1e-2  # a batch alone is not all data
    for i, expected in enumerate(whole):
        mean = np.mean([part[i] for part in parts], axis=0)
        np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-8 * (1.0 + np.abs(expected).max()))
