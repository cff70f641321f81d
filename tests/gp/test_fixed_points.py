"""Gram matrices at fixed points and kernels by column: against covariances, differences, other kernels."""

import numpy as np
import pytest
from differences import central

from gp.conditioning.function_kernel import DirectionalKernel, directional_gram, slope_rows, value_rows
from gp.fixed_points import Changes, gram, gram_of, scaled
from gp.kernels import (
    Anova,
    ByColumn,
    Columns,
    Constant,
    Mapped,
    Matern12,
    Matern32,
    Matern52,
    Product,
    QuadraticTrend,
    SquaredExponential,
    Sum,
    Tilted,
    pack,
    unpack,
)
from gp.kernels.crossed import contracted_gradient, diagonal_gradient
from gp.observations import Gradients, Observations, Values, covariance
from gp.testing import check_kernel

X = np.random.default_rng(3).standard_normal((7, 3))
LENGTHS = np.array([0.7, 1.1, 1.9])
KERNELS = {
    "one lengthscale": SquaredExponential(0.8, 1.3),
    "smooth": SquaredExponential(LENGTHS, 1.3),
    "rough": ByColumn(Matern32(LENGTHS, 0.7)),
    "tilted": Tilted(SquaredExponential(LENGTHS, 1.3), 0.3),
    "mapped": Mapped(Tilted(SquaredExponential(LENGTHS, 1.3), -0.3), 0.2 * LENGTHS, np.diag(LENGTHS) + 0.1),
    "sparse": Sum((Constant(0.4), Anova(LENGTHS, 0.3, 1.1))),
    "no shorter way": ByColumn(Matern52(LENGTHS, 0.7)),
}
OBSERVED = {
    "values": Values(X),
    "slopes": Observations((Values(X), Gradients(X))),
    "few slopes": Observations((Values(X), Gradients(X[:2]))),
    "some": Observations((Gradients(X[:3], (2, 0)), Values(X))),
}
SMOOTH_ONLY = ("one lengthscale", "smooth", "tilted", "mapped", "sparse")


@pytest.mark.parametrize(
    ("name", "what"),
    [(k, what) for k in KERNELS for what in OBSERVED if what == "values" or k in SMOOTH_ONLY],
)
def test_the_matrix_is_the_covariance_and_the_pullback_its_derivative(name, what):
    kernel, observed = KERNELS[name], OBSERVED[what]
    gram = gram_of(kernel, observed)
    matrix, pullback = gram(kernel)
    np.testing.assert_allclose(matrix, covariance(kernel, observed, observed), rtol=1e-11, atol=1e-13)
    weights = np.random.default_rng(4).standard_normal(matrix.shape)
    weights = weights + weights.T
    vector = pack(kernel)

    numeric = central(lambda at: np.sum(weights * gram(unpack(kernel, at))[0]), vector)
    np.testing.assert_allclose(pullback(weights), numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "no shorter way"])
def test_many_points_have_the_matrix_and_the_products_of_few(name, monkeypatch):
    """Pairs that are computed again at each use, against pairs that are kept."""
    kernel, rng = KERNELS[name], np.random.default_rng(6)
    kept, of_kept = gram_of(kernel, OBSERVED["values"])(kernel)
    monkeypatch.setattr(gram, "MOST_PAIRED", 6)
    monkeypatch.setattr(gram, "_BLOCK", 60)  # two rows at a time
    matrix, pullback = gram_of(kernel, OBSERVED["values"])(kernel)
    assert isinstance(pullback, Changes)
    assert isinstance(of_kept, Changes)
    weights, vectors = rng.standard_normal((7, 7)), rng.standard_normal((7, 2))
    weights = weights + weights.T
    np.testing.assert_allclose(matrix, kept, rtol=1e-13)
    np.testing.assert_allclose(pullback(weights), of_kept(weights), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(pullback.times(vectors), of_kept.times(vectors), rtol=1e-12, atol=1e-13)


def product(inner):
    factors = [type(inner)(float(length), 1.0) for length in LENGTHS]
    return Product(tuple(Columns(factor, (d,)) for d, factor in enumerate(factors)))


@pytest.mark.parametrize("inner", [Matern12, Matern32, Matern52, SquaredExponential])
def test_a_kernel_by_column_is_a_product_of_columns(inner):
    kernel, slow = ByColumn(inner(LENGTHS, 1.0)), product(inner(1.0))
    y = X[:4] + 0.1
    np.testing.assert_allclose(kernel(X, y), slow(X, y), rtol=1e-12)
    check_kernel(kernel, 3, differentiable=inner is not Matern12)
    weights = np.random.default_rng(5).standard_normal((7, 4))
    expected = contracted_gradient(slow, X, y, weights)
    np.testing.assert_allclose(contracted_gradient(kernel, X, y, weights), expected, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(diagonal_gradient(kernel, X), 0.0)
    np.testing.assert_allclose(ByColumn(inner(0.7))(X[:, :1], y[:, :1]), inner(0.7)(X[:, :1], y[:, :1]))


def test_functions_without_derivatives_say_so():
    for observed in (Gradients(X), Observations((Values(X), Gradients(X)))):
        with pytest.raises(TypeError, match="no derivatives"):
            covariance(ByColumn(Matern12(1.4, 0.7)), observed, observed)
    with pytest.raises(TypeError, match="stationary kernel"):
        ByColumn(Constant(1.0))


def test_a_scale_multiplies_the_matrix_and_its_diagonal():
    """By central differences of the matrix."""
    inner = directional_gram(value_rows(X), False)
    diagonal, psi = np.linspace(0.1, 0.5, len(X)), np.array([0.3, -0.2, -1.0, 0.7])
    gram = scaled(inner, diagonal)
    matrix, pullback = gram(psi)
    np.testing.assert_allclose(matrix, np.exp(0.7) * (inner(psi[:3])[0] + np.diag(diagonal)))
    changes = np.moveaxis(pullback.times(np.eye(len(matrix))), 0, -1)
    np.testing.assert_allclose(changes, central(lambda at: gram(at)[0], psi), atol=1e-8)


TREND = Sum((SquaredExponential(1.4, 0.7), QuadraticTrend(0.3, 0.2), Constant(0.5)))
WITH_CHANGES = {
    "values": (TREND, OBSERVED["values"]),
    "slopes": (TREND, OBSERVED["slopes"]),
    "slopes alone": (TREND, Gradients(X)),
    "tilted": (Tilted(SquaredExponential(1.4, 0.7), 0.3), OBSERVED["values"]),
}


@pytest.mark.parametrize("name", WITH_CHANGES)
def test_derivatives_as_matrices_are_those_of_the_matrix(name):
    kernel, observed = WITH_CHANGES[name]
    has_changes(lambda each: gram_of(kernel, observed)(unpack(kernel, each)), pack(kernel))


@pytest.mark.parametrize("slopes", [False, True])
def test_rows_of_values_and_directions_are_combinations_of_values_and_gradients(slopes):
    """A derivative along w is w times the gradient: against the general covariances."""
    n, d = X.shape
    directions = np.random.default_rng(5).standard_normal((n, 2, d))
    rows = np.concatenate([value_rows(X), slope_rows(X, directions)]) if slopes else value_rows(X)
    psi = np.array([0.3, -1.0, -0.5])
    lengthscale, linear, quadratic = np.exp(psi)
    height = lengthscale**2 if slopes else 1.0
    kernel = Sum((SquaredExponential(lengthscale, height), QuadraticTrend(linear, quadratic)))
    combined = np.zeros((len(rows), n + n * d))
    combined[:n, :n] = np.eye(n)
    for i in range(len(rows) - n):
        combined[n + i, n + d * (i // 2) : n + d * (i // 2 + 1)] = directions.reshape(-1, d)[i]
    expected = combined @ covariance(kernel, OBSERVED["slopes"], OBSERVED["slopes"]) @ combined.T
    directional = DirectionalKernel(lengthscale, linear, quadratic, slopes)
    left, right = directional.at(rows[2:]), directional.at(rows)
    np.testing.assert_allclose(directional.covariance(left, right), expected[2:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(directional_gram(rows, slopes)(psi)[0], expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(slope_rows(X, np.tile(np.eye(d), (n, 1, 1))), slope_rows(X))
    has_changes(directional_gram(rows, slopes), psi)


def has_changes(gram, psi):
    """The pull-back's derivatives are those of the matrix, by central differences."""
    matrix, pullback = gram(psi)
    assert isinstance(pullback, Changes)
    weights = np.random.default_rng(4).standard_normal(matrix.shape)
    weights = weights + weights.T
    changes = np.moveaxis(pullback.times(np.eye(len(matrix))), 0, -1)
    np.testing.assert_allclose(changes, central(lambda at: gram(at)[0], psi), atol=1e-8)
    np.testing.assert_allclose(pullback(weights), np.tensordot(weights, changes), rtol=1e-10)
