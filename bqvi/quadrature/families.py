"""Families of kernels of unit variance with one lengthscale for each coordinate.

smooth    exp(-|a|^2 / 2)                    squared exponential: functions with all derivatives
rough     prod_d (1 + b_d) exp(-b_d)         Matern 3/2 by coordinate, b = sqrt(3) |a|: one derivative,
                                             so that a kink is no contradiction
broken    prod_d exp(-|a_d|)                 Matern 1/2 by coordinate: no derivative, so that a jump is
                                             one large increment among others; between nodes of one
                                             dimension nearly linear
growing   the smooth one times               functions whose variance under N(0, I) is only just infinite
          exp((|v|^2 + |v'|^2) / 4)          (:mod:`growing`)
sparse    prod_d (1 + w exp(-a_d^2 / 2))     sums of functions of few coordinates: each of the
               / (1 + w),   w = 0.3/D        (D choose j) interactions of j coordinates has variance w^j

with a_d = (v_d - v'_d) / length_d. All but the growing one are products over coordinates, and so have closed
forms wherever coordinates are independent. In ten dimensions no two of a hundred nodes are near each
other, and all the variance of smooth functions is in interactions of many coordinates: the sparse ones
(analysis of variance kernels; Durrande et al. 2013) give it to functions of one and of two. The kernels
and their integrals are those of :mod:`gp`; the one thing done again here is the Gram matrix with its
derivatives in log lengthscales (:mod:`grams`), which a fit asks for a thousand times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bqvi.quadrature.grams import (
    Gram,
    Pullback,
    exponential_gram,
    interaction,
    matern_gram,
    sparse_gram,
    squared_exponential_gram,
)  # fmt: skip
from bqvi.quadrature.growing import Growing
from gp.embeddings import embed
from gp.embeddings.matern_profile import matern_profile
from gp.embeddings.profiles import Profile, SquaredExponentialProfile
from gp.kernels import Columns, Constant, Kernel, Matern12, Matern32, Product, SquaredExponential, Sum
from gp.measures import Gaussian, Measure, Uniform


class Embedding(Protocol):
    """The integrals of a kernel against a measure."""

    def mean(self, x: Any) -> Any:
        """Return int k(x, x') pi(dx'), (n,), for points (n, D)."""
        ...

    def double(self) -> Any:
        """Return int int k dpi dpi, a number."""
        ...


@dataclass(frozen=True)
class Family:
    """Kernels k(v, v') of unit variance.

    Attributes
    ----------
    kernel : lengthscales (D,) to the kernel.
    gram : points (n, D) to a function of lengthscales, which returns k(v, v) (n, n) and its pull-back.
    embedding : lengthscales (D,) and a measure to the integrals of the kernel.
    smooth : whether its functions have all derivatives.
    """

    kernel: Callable[[Any], Kernel]
    gram: Callable[[Any], Gram]
    embedding: Callable[[Any, Measure], Embedding]
    smooth: bool


def _squared_exponential(lengthscales: Any) -> SquaredExponential:
    return SquaredExponential(lengthscales, 1.0)


def _squared_exponential_embedding(lengthscales: Any, measure: Measure) -> Embedding:
    return embed(_squared_exponential(lengthscales), measure)


def _by_column(matern: type[Matern12 | Matern32]) -> Callable[[Any], Kernel]:
    def kernel(lengthscales: Any) -> Kernel:
        factors = (matern(float(length), 1.0) for length in lengthscales)
        if len(lengthscales) == 1:
            return next(factors)
        return Product(tuple(Columns(factor, (d,)) for d, factor in enumerate(factors)))

    return kernel


@dataclass(frozen=True, eq=False)
class _ByColumn:
    """The product of the integrals by coordinate, all coordinates at once.

    `embed` gives the same numbers with a marginal and a factor for each coordinate, in ten times the time.

    Attributes
    ----------
    profile : the kernel of each coordinate. measure : of independent coordinates.
    weight : w, where a coordinate's factor is (1 + w k_d) / (1 + w); ``None`` where it is k_d.
    """

    profile: Profile
    measure: Gaussian | Uniform
    weight: float | None = None

    def mean(self, x: Any) -> Any:
        """Return the product over coordinates, (n,)."""
        if isinstance(self.measure, Uniform):
            return self._joined(self.profile.interval(x, self.measure.lower, self.measure.upper)[0])
        return self._joined(self.profile.gaussian(x, self.measure.mean, _sd(self.measure))[0])

    def double(self) -> Any:
        """Return the product over coordinates; the difference of two Gaussian points is Gaussian."""
        if isinstance(self.measure, Uniform):
            ends = self.measure.lower, self.measure.upper
            return self._joined(self.profile.two_intervals(*ends, *ends))
        zero = np.zeros(self.measure.dimension)
        return self._joined(self.profile.gaussian(zero, zero, np.sqrt(2) * _sd(self.measure))[0])

    def _joined(self, columns: Any) -> Any:
        if self.weight is not None:
            columns = (1 + self.weight * columns) / (1 + self.weight)
        return np.prod(columns, axis=-1)


def _sd(measure: Gaussian) -> Any:
    return np.sqrt(np.diag(measure.covariance))


def _embedding_by_column(matern: type[Matern12 | Matern32]) -> Callable[[Any, Measure], Embedding]:
    def embedding(lengthscales: Any, measure: Measure) -> Embedding:
        assert isinstance(measure, Gaussian | Uniform)  # of independent coordinates: see ensemble.candidates
        lengthscales = np.asarray(lengthscales, dtype=float)
        return _ByColumn(matern_profile(matern(lengthscales), lengthscales), measure)

    return embedding


def _sparse(lengthscales: Any) -> Kernel:
    w = interaction(len(lengthscales))
    share = w / (1 + w)
    factors = (
        Sum((Constant(1 - share), SquaredExponential(float(length), share))) for length in lengthscales
    )
    return Product(tuple(Columns(factor, (d,)) for d, factor in enumerate(factors)))


def _sparse_embedding(lengthscales: Any, measure: Measure) -> Embedding:
    assert isinstance(measure, Gaussian | Uniform)  # of independent coordinates: see ensemble.candidates
    lengthscales = np.asarray(lengthscales, dtype=float)
    return _ByColumn(SquaredExponentialProfile(lengthscales), measure, interaction(len(lengthscales)))


def growing(growth: float) -> Family:
    """Return the smooth functions times exp(growth |v|^2 / 2)."""

    def kernel(lengthscales: Any) -> Growing:
        return Growing(_squared_exponential(lengthscales), growth)

    def growing_gram(v: Any) -> Gram:
        stationary, a = squared_exponential_gram(v), kernel(np.ones(1)).factor(v)
        both = np.outer(a, a)

        def gram(lengthscales: Any) -> tuple[Any, Pullback]:
            matrix, pullback = stationary(lengthscales)
            return both * matrix, lambda weights: pullback(both * weights)

        return gram

    def embedding(lengthscales: Any, measure: Measure) -> Embedding:
        return embed(kernel(lengthscales), measure)

    return Family(kernel, growing_gram, embedding, smooth=False)


SMOOTH = Family(_squared_exponential, squared_exponential_gram, _squared_exponential_embedding, smooth=True)
GROWS = growing(0.5)
ROUGH = Family(_by_column(Matern32), matern_gram, _embedding_by_column(Matern32), smooth=False)
BROKEN = Family(_by_column(Matern12), exponential_gram, _embedding_by_column(Matern12), smooth=False)
SPARSE = Family(_sparse, sparse_gram, _sparse_embedding, smooth=False)
