"""Families of kernels of unit variance with one lengthscale for each coordinate.

smooth    exp(-|a|^2 / 2)                    squared exponential: functions with all derivatives
rough     prod_d (1 + b_d) exp(-b_d)         Matern 3/2 by coordinate, b = sqrt(3) |a|: one derivative,
                                             so that functions may have kinks
tilted    the smooth one times               functions whose variance under N(0, I) is only just infinite
          exp((|v|^2 + |v'|^2) / 4)          (:class:`gp.kernels.Tilted`)
sparse    prod_d (1 + w exp(-a_d^2 / 2))     sums of functions of few coordinates: each of the
               / (1 + w),   w = 0.3/D        (D choose j) interactions of j coordinates has variance w^j
                                             (:class:`gp.kernels.Anova` and a constant)

with a_d = (v_d - v'_d) / length_d. All but the tilted one are products over coordinates, and so have closed
forms wherever coordinates are independent. In ten dimensions nearly all the variance of the smooth family is
in interactions of many coordinates; in the sparse family (Durrande et al. 2013) it is in functions of one and
of two coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from bqvi.quadrature.settings import SEARCH
from gp.fixed_points import Changes, gram_of
from gp.kernels import (
    Anova,
    ByColumn,
    Constant,
    Kernel,
    Matern32,
    SquaredExponential,
    Sum,
    Tilted,
)
from gp.kernels.base import Pullback
from gp.observations import Functional

Gram: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, Pullback]]
"""A function of P parameters p, such as lengthscales, that returns K (m, m), which the caller may change, and
its pull-back: a function of symmetric weights W (m, m) that returns sum_ij W_ij dK_ij/dlog p, (P,)."""


class KernelFamily(Protocol):
    """Kernels with P positive parameters."""

    @property
    def smooth(self) -> bool:
        """Whether its functions have all derivatives."""

    @property
    def kernel(self) -> Callable[[np.ndarray], Kernel]:
        """A function of parameters (P,) that returns the kernel."""

    def gram(self, observed: Functional) -> Gram:
        """Return the covariance of observations at fixed points, as a function of the parameters."""

    def limits(self, dimension: int) -> np.ndarray:
        """Return the limits of the logarithms of the parameters, (5, P).

        The rows are the ends of the flat part of the prior, its standard deviation beyond, and the bounds of
        the search.
        """


@dataclass(frozen=True)
class Family:
    """Kernels k(v, v') of unit variance.

    Attributes
    ----------
    kernel : a function of lengthscales (D,) that returns the kernel.
    smooth : whether its functions have all derivatives.
    first : the index of the first lengthscale among the kernel's parameters.
    """

    kernel: Callable[[np.ndarray], Kernel]
    smooth: bool
    first: int = 0

    def gram(self, observed: Functional) -> Gram:
        width = observed.x.shape[1]
        of_kernel = gram_of(self.kernel(np.ones(width)), observed)
        chosen = slice(self.first, self.first + width)

        def gram(lengthscales: np.ndarray) -> tuple[np.ndarray, Pullback]:
            matrix, pullback = of_kernel(self.kernel(lengthscales))
            return matrix, pullback.among(chosen) if isinstance(pullback, Changes) else (
                lambda weights: pullback(weights)[chosen]
            )

        return gram

    def limits(self, dimension: int) -> np.ndarray:
        one = np.array([*SEARCH.lengthscales, SEARCH.falloff, *SEARCH.bounds])
        return np.tile(one[:, None], dimension)


def _squared_exponential(lengthscales: np.ndarray) -> SquaredExponential:
    return SquaredExponential(lengthscales, 1.0)


def _rough(lengthscales: np.ndarray) -> ByColumn:
    return ByColumn(Matern32(lengthscales, 1.0))


def _sparse(lengthscales: np.ndarray) -> Sum:
    dimension = len(lengthscales)
    w = 2 * SEARCH.pairs / dimension  # functions of two coordinates have `pairs` times the variance
    constant = float((1 + w) ** -dimension)
    return Sum((Constant(constant), Anova(lengthscales, w, 1 - constant)))


def _tilted(lengthscales: np.ndarray) -> Tilted:
    return Tilted(_squared_exponential(lengthscales), 0.5)


SMOOTH = Family(_squared_exponential, smooth=True)
TILTED = Family(_tilted, smooth=False)
ROUGH = Family(_rough, smooth=False)
SPARSE = Family(_sparse, smooth=False, first=1)
