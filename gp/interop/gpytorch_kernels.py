"""GPyTorch's kernels as kernels of this package.

GPyTorch's kernels have no variance, which a ``ScaleKernel`` around them adds; its periodic kernel divides
sin^2 by the lengthscale, that of this package by its square (Rasmussen & Williams 2006, Eq. 4.31). A
``ScaleKernel`` takes over the active dimensions of the kernel it scales, which then count once, not twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import Any, TypeAlias

import numpy as np
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)

from gp.arrays import Array, to_numpy
from gp.kernels import (
    Columns,
    Constant,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    scaled,
)

Converter: TypeAlias = Callable[[Any], Kernel]

_MATERN: dict[float, Callable[[Array], Kernel]] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
"""Kernels by the order nu of GPyTorch's ``MaternKernel``."""


def converted(kernel: Any) -> Kernel:
    """Return a GPyTorch kernel as one of this package; see ``gp.interop.from_gpytorch_kernel``."""
    ours = _on_all_columns(kernel)
    if kernel.active_dims is None:
        return ours
    return Columns(ours, tuple(kernel.active_dims.tolist()))


def values_of(tensor: Any) -> Array:
    """Return a parameter as a number, or (D,) in NumPy: a copy that serves any kind of points."""
    host = to_numpy(tensor).astype(float).reshape(-1)
    return float(host[0]) if host.size == 1 else host


def _on_all_columns(kernel: Any) -> Kernel:
    converter = _CONVERTERS.get(type(kernel))
    if converter is None:
        raise TypeError(
            f"kernel is a {type(kernel).__name__}, which has no counterpart here. There is one for "
            f"{', '.join(known.__name__ for known in _CONVERTERS)}; their subclasses may compute "
            "something else and are not taken"
        )
    if kernel.batch_shape:
        raise ValueError(
            f"kernel is a batch of {type(kernel).__name__}s, batch_shape = "
            f"{tuple(kernel.batch_shape)}: give one kernel at a time, such as kernel[0]"
        )
    return converter(kernel)


_CONVERTERS: dict[type, Converter] = {
    RBFKernel: lambda k: SquaredExponential(values_of(k.lengthscale)),
    MaternKernel: lambda k: _MATERN[k.nu](values_of(k.lengthscale)),
    RQKernel: lambda k: RationalQuadratic(values_of(k.lengthscale), alpha=values_of(k.alpha)),
    PeriodicKernel: lambda k: Periodic(np.sqrt(values_of(k.lengthscale)), values_of(k.period_length)),
    LinearKernel: lambda k: Linear(values_of(k.variance)),
    ConstantKernel: lambda k: Constant(values_of(k.constant)),
    ScaleKernel: lambda k: scaled(_on_all_columns(k.base_kernel), values_of(k.outputscale)),
    AdditiveKernel: lambda k: reduce(add, map(converted, k.kernels)),
    ProductKernel: lambda k: reduce(mul, map(converted, k.kernels)),
}
