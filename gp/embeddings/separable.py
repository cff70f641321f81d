"""Kernels that are products over columns, against measures with independent columns.

The integral of a product of functions of one column each is the product of their integrals, so a
profile (:mod:`gp.embeddings.profiles`) gives an embedding against a box or a Gaussian with diagonal
covariance:

    z(x) = variance prod_d z_d(x_d),     dz/dx_j = variance z_j'(x_j) prod_(d != j) z_d(x_d).

The squared exponential kernel is such a product in any dimension, so are products of Matern kernels
of one column each. A Matern kernel of D > 1 columns is a function of the norm of the scaled
difference and no such product; it is a mixture of squared exponentials
(:mod:`gp.embeddings.scale_mixture`).

Of an analysis of variance kernel

    z(x) = h (prod_d (1 + w z_d(x_d)) - 1),      C = h (prod_d (1 + w C_d) - 1).
"""

from __future__ import annotations

from collections.abc import Callable

from gp.arrays import Array, as_like, namespace
from gp.embeddings.embed import DISCRETISE, Formulas, Known, UnknownPairError, choose, embedding
from gp.embeddings.profiles import Profile, SquaredExponentialProfile, column_lengthscale, matern_profile
from gp.embeddings.scale_mixture import radial
from gp.kernels import Anova, ByColumn, Kernel, Matern12, Matern32, Matern52, SquaredExponential, Stationary
from gp.measures import Gaussian, Uniform


def by_column(
    kernel: Kernel,
    profile: Profile,
    measure: Gaussian | Uniform,
    joined: Callable[[Array], Array],
    gradient: Callable[[Array, Array], Array],
) -> Formulas:
    """Return integrals against a box or independent Gaussians, made of those of each column.

    Parameters
    ----------
    kernel, measure : the pair. profile : the integrals of the kernel's factor over one column.
    joined : a function of each column's integrals (..., D) that returns the kernel's, (...).
    gradient : a function of these and of their slopes, (n, D) each, that returns the kernel's slopes (n, D).
    """
    known: Known
    columns: Callable[[Array], tuple[Array, Array]]
    if isinstance(measure, Uniform):
        ends = measure.parameters()
        columns = lambda x: profile.interval(x, *ends)  # noqa: E731
        known = {Uniform: lambda other: profile.two_intervals(*ends, *other.parameters())}
    else:
        mean, sd = _independent(kernel, measure)
        columns = lambda x: profile.gaussian(x, mean, sd)  # noqa: E731

        def with_gaussian(other: Gaussian) -> Array:
            other_mean, other_sd = _independent(kernel, other)
            return profile.gaussian(mean, other_mean, namespace(mean).sqrt(sd**2 + other_sd**2))[0]

        known = {Gaussian: with_gaussian}
    return Formulas(
        mean=lambda x: joined(columns(x)[0]),
        mean_gradient=lambda x: gradient(*columns(x)),
        cross=lambda other: joined(choose(kernel, measure, other, known)),
    )


def product_by_column(kernel: Stationary, profile: Profile, measure: Gaussian | Uniform) -> Formulas:
    """Return integrals of a product over columns; ``kernel``, ``profile``, ``measure`` as of `by_column`."""

    def joined(columns: Array) -> Array:
        return as_like(kernel.variance, columns) * namespace(columns).prod(columns, axis=-1)

    def gradient(values: Array, slopes: Array) -> Array:
        return as_like(kernel.variance, values) * _gradient(values, slopes)

    return by_column(kernel, profile, measure, joined, gradient)


@embedding(SquaredExponential, Uniform)
@embedding(Matern12, Uniform)
@embedding(Matern32, Uniform)
@embedding(Matern52, Uniform)
@embedding(Matern12, Gaussian)
@embedding(Matern32, Gaussian)
@embedding(Matern52, Gaussian)
def _stationary(kernel: Stationary, measure: Gaussian | Uniform) -> Formulas:
    """Return the integrals; those of a Matern kernel are in closed form in one dimension."""
    if measure.dimension > 1 and not isinstance(kernel, SquaredExponential):
        return radial(kernel, measure)
    return product_by_column(kernel, _profile(kernel, measure.mean), measure)


@embedding(ByColumn, Uniform)
@embedding(ByColumn, Gaussian)
def _columns(kernel: ByColumn, measure: Gaussian | Uniform) -> Formulas:
    """Return the integrals of a product over columns."""
    return product_by_column(kernel.kernel, _profile(kernel.kernel, measure.mean), measure)


@embedding(Anova, Gaussian)
@embedding(Anova, Uniform)
def _anova(kernel: Anova, measure: Gaussian | Uniform) -> Formulas:
    """Return the integrals against independent columns."""
    profile = SquaredExponentialProfile(column_lengthscale(kernel, measure.mean))

    def joined(columns: Array) -> Array:
        w, height = as_like(kernel.interaction, columns), as_like(kernel.height, columns)
        return height * (namespace(columns).prod(1 + w * columns, axis=-1) - 1)

    def gradient(values: Array, slopes: Array) -> Array:
        w, height = as_like(kernel.interaction, values), as_like(kernel.height, values)
        p = namespace(values).prod(1 + w * values, axis=-1)
        return height * p[:, None] * (w * slopes / (1 + w * values))

    return by_column(kernel, profile, measure, joined, gradient)


def _profile(kernel: Stationary, like: Array) -> Profile:
    if isinstance(kernel, SquaredExponential):
        return SquaredExponentialProfile(column_lengthscale(kernel, like))
    if isinstance(kernel, Matern12 | Matern32 | Matern52):
        return matern_profile(kernel, like)
    raise UnknownPairError(
        f"no integral of a column of {type(kernel).__name__} in closed form. " + DISCRETISE
    )


def _independent(kernel: Kernel, gaussian: Gaussian) -> tuple[Array, Array]:
    """Means and standard deviations of a Gaussian's columns, which have to be independent."""
    if not gaussian.is_diagonal:
        raise UnknownPairError(
            f"no integral of {type(kernel).__name__} against a Gaussian with a full covariance: give one "
            "with a diagonal covariance. " + DISCRETISE
        )
    xp = namespace(gaussian.mean)
    return gaussian.mean, xp.sqrt(xp.linalg.diagonal(gaussian.covariance))


def _gradient(values: Array, slopes: Array) -> Array:
    """Replace one factor after the other by its slope, (n, D): no division by a factor of zero."""
    xp = namespace(values)
    dimension = values.shape[-1]
    own = xp.eye(dimension, dtype=xp.bool, device=values.device)
    return xp.prod(xp.where(own, slopes[..., None, :], values[..., None, :]), axis=-1)
