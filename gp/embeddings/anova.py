"""Analysis of variance and quadratic kernels.

Anova: under independent columns the expectation of prod_d (1 + w e_d) is the product of the expectations of
its factors, so that with z_d the integral of a squared exponential of one column
(:mod:`gp.embeddings.profiles`)

    z(x) = h (prod_d (1 + w z_d(x_d)) - 1),      C = h (prod_d (1 + w C_d) - 1).

QuadraticTrend: for any measure of mean m and second moment R = E[x x^T],

    z(x) = b1 x . m + b2 x^T R x / 2,      C = b1 m . m' + b2 tr(R R') / 2.
"""

from __future__ import annotations

from gp.arrays import Array, as_like, namespace
from gp.embeddings.profiles import squared_exponential_profile
from gp.embeddings.registry import Formulas, embedding, refuse_mixture
from gp.embeddings.separable import by_column
from gp.kernels import Anova, QuadraticTrend, SquaredExponential
from gp.measures import Gaussian, Measure, Uniform


@embedding(Anova, Gaussian)
@embedding(Anova, Uniform)
def _anova(kernel: Anova, measure: Gaussian | Uniform) -> Formulas:
    """Return the integrals against independent columns."""
    profile = squared_exponential_profile(SquaredExponential(kernel.lengthscale), measure.mean)

    def joined(columns: Array) -> Array:
        w, height = as_like(kernel.interaction, columns), as_like(kernel.height, columns)
        return height * (namespace(columns).prod(1 + w * columns, axis=-1) - 1)

    def gradient(values: Array, slopes: Array) -> Array:
        w, height = as_like(kernel.interaction, values), as_like(kernel.height, values)
        p = namespace(values).prod(1 + w * values, axis=-1)
        return height * p[:, None] * (w * slopes / (1 + w * values))

    return by_column(kernel, profile, measure, joined, gradient)


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
