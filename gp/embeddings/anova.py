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
from gp.embeddings.profiles import Profile, squared_exponential_profile
from gp.embeddings.registry import Formulas, Known, choose, embedding, refuse_mixture
from gp.embeddings.separable import independent
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

    def mean_gradient(x: Array) -> Array:
        xp = namespace(x)
        values, slopes = _columns(kernel, profile, measure, x)
        w = as_like(kernel.interaction, x)
        ratio = w * slopes / (1 + w * values)
        return as_like(kernel.height, x) * xp.prod(1 + w * values, axis=-1)[:, None] * ratio

    return Formulas(
        mean=lambda x: joined(_columns(kernel, profile, measure, x)[0]),
        cross=lambda other: joined(_double(kernel, profile, measure, other)),
        mean_gradient=mean_gradient,
    )


def _columns(kernel: Anova, profile: Profile, measure: Gaussian | Uniform, x: Array) -> tuple[Array, Array]:
    """Each column's integral and its derivative, (n, D)."""
    if isinstance(measure, Uniform):
        return profile.interval(x, *measure.parameters())
    return profile.gaussian(x, *independent(kernel, measure, measure))


def _double(kernel: Anova, profile: Profile, measure: Gaussian | Uniform, other: Measure) -> Array:
    """Each column's double integral, (D,)."""

    def gaussians(one: Gaussian, two: Gaussian) -> Array:
        (mean, sd), (other_mean, other_sd) = (independent(kernel, measure, g) for g in (one, two))
        return profile.gaussian(mean, other_mean, namespace(mean).sqrt(sd**2 + other_sd**2))[0]

    def mixed(gaussian: Gaussian, box: Uniform) -> Array:
        return profile.gaussian_interval(*independent(kernel, measure, gaussian), *box.parameters())

    known: Known
    if isinstance(measure, Uniform):
        ends = measure.parameters()
        known = {
            Uniform: lambda box: profile.two_intervals(*ends, *box.parameters()),
            Gaussian: lambda gaussian: mixed(gaussian, measure),
        }
    else:
        known = {
            Gaussian: lambda gaussian: gaussians(measure, gaussian),
            Uniform: lambda box: mixed(measure, box),
        }
    return choose(kernel, measure, other, known)


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
