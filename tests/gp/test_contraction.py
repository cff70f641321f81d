"""Contracted kernel gradients against the arrays of derivatives, and against finite differences."""

import numpy as np
import pytest
from differences import central

from gp.kernels import (
    Columns,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from gp.kernels.crossed import contracted_gradient, diagonal_gradient

ARD = np.array([0.7, 1.6])
KERNELS = {
    "se": SquaredExponential(ARD, 1.7),
    "matern12": Matern12(ARD, 0.6),
    "matern32": Matern32(0.9, 0.6),
    "matern52": Matern52(ARD, 2.0),
    "rational quadratic": RationalQuadratic(ARD, 1.2),
    "linear": Linear(0.4),
    "sum": SquaredExponential(ARD, 0.5) + Linear(0.4) + Constant(0.3) + White(0.1),
    "product": Matern52(ARD) * Columns(Periodic(1.2, 1.1), (1,)) * Linear(0.3),
    "columns": Columns(Matern32(0.8), (1,)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_contraction_is_the_gradient_of_the_weighted_sum(name):
    kernel, rng = KERNELS[name], np.random.default_rng(0)
    x, y, weights = rng.normal(size=(4, 2)), rng.normal(size=(7, 2)), rng.normal(size=(4, 7))
    numeric = central(lambda at: (kernel(at, y) * weights).sum(axis=1), x)
    np.testing.assert_allclose(contracted_gradient(kernel, x, y, weights), numeric, atol=1e-8)
    np.testing.assert_allclose(diagonal_gradient(kernel, x), central(kernel.diagonal, x), atol=1e-8)


def test_far_from_the_origin_the_digits_stay():
    """A shift of 1e6 costs the rounding of x (1e-10), not its square."""
    kernel, rng = SquaredExponential(1.0), np.random.default_rng(2)
    x, y, weights = rng.normal(size=(4, 2)), rng.normal(size=(7, 2)), rng.normal(size=(4, 7))
    near = contracted_gradient(kernel, x, y, weights)
    np.testing.assert_allclose(contracted_gradient(kernel, x + 1e6, y + 1e6, weights), near, atol=1e-8)
