"""Tilted kernels: integrals against a product rule, derivatives against differences."""

import numpy as np
import pytest
from hermite_rule import hermite
from measure_contract import check_embedding

from gp.embeddings import embed
from gp.embeddings.tilted import tilted_measure
from gp.kernels import SquaredExponential, Tilted
from gp.measures import Gaussian, GaussianMixture
from gp.testing import check_kernel

MIXTURE = GaussianMixture(
    np.array([0.3, 0.7]),
    np.array([[-0.5, 0.2], [0.6, -0.1]]),
    np.array([[[0.5, 0.1], [0.1, 0.3]], [[0.4, -0.1], [-0.1, 0.6]]]),
)
STANDARD = Gaussian(np.zeros(2), np.ones(2))


def test_contract():
    check_kernel(Tilted(SquaredExponential(np.array([0.9, 1.4]), 1.2), 0.3))
    check_embedding(Tilted(SquaredExponential(np.array([0.9, 1.4]), 1.2), 0.1), MIXTURE.components[0])


@pytest.mark.parametrize("measure", [STANDARD, MIXTURE], ids=["gaussian", "mixture"])
def test_tilted_embedding_against_a_rule(measure):
    kernel = Tilted(SquaredExponential(np.array([0.9, 1.4]), 1.0), 0.4)
    (points, weights), (others, of_others) = hermite(measure, 44), hermite(STANDARD, 44)
    x = np.random.default_rng(0).standard_normal((5, 2))
    pair = embed(kernel, measure)
    # 44 nodes to a coordinate: bumps as wide as the measure, times exp(.2 u^2), to 1e-9
    np.testing.assert_allclose(pair.mean(x), kernel(x, points) @ weights, rtol=1e-8)
    slopes = kernel.derivatives(x, points).k_x @ weights
    np.testing.assert_allclose(pair.mean_gradient(x), slopes, rtol=1e-8, atol=1e-9)
    assert float(pair.double()) == pytest.approx(float(weights @ kernel(points, points) @ weights), rel=1e-7)
    assert float(pair.double(STANDARD)) == pytest.approx(
        float(weights @ kernel(points, others) @ of_others), rel=1e-7
    )


def test_tilting_beyond_what_has_an_integral():
    with pytest.raises(ValueError, match=r"growth is 1.2; .* below 1"):
        tilted_measure(STANDARD, 1.2)
