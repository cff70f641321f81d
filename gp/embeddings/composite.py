"""Sums, products and restrictions of kernels, and kernels of few degrees of freedom.

Sum        the integrals, and their derivatives, add up
Columns    the integrals of the kernel against the marginal of the measure
Product    where the factors are functions of columns that are independent under the measure, the product of
           the factors' integrals; a squared exponential times another of the same columns is one
           with 1/l^2 = 1/l1^2 + 1/l2^2, and a constant is a factor of the integral
Constant   variance, for every probability measure
Linear     variance (x - offset)(mean - offset): only the mean of the measure is needed
QuadraticTrend  for any measure of mean m and second moment R = E[x x^T] z(x) = b1 x . m + b2 x^T R x / 2, and
           C = b1 m . m' + b2 tr(R R') / 2
White      zero, for every measure without point masses
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, mul

from gp.arrays import Array, as_like, namespace, to_numpy
from gp.embeddings.embed import DISCRETISE, Formulas, UnknownPairError, embed, embedding, refuse_mixture
from gp.kernels import (
    Columns,
    Constant,
    Kernel,
    Linear,
    Product,
    QuadraticTrend,
    SquaredExponential,
    Sum,
    White,
)
from gp.kernels.composite import spread_columns
from gp.measures import Gaussian, GaussianMixture, Measure, Uniform


@embedding(Sum, object)
def sum_of_kernels(kernel: Sum, measure: Measure) -> Formulas:
    """Return the sums of the terms' integrals."""
    terms = [embed(term, measure) for term in kernel.terms]
    return Formulas(
        mean=lambda x: sum(term.mean(x) for term in terms),
        cross=lambda other: sum(term.double(other) for term in terms),
        mean_gradient=lambda x: sum(term.mean_gradient(x) for term in terms),
    )


@embedding(Columns, object)
def _kernel_on_columns(kernel: Columns, measure: Measure) -> Formulas:
    """Return the integrals against the marginal of the measure."""
    if max(kernel.columns) >= measure.dimension:
        raise ValueError(f"the kernel reads columns {kernel.columns}, the measure has {measure.dimension}")
    seen = list(kernel.columns)
    part = embed(kernel.kernel, measure.marginal(seen))

    def mean_gradient(x: Array) -> Array:
        return spread_columns(part.mean_gradient(x[:, seen]), seen, x.shape[1], 1)

    return Formulas(
        mean=lambda x: part.mean(x[:, seen]),
        cross=lambda other: part.double(other.marginal(seen)),
        mean_gradient=mean_gradient,
    )


@embedding(Product, Gaussian)
@embedding(Product, Uniform)
def _product_of_kernels(kernel: Product, measure: Gaussian | Uniform) -> Formulas:
    """Return the products of the integrals of factors whose columns are independent."""
    factors = [embed(factor, measure) for factor in _independent_factors(kernel, measure)]

    def cross(other: Measure) -> Array:
        refuse_mixture(other)  # a product of sums over components is not the sum of their products
        _independent_factors(kernel, other)
        return reduce(mul, (factor.double(other) for factor in factors))

    def mean_gradient(x: Array) -> Array:
        means = [factor.mean(x)[:, None] for factor in factors]
        return sum(
            reduce(mul, (*means[:i], *means[i + 1 :]), factor.mean_gradient(x))
            for i, factor in enumerate(factors)
        )

    return Formulas(
        mean=lambda x: reduce(mul, (factor.mean(x) for factor in factors)),
        cross=cross,
        mean_gradient=mean_gradient,
    )


def _independent_factors(kernel: Product, measure: Measure) -> list[Kernel]:
    """Return the factors, those of the same columns merged, once they are known independent."""
    groups: dict[tuple[int, ...], list[Kernel]] = {}
    for factor in kernel.factors:
        groups.setdefault(_columns_seen(factor, measure.dimension), []).append(factor)
    constants = groups.pop((), [])
    columns = list(groups)
    for i, first in enumerate(columns):
        for second in columns[i + 1 :]:
            _require_independent(measure, first, second)
    return [*constants, *(_merged(parts) for parts in groups.values())]


def _columns_seen(kernel: Kernel, dimension: int) -> tuple[int, ...]:
    if isinstance(kernel, Constant):
        return ()
    return tuple(sorted(kernel.columns)) if isinstance(kernel, Columns) else tuple(range(dimension))


def _require_independent(measure: Measure, first: Sequence[int], second: Sequence[int]) -> None:
    if set(first) & set(second):
        raise UnknownPairError(
            f"factors of a Product look at columns {first} and {second}, which overlap: their "
            f"product has no closed form. {DISCRETISE}"
        )
    if isinstance(measure, Gaussian):
        block = to_numpy(measure.covariance)[list(first)][:, list(second)]
        if block.any():
            raise UnknownPairError(
                f"factors of a Product look at columns {first} and {second}, which are correlated "
                f"under the Gaussian: give a block-diagonal covariance, or a SquaredExponential of "
                f"all columns. {DISCRETISE}"
            )


def _merged(parts: Sequence[Kernel]) -> Kernel:
    """Return one kernel for factors of the same columns: only squared exponentials merge."""
    if len(parts) == 1:
        return parts[0]
    inner = [part.kernel if isinstance(part, Columns) else part for part in parts]
    bumps = [part for part in inner if isinstance(part, SquaredExponential)]
    orders = {part.columns if isinstance(part, Columns) else None for part in parts}
    if len(orders) > 1 or len(bumps) < len(inner):
        names = ", ".join(type(part).__name__ for part in inner)
        raise UnknownPairError(
            f"factors of a Product look at the same columns ({names}): only products of "
            f"SquaredExponential have a closed form there. {DISCRETISE}"
        )
    precision = reduce(add, (bump.lengthscale**-2.0 for bump in bumps))
    merged = SquaredExponential(precision**-0.5, reduce(mul, (bump.variance for bump in bumps)))
    return Columns(merged, parts[0].columns) if isinstance(parts[0], Columns) else merged


@embedding(Constant, object)
def _constant(kernel: Constant, measure: Measure) -> Formulas:
    """Return the variance."""

    def one_everywhere(x: Array) -> Array:
        return as_like(kernel.variance, x) * namespace(x).ones_like(x[:, 0])

    def cross(other: Measure) -> Array:
        refuse_mixture(other)
        like = measure.parameters()[0]
        return as_like(kernel.variance, like) * namespace(like).ones_like(like).reshape(-1)[0]

    return Formulas(
        mean=one_everywhere,
        cross=cross,
        mean_gradient=lambda x: namespace(x).zeros_like(x),
    )


@embedding(Linear, object)
def _linear(kernel: Linear, measure: Measure) -> Formulas:
    """Return the kernel at the mean of the measure."""

    def weights(at: Array) -> Array:
        return as_like(kernel.variance, at) * (measure.mean - as_like(kernel.offset, at))

    def cross(other: Measure) -> Array:
        refuse_mixture(other)
        at = other.mean
        return namespace(at).sum((at - as_like(kernel.offset, at)) * weights(at))

    return Formulas(
        mean=lambda x: (x - as_like(kernel.offset, x)) @ weights(x),
        cross=cross,
        mean_gradient=lambda x: namespace(x).zeros_like(x) + weights(x),
    )


@embedding(White, Gaussian)
@embedding(White, GaussianMixture)
@embedding(White, Uniform)
def _white(kernel: White, measure: Measure) -> Formulas:
    """Return zero: independent values average out."""
    like = measure.parameters()[0]
    zero = 0 * namespace(like).sum(like)
    return Formulas(
        mean=lambda x: namespace(x).zeros_like(x[:, 0]),
        cross=lambda other: zero,
        mean_gradient=lambda x: namespace(x).zeros_like(x),
    )


@embedding(QuadraticTrend, object)
def _quadratic_trend(kernel: QuadraticTrend, measure: Measure) -> Formulas:
    """Return the integrals, which need the measure's first two moments only."""

    def moments(of: Measure, like: Array) -> tuple[Array, Array]:
        mean = as_like(of.mean, like)
        return mean, as_like(of.covariance, like) + mean[:, None] * mean

    def mean(x: Array) -> Array:
        first, second = moments(measure, x)
        b1, b2 = as_like(kernel.linear, x), as_like(kernel.quadratic, x)
        return b1 * (x @ first) + 0.5 * b2 * namespace(x).sum((x @ second) * x, axis=1)

    def mean_gradient(x: Array) -> Array:
        first, second = moments(measure, x)
        return as_like(kernel.linear, x) * first + as_like(kernel.quadratic, x) * (x @ second)

    def cross(other: Measure) -> Array:
        refuse_mixture(other)
        like = measure.mean
        (first, second), (others, other_second) = moments(measure, like), moments(other, like)
        b1, b2 = as_like(kernel.linear, like), as_like(kernel.quadratic, like)
        return b1 * (first @ others) + 0.5 * b2 * namespace(like).sum(second * other_second)

    return Formulas(mean=mean, cross=cross, mean_gradient=mean_gradient)
