"""Families of kernels of unit variance with one lengthscale for each coordinate.

smooth    the squared exponential: infinitely differentiable functions
rough     a product over coordinates of Matern 3/2 kernels: once differentiable, so that a kink or a
          jump is no contradiction, with closed forms wherever coordinates are independent

A family only says how a kernel is made and where the lengthscales stand among its parameters; the
kernels and their integrals are those of :mod:`gp`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gp.kernels import Columns, Kernel, Matern32, Product, SquaredExponential


@dataclass(frozen=True)
class Family:
    """Kernels k(v, v') of unit variance.

    Attributes
    ----------
    kernel : lengthscales (D,) to the kernel.
    gradient : the pull-back of that kernel (log scale) to its part in the log lengthscales, (D,).
    smooth : whether its functions have all derivatives.
    """

    kernel: Callable[[Any], Kernel]
    gradient: Callable[[Any], Any]
    smooth: bool


def _squared_exponential(lengthscales: Any) -> Kernel:
    return SquaredExponential(lengthscales, 1.0)


def _matern_product(lengthscales: Any) -> Kernel:
    factors = (Matern32(float(length), 1.0) for length in lengthscales)
    if len(lengthscales) == 1:
        return next(factors)
    return Product(tuple(Columns(factor, (d,)) for d, factor in enumerate(factors)))


SMOOTH = Family(_squared_exponential, lambda pulled: pulled[:-1], smooth=True)
ROUGH = Family(_matern_product, lambda pulled: np.asarray(pulled)[0::2], smooth=False)
