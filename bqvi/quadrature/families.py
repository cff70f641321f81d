"""Families of kernels of unit variance with one lengthscale for each coordinate.

smooth    exp(-|a|^2 / 2)                    squared exponential: functions with all derivatives
rough     prod_d (1 + b_d) exp(-b_d)         Matern 3/2 by coordinate, b = sqrt(3) |a|: one derivative,
                                             so that a kink or a jump is no contradiction

with a_d = (v_d - v'_d) / length_d. Both are products over coordinates, and so have closed forms
wherever coordinates are independent. The kernels and their integrals are those of :mod:`gp`; the one
thing done again here is the Gram matrix with its derivatives in log lengthscales, which a fit asks for
a thousand times, without building a kernel for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from gp.kernels import Columns, Kernel, Matern32, Product, SquaredExponential
from gp.kernels.stationary import contract_squared_differences

Pullback = Callable[[Any], Any]
"""Weights W (n, n), symmetric, to sum_ij W_ij dk(v_i, v_j)/d log length, (D,)."""


@dataclass(frozen=True)
class Family:
    """Kernels k(v, v') of unit variance.

    Attributes
    ----------
    kernel : lengthscales (D,) to the kernel.
    gram : points (n, D) and lengthscales (D,) to k(v, v) (n, n) and its pull-back.
    smooth : whether its functions have all derivatives.
    """

    kernel: Callable[[Any], Kernel]
    gram: Callable[[Any, Any], tuple[Any, Pullback]]
    smooth: bool


def _squared_exponential(lengthscales: Any) -> Kernel:
    return SquaredExponential(lengthscales, 1.0)


def _squared_exponential_gram(v: Any, lengthscales: Any) -> tuple[Any, Pullback]:
    a = v / lengthscales
    gram = np.exp(-0.5 * cdist(a, a, "sqeuclidean"))
    return gram, lambda weights: contract_squared_differences(weights * gram, a)


def _matern_product(lengthscales: Any) -> Kernel:
    factors = (Matern32(float(length), 1.0) for length in lengthscales)
    if len(lengthscales) == 1:
        return next(factors)
    return Product(tuple(Columns(factor, (d,)) for d, factor in enumerate(factors)))


def _matern_product_gram(v: Any, lengthscales: Any) -> tuple[Any, Pullback]:
    columns = (sqrt(3) * v / lengthscales).T
    b = np.abs(columns[:, :, None] - columns[:, None, :])  # (D, n, n)
    raised = 1 + b
    gram = np.prod(raised, axis=0) * np.exp(-b.sum(axis=0))

    def pullback(weights: Any) -> Any:
        # d log((1 + b) exp(-b)) / d log length = b^2 / (1 + b)
        return np.einsum("ij,dij->d", weights * gram, b**2 / raised)

    return gram, pullback


SMOOTH = Family(_squared_exponential, _squared_exponential_gram, smooth=True)
ROUGH = Family(_matern_product, _matern_product_gram, smooth=False)
