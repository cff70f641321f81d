"""Every kernel between observations by the contract test that is shipped for a user's own."""

from dataclasses import dataclass

import numpy as np
import pytest
from block_kernel_contract import check_block_kernel

from bqvi.gradients.gradient_process import Directions, SeparableKernel
from gp.conditioning import DirectionalKernel, FunctionKernel, Shown
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.function_kernel import slope_rows, value_rows

SHOWN = {"values": Shown(True, False), "derivatives": Shown(False, True), "both": Shown(True, True)}
KERNELS = {f"function, {name}": FunctionKernel(1.3, 0.4, 0.2, shown) for name, shown in SHOWN.items()}
SEPARABLE = SeparableKernel(
    1.7, 0.3, 0.2, 0.15, Directions(np.array([[0.6, -0.8], [0.8, 0.6]]), np.array([1.3, 0.7]))
)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_a_process_given_one_function(name, seed):
    check_block_kernel(KERNELS[name], seed=seed)


def test_a_process_given_outputs_that_share_a_kernel():
    check_block_kernel(SEPARABLE, outputs=2)


def test_a_process_given_values_and_single_derivatives():
    x = np.random.default_rng(0).standard_normal((6, 2))
    rows = np.concatenate([value_rows(x), slope_rows(x[:3], np.array([[[0.6, 0.8]]] * 3))])
    check_block_kernel(DirectionalKernel(1.3, 0.4, 0.2), points=rows)


@pytest.mark.parametrize("slopes", [True, False])
def test_the_integral_under_a_standard_normal_is_that_of_the_covariance(slopes):
    """By Gauss-Hermite nodes in the plane, for rows of values and of derivatives along directions."""
    x = np.random.default_rng(0).standard_normal((5, 2))
    kernel = DirectionalKernel(1.3, 0.4, 0.2, slopes)
    rows = value_rows(x)
    if slopes:
        rows = np.concatenate([rows, slope_rows(x, np.array([[[0.6, -0.8]]] * 5))])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    places = kernel.at(value_rows(np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)))
    weights = np.outer(weights, weights).reshape(-1) / (2.0 * np.pi)
    covariances = kernel.covariance(kernel.at(rows), places)
    np.testing.assert_allclose(kernel.with_integral(rows), covariances @ weights, rtol=1e-10, atol=1e-12)
    both = kernel.covariance(places, places)
    assert kernel.integral_variance(2) == pytest.approx(weights @ both @ weights, rel=1e-10)


@dataclass(frozen=True)
class Wrong:
    """A kernel whose parts may be overwritten."""

    kernel: FunctionKernel
    part: str

    def at(self, points):
        return self.kernel.at(points)

    def covariance(self, left, right):
        found = self.kernel.covariance(left, right)
        if self.part == "asymmetric":
            found[0] += 0.1
        if self.part == "indefinite" and left is right:
            found[np.arange(len(found)), np.arange(len(found))] -= 5.0
        if self.part == "unordered" and found.shape[0] != found.shape[1]:
            found = found[:, ::-1]
        return found

    def constant(self, points):
        return np.ones(2 * len(points)) if self.part == "constant" else self.kernel.constant(points)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("asymmetric", "symmetric"),
        ("indefinite", "one covariance|eigenvalue"),
        ("unordered", "next to each other"),
        ("constant", r"\(m B,\)"),
    ],
)
def test_what_is_wrong_is_named(part, message):
    with pytest.raises(AssertionError, match=message):
        check_block_kernel(Wrong(KERNELS["function, values"], part))


@pytest.mark.parametrize("level", [None, np.array([1.0, 0.0, -0.7])])
def test_variances_are_the_diagonal_of_the_covariance(level):
    """Also with the variance that an unknown constant adds, which is never negative."""
    rng = np.random.default_rng(3)
    kernel, x, at = FunctionKernel(1.3, 0.4, 0.2, SHOWN["values"]), *rng.standard_normal((2, 7, 2))
    noise = lambda points: np.full(len(points), 1e-3)  # noqa: E731
    process = Conditioned.of(kernel, x, rng.standard_normal((7, 1)), noise)
    places = kernel.at(at[:3])
    prior, whitened = kernel.covariance(places, places), process.whitened_covariance(places)
    found = process.evidence.variances(np.diagonal(prior), whitened, level)
    np.testing.assert_allclose(found, np.diagonal(process.covariance(prior, whitened, level)), rtol=1e-10)
    assert (found >= process.evidence.variances(np.diagonal(prior), whitened)).all()
