"""A kernel's parameters as one vector, for fits: positive ones on the log scale."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from gp.arrays import Array, to_numpy
from gp.kernels.base import Kernel

_K = TypeVar("_K", bound=Kernel)


class EachColumn(float):
    """A number that was not given: of a process one for all columns, in a fit one for each."""


EACH = EachColumn(1.0)
"""The default lengthscale."""


def per_column(kernel: Kernel, dimension: int) -> Kernel:
    """Return the kernel with an array for each lengthscale that was not given, of ``dimension`` columns."""
    values = [
        np.full(len(p.columns or range(dimension)), float(p.value))
        if isinstance(p.value, EachColumn)
        else p.value
        for p in kernel.parameters()
    ]
    return kernel.with_parameters(values)


def pack(kernel: Kernel) -> np.ndarray:
    """Return all parameters of a ``kernel`` as one NumPy vector (P,); positive ones as logarithms."""
    parts = [
        np.log(np.ravel(to_numpy(p.value))) if p.positive else np.ravel(to_numpy(p.value))
        for p in kernel.parameters()
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def unpack(kernel: _K, vector: np.ndarray) -> _K:
    """Return a copy of the ``kernel`` with the parameters ``vector``, laid out as by :func:`pack`."""
    values: list[Array] = []
    start = 0
    for parameter in kernel.parameters():
        shape = np.shape(to_numpy(parameter.value))
        size = int(np.prod(shape, dtype=int))
        part = np.reshape(vector[start : start + size], shape)
        part = np.exp(part) if parameter.positive else part
        values.append(part if shape else float(part))
        start += size
    return kernel.with_parameters(values)


def scaled(kernel: Kernel, factor: Array) -> Kernel:
    """Return ``factor`` times the kernel, its parameters scaled by their powers of output units."""
    parameters = kernel.parameters()
    return kernel.with_parameters(
        [p.value * factor ** (p.output_power / 2) if p.output_power else p.value for p in parameters]
    )
