"""Kernels: the contract, peers at fixed parameters, and one formula for NumPy and torch."""

from dataclasses import dataclass

import numpy as np
import pytest
import sklearn.gaussian_process.kernels as sk
import torch

import gp
from gp.kernels import (
    Columns,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Product,
    RationalQuadratic,
    SquaredExponential,
    Sum,
    White,
)
from gp.kernels.base import Homogeneous, gradient_covariances, parameter
from gp.testing import check_kernel

ARD = np.array([0.7, 1.6])
SMOOTH = {
    "se": SquaredExponential(ARD, 1.7),
    "se-scalar": SquaredExponential(0.8),
    "matern32": Matern32(ARD, 0.4),
    "matern52": Matern52(ARD, 2.0),
    "rq": RationalQuadratic(ARD, variance=1.3, alpha=0.6),
    "periodic": Periodic(ARD, np.array([1.1, 2.3]), 0.9),
    "periodic-scalar": Periodic(0.9, 1.4),
    "linear": Linear(np.array([0.5, 2.0]), np.array([0.3, -1.0])),
    "linear-scalar": Linear(0.5, 0.2),
    "constant": Constant(0.7),
    "columns": Columns(Matern52(0.6, 2.0), (1,)),
    "sum": SquaredExponential(ARD) + Linear(0.5) + Constant(2.0),
    "product": SquaredExponential(ARD, 1.5) * Periodic(1.2, 1.1) * Columns(Linear(0.7), (0,)),
    "nested": (Matern52(ARD) + Constant(1.0)) * (Columns(Periodic(1.0, 2.0), (1,)) + Linear(0.3)),
}
ROUGH = {
    "matern12": Matern12(ARD, 1.2),
    "white": White(0.3),
    "rough-sum": Matern12(0.9) + White(0.2) + SquaredExponential(1.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_kernels_keep_the_contract(name):
    check_kernel(SMOOTH[name])


def test_a_kernel_without_a_pull_back_has_that_of_torch():
    """Alone, and as a factor beside kernels that have one."""

    @dataclass(frozen=True, eq=False)
    class Own(Homogeneous):
        rate: float = parameter(1.3, "shape")
        variance: float = parameter(0.7, "variance", output_power=2)

        def __call__(self, x, y):
            gaps = x[:, None, 0] - y[None, :, 0]
            return self.variance / (1 + self.rate * gaps**2)

    check_kernel(Own(), differentiable=False)
    check_kernel(SMOOTH["matern52"] * (Own() + Constant(0.3)), differentiable=False)


@pytest.mark.parametrize("name", ROUGH)
def test_rough_kernels_keep_the_contract(name):
    check_kernel(ROUGH[name], differentiable=False)
    process = gp.GaussianProcess(ROUGH[name]).condition(np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(TypeError, match="no derivatives"):
        process.gradient(np.zeros((1, 2)))


@dataclass(frozen=True, eq=False)
class Asymmetric(SquaredExponential):
    def __call__(self, x, y):
        return super().__call__(x, y) + 0.1 * x[:, :1]


@dataclass(frozen=True, eq=False)
class Indefinite(SquaredExponential):
    def profile(self, s):
        return np.maximum(0.0, 1 - s) - 0.3 * (s > 0)


@dataclass(frozen=True, eq=False)
class WrongDiagonal(SquaredExponential):
    def diagonal(self, x):
        return 2 * super().diagonal(x)


@dataclass(frozen=True, eq=False)
class WrongSlope(Matern32):
    def slope(self, s):
        return -self.profile(s)


@dataclass(frozen=True, eq=False)
class WrongCurvature(SquaredExponential):
    def curvature(self, s):
        return -0.25 * self.profile(s)


@dataclass(frozen=True, eq=False)
class WrongForOnePair(SquaredExponential):
    def __call__(self, x, y):
        return super().__call__(x, y) * (2.0 if len(x) == len(y) == 1 else 1.0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Asymmetric(), "symmetric"),
        (WrongForOnePair(), "a part of that of all"),
        (Indefinite(), "positive semi-definite"),
        (WrongDiagonal(), "diagonal"),
        (WrongSlope(), "pull-back"),
        (WrongCurvature(), "k_xy"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_contract_sees_a_broken_kernel(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel(broken)


PEERS = {
    "se": (SquaredExponential(ARD, 1.7), 1.7 * sk.RBF(ARD)),
    "matern12": (Matern12(ARD, 1.2), 1.2 * sk.Matern(ARD, nu=0.5)),
    "matern32": (Matern32(ARD, 0.4), 0.4 * sk.Matern(ARD, nu=1.5)),
    "matern52": (Matern52(ARD, 2.0), 2.0 * sk.Matern(ARD, nu=2.5)),
    "rq": (RationalQuadratic(0.8, alpha=0.6), sk.RationalQuadratic(0.8, alpha=0.6)),
    "linear": (Linear(1.0) + Constant(0.49), sk.DotProduct(0.7)),
    "periodic": (Periodic(0.9, 1.4), sk.ExpSineSquared(0.9, 1.4)),
}


@pytest.mark.parametrize("name", PEERS)
def test_values_agree_with_scikit_learn(name):
    kernel, peer = PEERS[name]
    rng = np.random.default_rng(1)
    dimension = 1 if name == "periodic" else 2  # theirs is positive definite in one dimension only
    x, y = rng.normal(size=(7, dimension)), rng.normal(size=(5, dimension))
    np.testing.assert_allclose(kernel(x, y), peer(x, y), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH | ROUGH)
def test_torch_and_numpy_agree(name):
    kernel = (SMOOTH | ROUGH)[name]
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    np.testing.assert_allclose(kernel(tx, ty).numpy(), kernel(x, y), rtol=0, atol=1e-13)
    np.testing.assert_allclose(kernel.diagonal(tx).numpy(), kernel.diagonal(x), atol=1e-13)
    if name in SMOOTH:
        for field in ("k", "k_x", "k_y", "k_xy"):
            ours = getattr(kernel.derivatives(tx, ty), field).numpy()
            np.testing.assert_allclose(ours, getattr(kernel.derivatives(x, y), field), atol=1e-13)
        x = rng.normal(size=(20, 2))  # more than are computed together
        ours = gradient_covariances(kernel, torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(ours, gradient_covariances(kernel, x), atol=1e-13)
        index = np.arange(len(x))
        theirs = kernel.derivatives(x, x).k_xy[index, :, index]
        np.testing.assert_allclose(ours, theirs, atol=1e-13 * np.abs(theirs).max())


@pytest.mark.parametrize("name", SMOOTH | ROUGH)
def test_float32_stays_float32(name):
    kernel = (SMOOTH | ROUGH)[name]
    x = np.random.default_rng(4).normal(size=(5, 2)).astype(np.float32)
    for points in (x, torch.from_numpy(x)):
        assert kernel(points, points).dtype == points.dtype
        assert kernel.diagonal(points).dtype == points.dtype
        if name in SMOOTH:
            assert kernel.derivatives(points, points).k_xy.dtype == points.dtype
            assert gradient_covariances(kernel, points).dtype == points.dtype


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52, SquaredExponential])
def test_autodiff_in_x_is_finite_at_equal_points(kernel):
    x = torch.zeros((2, 2), dtype=torch.float64, requires_grad=True)
    kernel(1.0)(x, torch.zeros((1, 2), dtype=torch.float64)).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SquaredExponential(0.0), "lengthscale"),
        (lambda: SquaredExponential(np.ones((2, 2))), "lengthscale"),
        (lambda: Matern52(1.0, -1.0), "variance"),
        (lambda: RationalQuadratic(alpha=float("nan")), "alpha"),
        (lambda: Periodic(period=0), "period"),
        (lambda: Linear(offset=float("inf")), "offset"),
        (lambda: White(variance=-1), "variance"),
        (lambda: Columns(White(), (0, 0)), "columns"),
        (lambda: Columns(White(), ()), "columns"),
        (lambda: SquaredExponential(np.ones(3))(np.ones((4, 2)), np.ones((4, 2))), "lengthscale"),
        (lambda: Columns(White(), (2,))(np.ones((4, 2)), np.ones((4, 2))), "columns"),
    ],
)
def test_bad_arguments_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_what_is_not_a_kernel_is_refused():
    with pytest.raises(TypeError, match="kernel"):
        SquaredExponential() + 2.0
    with pytest.raises(TypeError, match="terms"):
        Sum(())
    with pytest.raises(TypeError, match="factors"):
        Product((1.0,))
