"""The covariance of observations, with its pull-back to the kernel's parameters, and the basis of their mean.

For weights W (n, n) a fit needs the gradient of sum_ij W_ij K_ij in the parameters (:mod:`gp.problem`). For
values f(x_i) kernels have a method; for any functional the mean's basis follows by linearity. With
derivatives observed through a squared exponential, D = (x - y) / l^2 and p = l^-2,

    cov(f, d_e f') = k D_e,     cov(d_d f, d_e f') = k ([d = e] p_d - D_d D_e),

and d/dlog l_m follows by the product rule from dk = k (x - y)_m^2 p_m, dD_m = -2 D_m, dp_m = -2 p_m.
For other kernels, whose covariances are written for torch as well, torch's reverse mode is used.
`gp.fixed_points` has faster forms for values, and for values and all derivatives at the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from gp.arrays import to_numpy
from gp.kernels.base import Kernel, Pullback
from gp.kernels.squared_exponential import SquaredExponential
from gp.means import Mean
from gp.observations import Functional, Gradients, Observations, Values, covariance


def blocks_of(observed: Functional) -> tuple[Functional, ...]:
    """Return the blocks of functionals; a single functional is one block."""
    return observed.blocks if isinstance(observed, Observations) else (observed,)


def pieces(observed: Functional) -> Iterator[tuple[Functional, slice]]:
    """Yield the blocks, with where they are among all observations."""
    start = 0
    for block in blocks_of(observed):
        yield block, slice(start, start + len(block))
        start += len(block)


def taken(observed: Functional, rows: Sequence[np.ndarray]) -> tuple[Functional, np.ndarray]:
    """Return values and gradients at some points of each block, ``rows``, and their indices among all."""
    blocks, kept = [], []
    for (block, part), chosen in zip(pieces(observed), rows, strict=True):
        width = len(block) // max(len(block.x), 1)
        blocks.append(replace(block, x=block.x[chosen]))  # type: ignore[type-var]
        kept.append(part.start + (width * chosen[:, None] + np.arange(width)).reshape(-1))
    return blocks[0] if len(blocks) == 1 else Observations(tuple(blocks)), np.concatenate(kept)


def on_host(observed: Functional) -> Functional:
    """Return values and gradients at the same points in NumPy and double precision.

    Raises TypeError for any other functional: the covariances of those are not known to have
    derivatives in the kernel's parameters.
    """
    blocks = tuple(
        _moved(block, lambda x: np.asarray(to_numpy(x), dtype=float)) for block in blocks_of(observed)
    )
    return blocks[0] if len(blocks) == 1 else Observations(blocks)


def covariance_with_pullback(kernel: Kernel, observed: Functional) -> tuple[np.ndarray, Pullback]:
    """Return the covariance (n, n) of values and gradients, and its pull-back. NumPy only.

    The pull-back takes symmetric weights (n, n) to the gradient (P,) in the kernel's parameters, as
    that of :meth:`gp.kernels.base.Kernel.with_pullback` does. TypeError for a kernel without
    derivatives where gradients are observed.
    """
    if isinstance(observed, Values):
        return kernel.with_pullback(observed.x)
    if type(kernel) is SquaredExponential:
        return _of_squared_exponential(kernel, observed)
    return covariance(kernel, observed, observed), lambda weights: _reverse_mode(kernel, observed, weights)


def mean_basis(mean: Mean, observed: Functional) -> np.ndarray:
    """Return the functionals of the mean's basis functions, (n, p)."""
    return np.concatenate([_basis(mean, block) for block in blocks_of(observed)])


def _moved(block: Functional, move: Callable[[Any], Any]) -> Functional:
    if type(block) is Values:
        return Values(move(block.x))
    if type(block) is Gradients:
        return Gradients(move(block.x), block.dimensions)
    raise TypeError(
        f"x holds {type(block).__name__}: hyperparameters can be fitted to gp.Values and gp.Gradients; "
        "condition a process with given hyperparameters on other functionals"
    )


def _basis(mean: Mean, block: Functional) -> np.ndarray:
    if isinstance(block, Values):
        return mean.basis(block.x)
    size = mean.basis(block.x).shape[1]
    offset = block.apply(mean.with_coefficients(np.zeros(size)))
    columns = [block.apply(mean.with_coefficients(unit)) - offset for unit in np.eye(size)]
    return np.array(columns).reshape(size, len(block)).T


def _reverse_mode(kernel: Kernel, observed: Functional, weights: np.ndarray) -> np.ndarray:
    """Return the gradient (P,) of sum weights * covariance, positive parameters on the log scale."""
    import torch

    leaves, values = [], []
    for parameter in kernel.parameters():
        value = torch.tensor(np.asarray(to_numpy(parameter.value), dtype=float))
        leaf = (value.log() if parameter.positive else value).requires_grad_()
        leaves.append(leaf)
        values.append(leaf.exp() if parameter.positive else leaf)
    at = Observations(tuple(_moved(block, torch.from_numpy) for block in blocks_of(observed)))
    with torch.enable_grad():
        matrix = covariance(kernel.with_parameters(values), at, at)
        total = (matrix * torch.from_numpy(np.ascontiguousarray(weights))).sum()
        gradients = torch.autograd.grad(total, leaves, materialize_grads=True)
    return np.concatenate([np.ravel(gradient.numpy()) for gradient in gradients])


def _of_squared_exponential(kernel: SquaredExponential, observed: Functional) -> tuple[np.ndarray, Pullback]:
    matrix = covariance(kernel, observed, observed)

    def pullback(weights: np.ndarray) -> np.ndarray:
        lengthscale: np.ndarray = np.zeros(())
        for (a, rows), (b, columns) in combinations_with_replacement(list(pieces(observed)), 2):
            part = _pulled(kernel, a, b, weights[rows, columns])
            lengthscale = lengthscale + (part if a is b else 2 * part)
        if np.size(kernel.lengthscale) == 1:
            lengthscale = np.sum(lengthscale, keepdims=True)
        return np.append(lengthscale, np.vdot(weights, matrix))

    return matrix, pullback


def _pulled(kernel: SquaredExponential, a: Functional, b: Functional, weights: np.ndarray) -> np.ndarray:
    """Return sum W dcov(a, b)/dlog l, (D,), for a squared exponential."""
    if isinstance(a, Gradients) and isinstance(b, Values):
        return _pulled(kernel, b, a, weights.T)
    k = kernel(a.x, b.x)
    precision = np.broadcast_to(np.asarray(kernel.lengthscale, dtype=float) ** -2.0, a.x.shape[1:])
    differences = a.x[:, None, :] - b.x[None, :, :]
    squares = differences**2 * precision
    if not isinstance(b, Gradients):
        return np.einsum("ij,ijd->d", weights * k, squares)
    slope = differences * precision
    if not isinstance(a, Gradients):
        cross = _scattered(weights.reshape(len(a.x), len(b.x), _width(b)), b, 2) * k[:, :, None] * slope
        return np.einsum("ij,ije->e", cross.sum(axis=2), squares) - 2 * cross.sum(axis=(0, 1))
    both = _scattered(weights.reshape(len(a.x), _width(a), len(b.x), _width(b)), b, 3)
    both = _scattered(both, a, 1)
    same = np.einsum("idjd->ijd", both) * k[:, :, None] * precision
    ahead = np.einsum("idje,ije->ijd", both, slope)
    behind = np.einsum("idje,ijd->ije", both, slope)
    scaled = k[:, :, None] * slope
    of_kernel = np.sum(same - ahead * scaled, axis=2)
    direct = 2 * (ahead + behind) * scaled - 2 * same
    return np.einsum("ij,ijd->d", of_kernel, squares) + direct.sum(axis=(0, 1))


def _width(block: Gradients) -> int:
    return int(block.x.shape[1]) if block.dimensions is None else len(block.dimensions)


def _scattered(weights: np.ndarray, block: Gradients, axis: int) -> np.ndarray:
    """Return the weights with an axis over all dimensions, zero where none was observed."""
    if block.dimensions is None:
        return weights
    shape = list(weights.shape)
    shape[axis] = int(block.x.shape[1])
    full = np.zeros(shape)
    index: list[Any] = [slice(None)] * len(shape)
    index[axis] = list(block.dimensions)
    full[tuple(index)] = weights
    return full
