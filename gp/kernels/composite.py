"""Kernels made of kernels: sums, products, and a kernel of some of the columns only.

Sum:      k = sum_t k_t            f is a sum of independent functions
Product:  k = prod_t k_t
Columns:  k(x, y) = k_0(x[:, columns], y[:, columns])

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

from gp.arrays import Array, namespace
from gp.kernels.base import (
    Algebra,
    Derivatives,
    DiagonalDerivatives,
    Kernel,
    Parameter,
    differentiable,
)


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

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        return reduce(
            lambda a, b: DiagonalDerivatives(a.k + b.k, a.k_x + b.k_x, a.k_y + b.k_y, a.k_xy + b.k_xy),
            (differentiable(term).diagonal_derivatives(x) for term in self.terms),
        )


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

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        return reduce(
            _diagonal_product,
            (differentiable(factor).diagonal_derivatives(x) for factor in self.factors),
        )


@dataclass(frozen=True, eq=False)
class Columns(Algebra):
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

    def __call__(self, x: Array, y: Array) -> Array:
        return self.kernel(self.forward(x), self.forward(y))

    def diagonal(self, x: Array) -> Array:
        return self.kernel.diagonal(self.forward(x))

    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(
            replace(p, columns=tuple(self.columns[c] for c in p.columns or range(len(self.columns))))
            for p in self.kernel.parameters()
        )

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return replace(self, kernel=self.kernel.with_parameters(values))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        d = differentiable(self.kernel).derivatives(self.forward(x), self.forward(y))
        k_xy = self._spread(self._spread(d.k_xy, x, 1), x, 3)
        return Derivatives(d.k, self._spread(d.k_x, x, 1), self._spread(d.k_y, x, 2), k_xy)

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        d = differentiable(self.kernel).diagonal_derivatives(self.forward(x))
        k_xy = self._spread(self._spread(d.k_xy, x, 1), x, 2)
        return DiagonalDerivatives(d.k, self._spread(d.k_x, x, 1), self._spread(d.k_y, x, 1), k_xy)

    def _spread(self, values: Array, x: Array, axis: int) -> Array:
        return spread_columns(values, self.columns, x.shape[1], axis)


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
    return Derivatives(
        k=a.k * b.k,
        k_x=a.k_x * b.k[:, None, :] + a.k[:, None, :] * b.k_x,
        k_y=a.k_y * b.k[:, :, None] + a.k[:, :, None] * b.k_y,
        k_xy=a.k_xy * b.k[:, None, :, None]
        + a.k[:, None, :, None] * b.k_xy
        + a.k_x[:, :, :, None] * b.k_y[:, None, :, :]
        + b.k_x[:, :, :, None] * a.k_y[:, None, :, :],
    )


def _diagonal_product(a: DiagonalDerivatives, b: DiagonalDerivatives) -> DiagonalDerivatives:
    return DiagonalDerivatives(
        k=a.k * b.k,
        k_x=a.k_x * b.k[:, None] + a.k[:, None] * b.k_x,
        k_y=a.k_y * b.k[:, None] + a.k[:, None] * b.k_y,
        k_xy=a.k_xy * b.k[:, None, None]
        + a.k[:, None, None] * b.k_xy
        + a.k_x[:, :, None] * b.k_y[:, None, :]
        + b.k_x[:, :, None] * a.k_y[:, None, :],
    )
