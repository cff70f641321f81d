"""The covariance of observations, with its pull-back to the kernel's parameters, and the basis of their mean.

For weights W (n, n) a fit needs the gradient of sum_ij W_ij K_ij in the parameters (:mod:`gp.problem`). For
values f(x_i) kernels have a method; with derivatives torch's reverse mode is used, as covariances are written
for torch as well. `gp.fixed_points` has faster forms for many kernels. For any functional the mean's basis
follows by linearity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gp.arrays import to_numpy
from gp.kernels.base import Kernel, Pullback
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
    that of a kernel's ``with_pullback`` does. TypeError for a kernel without
    derivatives where gradients are observed.
    """
    own = getattr(kernel, "with_pullback", None)
    if own is not None and isinstance(observed, Values):
        return own(observed.x)
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
