"""Families of kernels of unit variance with one lengthscale for each coordinate.

smooth    exp(-|a|^2 / 2)                    squared exponential: functions with all derivatives
rough     prod_d (1 + b_d) exp(-b_d)         Matern 3/2 by coordinate, b = sqrt(3) |a|: one derivative,
                                             so that a kink or a jump is no contradiction
growing   the smooth one times               functions whose variance under N(0, I) is only just infinite
          exp((|v|^2 + |v'|^2) / 4)          (:mod:`growing`)

with a_d = (v_d - v'_d) / length_d. Both are products over coordinates, and so have closed forms
wherever coordinates are independent. The kernels and their integrals are those of :mod:`gp`; the one
thing done again here is the Gram matrix with its derivatives in log lengthscales (:mod:`grams`), which a
fit asks for a thousand times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bqvi.quadrature.grams import Gram, Pullback, matern_gram, squared_exponential_gram
from bqvi.quadrature.growing import Growing
from gp.embeddings import embed
from gp.embeddings.matern_profile import matern_profile
from gp.kernels import Columns, Kernel, Matern32, Product, SquaredExponential
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


def _squared_exponential(lengthscales: Any) -> Kernel:
    return SquaredExponential(lengthscales, 1.0)


def _squared_exponential_embedding(lengthscales: Any, measure: Measure) -> Embedding:
    return embed(_squared_exponential(lengthscales), measure)


def _matern_product(lengthscales: Any) -> Kernel:
    factors = (Matern32(float(length), 1.0) for length in lengthscales)
    if len(lengthscales) == 1:
        return next(factors)
    return Product(tuple(Columns(factor, (d,)) for d, factor in enumerate(factors)))


@dataclass(frozen=True, eq=False)
class _MaternEmbedding:
    """The product of the integrals by coordinate, all coordinates at once.

    `embed` gives the same numbers with a marginal and a factor for each coordinate, in ten times the time.
    """

    lengthscales: Any
    measure: Gaussian | Uniform

    def mean(self, x: Any) -> Any:
        """Return the product over coordinates, (n,)."""
        profile = matern_profile(Matern32(self.lengthscales), self.lengthscales)
        if isinstance(self.measure, Uniform):
            columns = profile.interval(x, self.measure.lower, self.measure.upper)[0]
        else:
            columns = profile.gaussian(x, self.measure.mean, _sd(self.measure))[0]
        return np.prod(columns, axis=1)

    def double(self) -> Any:
        """Return the product over coordinates; the difference of two Gaussian points is Gaussian."""
        profile = matern_profile(Matern32(self.lengthscales), self.lengthscales)
        if isinstance(self.measure, Uniform):
            ends = self.measure.lower, self.measure.upper
            return np.prod(profile.two_intervals(*ends, *ends))
        zero = np.zeros(len(self.lengthscales))
        return np.prod(profile.gaussian(zero, zero, np.sqrt(2) * _sd(self.measure))[0])


def _sd(measure: Gaussian) -> Any:
    return np.sqrt(np.diag(measure.covariance))


def _matern_embedding(lengthscales: Any, measure: Measure) -> Embedding:
    assert isinstance(measure, Gaussian | Uniform)  # of independent coordinates: see ensemble.candidates
    return _MaternEmbedding(np.asarray(lengthscales, dtype=float), measure)


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
ROUGH = Family(_matern_product, matern_gram, _matern_embedding, smooth=False)
