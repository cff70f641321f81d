"""A contract test for kernels, yours included.

A kernel that passes :func:`check_kernel` can be used everywhere in the package: its Gram matrices are
symmetric and positive semi-definite, its diagonal is that of its Gram matrix, `pack` and `unpack` of its
parameters are inverse to each other, its pull-back is the gradient of sum W k, and its derivatives (if it has
any) are those of its values. The oracles are finite differences of the kernel's own values, which share
nothing with the formulas under test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gp.arrays import Array
from gp.fixed_points import gram_of
from gp.kernels.base import DifferentiableKernel, Kernel
from gp.kernels.parameters import pack, unpack
from gp.observations import Values


def check_kernel(kernel: Kernel, dimension: int = 2, *, differentiable: bool = True, seed: int = 0) -> None:
    """Raise AssertionError, saying what is wrong, unless ``kernel`` keeps the kernel contract.

    Parameters
    ----------
    kernel : the kernel; its lengthscales should be of the order of 1.
    dimension : number of input columns D to try it on.
    differentiable : whether its derivatives are checked too.
    seed : seed of the points at which the kernel is evaluated.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(9, dimension)), rng.normal(size=(6, dimension))
    _check_values(kernel, x, y)
    _check_parameters(kernel, x)
    _check_pullback(kernel, x, rng)
    if differentiable:
        _check_derivatives(kernel, x, y)


def _check_values(kernel: Kernel, x: Any, y: Any) -> None:
    gram, cross = kernel(x, x), kernel(x, y)
    require(gram.shape == (9, 9) and cross.shape == (9, 6), "k(x, y) has to have shape (n, m)")
    require_close(gram, gram.T, 1e-14, "k(x, x) has to be symmetric")
    for rows in (slice(1), slice(4)):
        part = kernel(x[rows], y[rows])
        require_close(part, cross[rows, rows], 1e-14, "k of some points has to be a part of that of all")
    require_close(cross, kernel(y, x).T, 1e-14, "k(x, y) has to be k(y, x) transposed")
    require_close(kernel.diagonal(x), np.diag(gram), 1e-14, "diagonal(x) has to be that of k(x, x)")
    both = np.concatenate([x, y, x[:2]])
    eigenvalues = np.linalg.eigvalsh(kernel(both, both))
    # rounding moves an eigenvalue by at most n * eps times the largest
    require(
        eigenvalues[0] >= -len(both) * 2e-16 * eigenvalues[-1] * 10,
        f"k(x, x) has to be positive semi-definite: smallest eigenvalue {eigenvalues[0]:.3g}, "
        f"largest {eigenvalues[-1]:.3g}",
    )


def _check_parameters(kernel: Kernel, x: Any) -> None:
    vector = pack(kernel)
    names = [parameter.name for parameter in kernel.parameters()]
    require(len(set(names)) == len(names), f"parameter names have to be distinct: {names}")
    require_close(pack(unpack(kernel, vector)), vector, 1e-14, "parameters have to survive a round trip")
    require_close(unpack(kernel, vector)(x, x), kernel(x, x), 1e-12, "with_parameters has to keep values")


def _check_pullback(kernel: Kernel, x: Any, rng: np.random.Generator) -> None:
    root = rng.normal(size=(len(x), len(x)))
    weights = root + root.T
    gram, pullback = gram_of(kernel, Values(x))(kernel)
    require_close(gram, kernel(x, x), 1e-13, "with_pullback has to return k(x, x)")
    gradient = pullback(weights)
    vector = pack(kernel)
    require(gradient.shape == vector.shape, "the pull-back has to have one entry per parameter")
    numeric = [
        central_difference(lambda v: np.sum(weights * unpack(kernel, v)(x, x)), vector, index)
        for index in range(len(vector))
    ]
    require_close(gradient, np.array(numeric), 1e-7, "the pull-back has to be the gradient of sum W k")


def _check_derivatives(kernel: Kernel, x: Any, y: Any) -> None:
    if not isinstance(kernel, DifferentiableKernel):
        raise AssertionError("derivatives are missing")
    derivatives = kernel.derivatives(x, y)
    n, m, dimension = len(x), len(y), x.shape[1]
    k_x = partials(lambda points: kernel(points, y), x)  # (D, n, m)
    k_y = partials(lambda points: kernel(x, points), y)
    k_xy = np.stack(
        [partials(lambda p, d=d: kernel.derivatives(x, p).k_x[:, d, :], y) for d in range(dimension)]
    )
    require_close(derivatives.k, kernel(x, y), 1e-13, "derivatives().k has to be k(x, y)")
    require(derivatives.k_xy.shape == (n, dimension, m, dimension), "k_xy has to be (n, D, m, D)")
    require_close(derivatives.k_x, k_x.transpose(1, 0, 2), 1e-7, "k_x has to be dk/dx, (n, D, m)")
    require_close(derivatives.k_y, k_y.transpose(1, 2, 0), 1e-7, "k_y has to be dk/dy, (n, m, D)")
    require_close(derivatives.k_xy, k_xy.transpose(2, 0, 3, 1), 1e-7, "k_xy has to be d2k/dxdy")


def require_close(actual: Array, expected: Array, tolerance: float, message: str) -> None:
    """Raise AssertionError, ``message``, unless ``actual`` is ``expected``: its shape, and its entries.

    Entries agree to ``tolerance`` times the largest, or 1.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    require(actual.shape == expected.shape, f"{message}: shape {actual.shape}, expected {expected.shape}")
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    worst = float(np.max(np.abs(actual - expected), initial=0.0))
    require(worst <= tolerance * scale, f"{message}: off by {worst:.3g}")


def require(condition: bool, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def partials(function: Callable[..., Array], points: np.ndarray, axis: int = 0) -> np.ndarray:
    """Central differences as each column of ``points`` (n, D) moves, stacked along ``axis``."""
    return np.stack(
        [central_difference(function, points, (..., d)) for d in range(points.shape[1])], axis=axis
    )


def central_difference(function: Callable[..., Array], at: np.ndarray, index: Any) -> np.ndarray:
    """Central difference of a ``function`` at ``at`` in entry ``index``, of order four; error about 1e-11."""
    step, move = 1e-3, np.zeros_like(at)
    move[index] = step
    near = np.asarray(function(at + move)) - np.asarray(function(at - move))
    far = np.asarray(function(at + 2 * move)) - np.asarray(function(at - 2 * move))
    return (8 * near - far) / (12 * step)
