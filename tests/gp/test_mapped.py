"""Kernels in affine coordinates: the contracts, and integrals against a rule."""

import numpy as np
import pytest
from hermite_rule import hermite
from measure_contract import check_embedding

from gp.embeddings import embed
from gp.kernels import Mapped, SquaredExponential, Tilted
from gp.measures import Gaussian, GaussianMixture, Uniform
from gp.measures.pushed import pushed
from gp.testing import check_kernel

CENTRE, MATRIX = np.array([0.3, -0.2]), np.array([[2.0, 0.3], [0.1, 1.5]])
NEAR = Mapped(Tilted(SquaredExponential(np.array([0.9, 1.4]), 1.2), -0.5), CENTRE, MATRIX)
MIXTURE = GaussianMixture(
    np.array([0.3, 0.7]),
    np.array([[-0.5, 0.2], [0.6, -0.1]]),
    np.array([[[0.5, 0.1], [0.1, 0.3]], [[0.4, -0.1], [-0.1, 0.6]]]),
)


def test_contracts():
    check_kernel(NEAR)
    check_embedding(NEAR, Gaussian(np.array([0.1, 0.2]), np.array([[0.6, 0.1], [0.1, 0.4]])))


@pytest.mark.parametrize("measure", [MIXTURE.components[0], MIXTURE], ids=["gaussian", "mixture"])
def test_integrals_against_a_rule(measure):
    points, weights = hermite(measure, 60)
    x = np.random.default_rng(0).standard_normal((5, 2))
    pair = embed(NEAR, measure)
    # 60 nodes to a coordinate, functions a third as wide as the measure
    np.testing.assert_allclose(pair.mean(x), NEAR(x, points) @ weights, rtol=1e-6, atol=1e-9)
    slopes = NEAR.derivatives(x, points).k_x @ weights
    np.testing.assert_allclose(pair.mean_gradient(x), slopes, rtol=1e-6, atol=1e-8)
    assert float(pair.double()) == pytest.approx(float(weights @ NEAR(points, points) @ weights), rel=1e-6)


def test_pushing_a_measure_forward():
    shift, linear = np.array([1.0, 2.0]), np.array([[0.5, 0.0], [0.3, 2.0]])
    for measure in (MIXTURE.components[0], MIXTURE):
        carried = pushed(measure, shift, linear)
        np.testing.assert_allclose(carried.mean, linear @ (measure.mean - shift))
        np.testing.assert_allclose(carried.covariance, linear @ measure.covariance @ linear.T)
    with pytest.raises(TypeError, match="Uniform"):
        pushed(Uniform(np.zeros(2), np.ones(2)), shift, linear)
