"""Kernels made of kernels.

Sum:      k = sum_t k_t            f is a sum of independent functions
Product:  k = prod_t k_t
Columns:  k(x, y) = k_0(x[:, columns], y[:, columns])
Mapped:   k(x, y) = k_0(A (x - c), A (y - c))
Tilted:   k(x, y) = a(x) k_0(x, y) a(y),         a(x) = exp(beta |x|^2 / 2)
ByColumn: k(x, y) = variance prod_d phi(s_d),    s_d = (x_d - y_d)^2 / l_d^2

The derivatives of a composite kernel are those of its parts, put together by the rules of sums and products.
A product has one output unit only, so the variances of its second and later factors are numbers without a
unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import Self

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import (
    Algebra,
    Derivatives,
    DifferentiableKernel,
    Kernel,
    OfKernel,
    Parameter,
    differentiable,
    of_columns,
    of_rank_one,
)
from gp.kernels.stationary import Stationary


@dataclass(frozen=True, eq=False)
class Sum(Algebra):
    """The sum of ``terms``; also written ``k1 + k2``."""

    terms: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _checked("terms", self.terms))

    def __call__(self, x: Array, y: Array) -> Array:
        return reduce(add, (term(x, y) for term in self.terms))

    def diagonal(self, x: Array) -> Array:
        return reduce(add, (term.diagonal(x) for term in self.terms))

    def parameters(self) -> tuple[Parameter, ...]:
        return _joined("terms", self.terms)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return replace(self, terms=_distributed(self.terms, values))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        return reduce(_sum, (differentiable(term).derivatives(x, y) for term in self.terms))


@dataclass(frozen=True, eq=False)
class Product(Algebra):
    """The product of ``factors``; also written ``k1 * k2``."""

    factors: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", _checked("factors", self.factors))

    def __call__(self, x: Array, y: Array) -> Array:
        return reduce(mul, (factor(x, y) for factor in self.factors))

    def diagonal(self, x: Array) -> Array:
        return reduce(mul, (factor.diagonal(x) for factor in self.factors))

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of all factors; only the first has output units.

        The first variance of every later factor is redundant beside that of the first factor.
        """
        parameters = []
        for index, factor in enumerate(self.factors):
            own = factor.parameters()
            scales = [place for place, p in enumerate(own) if p.output_power == 2]
            for place, p in enumerate(own):
                name = f"factors[{index}].{p.name}"
                if index == 0:
                    parameters.append(replace(p, name=name))
                else:
                    redundant = p.redundant or scales[:1] == [place]
                    parameters.append(replace(p, name=name, output_power=0, redundant=redundant))
        return tuple(parameters)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return replace(self, factors=_distributed(self.factors, values))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        return reduce(_product, (differentiable(factor).derivatives(x, y) for factor in self.factors))


class _OfCoordinates(OfKernel):
    """Kernels k(B x + b, B y + b) of other coordinates, which are ``forward(x)``, by the matrix B."""

    def forward(self, x: Array) -> Array:
        """Return the coordinates (n, d) of points x (n, D)."""
        raise NotImplementedError

    def _slopes(self, x: Array) -> Array:
        """Return B, (d, D), in the kind of the points x."""
        raise NotImplementedError

    def __call__(self, x: Array, y: Array) -> Array:
        return self.kernel(self.forward(x), self.forward(y))

    def diagonal(self, x: Array) -> Array:
        return self.kernel.diagonal(self.forward(x))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        inner = differentiable(self.kernel).derivatives(self.forward(x), self.forward(y))
        b, einsum = self._slopes(x), namespace(x).einsum
        k_xy = einsum("ndmf,de,fg->nemg", inner.k_xy, b, b)
        return Derivatives(inner.k, einsum("ndm,de->nem", inner.k_x, b), inner.k_y @ b, k_xy)


@dataclass(frozen=True, eq=False)
class Columns(_OfCoordinates):
    """``kernel`` on the input columns ``columns``, distinct and counted from 0; constant in the others."""

    kernel: Kernel
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        columns = tuple(int(column) for column in np.atleast_1d(self.columns))
        if not columns or min(columns) < 0 or len(set(columns)) < len(columns):
            raise ValueError(f"columns = {self.columns!r}: give distinct indices counted from 0")
        object.__setattr__(self, "columns", columns)

    def forward(self, x: Array) -> Array:
        """Return the columns that the kernel reads of points x (n, D)."""
        if x.ndim != 2 or max(self.columns) >= x.shape[1]:
            raise ValueError(f"x has shape {tuple(x.shape)}, the kernel reads columns {self.columns}")
        return x[:, list(self.columns)]

    def _slopes(self, x: Array) -> Array:
        return namespace(x).eye(x.shape[1], dtype=x.dtype, device=x.device)[list(self.columns)]

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(
            replace(p, columns=tuple(self.columns[c] for c in p.columns or range(len(self.columns))))
            for p in self.kernel.parameters()
        )


def spread_columns(values: Array, columns: Sequence[int], dimension: int, axis: int) -> Array:
    """Return ``values`` with an ``axis`` over some ``columns`` put among zeros for all ``dimension``."""
    xp = namespace(values)
    parts = xp.unstack(values, axis=axis)
    place, zero = dict(zip(columns, parts, strict=True)), xp.zeros_like(parts[0])
    return xp.stack([place.get(column, zero) for column in range(dimension)], axis=axis)


def _checked(name: str, kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    kernels = tuple(kernels)
    # classes that inherit the algebra are kernels; the protocol's check of every method takes longer
    if not kernels or not all(isinstance(kernel, (Algebra, Kernel)) for kernel in kernels):
        raise TypeError(f"{name} = {kernels!r}: give one kernel or more")
    return kernels


def _joined(field: str, kernels: Sequence[Kernel]) -> tuple[Parameter, ...]:
    return tuple(
        replace(parameter, name=f"{field}[{index}].{parameter.name}")
        for index, kernel in enumerate(kernels)
        for parameter in kernel.parameters()
    )


def _distributed(kernels: Sequence[Kernel], values: Sequence[Array]) -> tuple[Kernel, ...]:
    changed, start = [], 0
    for kernel in kernels:
        stop = start + len(kernel.parameters())
        changed.append(kernel.with_parameters(values[start:stop]))
        start = stop
    return tuple(changed)


def _sum(a: Derivatives, b: Derivatives) -> Derivatives:
    return Derivatives(a.k + b.k, a.k_x + b.k_x, a.k_y + b.k_y, a.k_xy + b.k_xy)


def _product(a: Derivatives, b: Derivatives) -> Derivatives:
    """The product rule."""
    times = namespace(a.k).einsum
    mixed = times("ndm,nme->ndme", a.k_x, b.k_y) + times("ndm,nme->ndme", b.k_x, a.k_y)
    return Derivatives(
        k=a.k * b.k,
        k_x=times("ndm,nm->ndm", a.k_x, b.k) + times("ndm,nm->ndm", b.k_x, a.k),
        k_y=times("nme,nm->nme", a.k_y, b.k) + times("nme,nm->nme", b.k_y, a.k),
        k_xy=times("ndme,nm->ndme", a.k_xy, b.k) + times("ndme,nm->ndme", b.k_xy, a.k) + mixed,
    )


@dataclass(frozen=True, eq=False)
class Mapped(_OfCoordinates):
    """A kernel in other coordinates, k(A (x - c), A (y - c)).

    With a k that decreases away from the origin, such as `Tilted` with a negative growth, it is a prior of
    functions that vary near c alone, in the directions and on the scale of A. Its integrals against a measure
    are those of k against the measure of A (x - c).

    Attributes
    ----------
    kernel : k. centre : c, (D,). matrix : A, (D, D). The last two are not fitted.
    """

    kernel: DifferentiableKernel
    centre: Array
    matrix: Array

    def forward(self, x: Array) -> Array:
        """Return A (x - c) for points x (n, D), (n, D)."""
        return (x - as_like(self.centre, x)) @ as_like(self.matrix, x).T

    def _slopes(self, x: Array) -> Array:
        return as_like(self.matrix, x)


@dataclass(frozen=True, eq=False)
class Tilted(OfKernel):
    """The kernel a(u) k(u, u') a(u'), for functions that grow in the tails: a quotient of densities.

    The quotient p/q of a density and a proposal with lighter tails grows in the tails, at most like the
    reciprocal of q, where there are no nodes. A prior of this quotient in standard coordinates u is a(u) g(u)
    with g stationary. Its variance under N(0, I) is finite for beta < 1/2, its mean for beta < 1. Its
    integrals are those of k against a wider Gaussian (:mod:`gp.embeddings.tilted`).

    Attributes
    ----------
    kernel : k. growth : beta, a number that is not fitted.
    """

    kernel: DifferentiableKernel
    growth: float

    def factor(self, x: Array) -> Array:
        """Return a at points x (n, D), (n,)."""
        xp = namespace(x)
        return xp.exp(self.growth * xp.sum(x**2, axis=1) / 2)

    def __call__(self, x: Array, y: Array) -> Array:
        return self.factor(x)[:, None] * self.kernel(x, y) * self.factor(y)

    def diagonal(self, x: Array) -> Array:
        return self.factor(x) ** 2 * self.kernel.diagonal(x)

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        a_x, a_y = self.factor(x), self.factor(y)
        both = of_rank_one(a_x, a_y, self.growth * x * a_x[:, None], self.growth * y * a_y[:, None])
        return _product(self.kernel.derivatives(x, y), both)


@dataclass(frozen=True, eq=False)
class ByColumn(OfKernel):
    """The product over columns of one stationary kernel of a single column.

    For a squared exponential this is the kernel itself; of a Matern kernel the product has closed integrals
    wherever columns are independent.

    Attributes
    ----------
    kernel : with the profile phi, the variance, and the lengthscales: one, or (D,).
    """

    kernel: Stationary

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Stationary):
            raise TypeError(f"kernel = {self.kernel!r}: give a stationary kernel, such as Matern32")

    def _squares(self, x: Array, y: Array) -> Array:
        """Return s_d between x (n, D) and y (m, D), (D, n, m)."""
        self.kernel.check_dimension(x)
        lengthscale = as_like(self.kernel.lengthscale, x)
        return ((x / lengthscale).T[:, :, None] - (y / lengthscale).T[:, None, :]) ** 2

    def __call__(self, x: Array, y: Array) -> Array:
        factors = self.kernel.profile(self._squares(x, y))
        return as_like(self.kernel.variance, x) * namespace(x, y).prod(factors, axis=0)

    def log_slopes(self, x: Array, y: Array) -> Array:
        """Return dlog k / dx_d between x (n, D) and y (m, D), (D, n, m); zero where the points coincide."""
        s = self._squares(x, y)
        differences = (x.T[:, :, None] - y.T[:, None, :]) * self._inverse(x)[:, None, None] ** 2
        return 2 * self.kernel.slope(s) * differences / _positive(self.kernel.profile(s))

    def diagonal(self, x: Array) -> Array:
        return self.kernel.diagonal(x)

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        xp = namespace(x, y)
        s, variance = self._squares(x, y), as_like(self.kernel.variance, x)
        inverse = self._inverse(x)[:, None, None]
        differentiable(self.kernel)
        factors = _positive(self.kernel.profile(s))
        k = variance * xp.prod(factors, axis=0)
        ratio = self.log_slopes(x, y)
        steep = (x.T[:, :, None] - y.T[:, None, :]) * inverse**2  # half of ds/dx
        own = -(2 * self.kernel.slope(s) * inverse**2 + 4 * self.kernel.curvature(s) * steep**2) / factors
        return of_columns(k, k, ratio, own)

    def _inverse(self, x: Array) -> Array:
        return namespace(x).ones_like(x[0, :]) / as_like(self.kernel.lengthscale, x)


def _positive(factors: Array) -> Array:
    """Return the factors, which underflow for distant points, raised to a positive number."""
    return namespace(factors).clip(factors, 1e-300, None)
