"""Kernels that are products over columns, against measures with independent columns.

The integral of a product of functions of one column each is the product of their integrals, so a `Profile`
gives an embedding against a box or a Gaussian with diagonal covariance:

    z(x) = variance prod_d z_d(x_d),     dz/dx_j = variance z_j'(x_j) prod_(d != j) z_d(x_d).

The squared exponential kernel is such a product in any dimension, so are products of Matern kernels
of one column each. A Matern kernel of D > 1 columns is a function of the norm of the scaled
difference and no such product; it is a mixture of squared exponentials
(:mod:`gp.embeddings.scale_mixture`).

Of an analysis of variance kernel

    z(x) = h (prod_d (1 + w z_d(x_d)) - 1),      C = h (prod_d (1 + w C_d) - 1).

A profile has the integrals of a stationary kernel k(t), t = x - y, with k(0) = 1, in one dimension, for each
column d as arrays (..., D). Two identities are used. The difference of two independent Gaussians is Gaussian,
so a double integral between Gaussians is ``gaussian`` with the variances added. And with K'' = k, the double
integral over two intervals is the second difference K(b-c) - K(a-c) - K(b-d) + K(a-d); taking K(t) =
kappa |t| + h(|t|) with kappa = int_0^inf k and h decaying, its first part is 2 kappa times the length of the
overlap, and the rest is computed without cancellation of large numbers.

As a difference of primitives over a short interval loses digits, intervals shorter than the lengthscale are
integrated by Gauss-Legendre rules of 20 nodes, one for each part between kinks of the integrand.

The Matern kernels of order nu = 1/2, 3/2 and 5/2 are k(t) = e^-tau c(tau), tau = lambda |t|, with lambda =
sqrt(2 nu) / lengthscale and c a polynomial. Their derivative and their repeated integrals have the same form,
each e^-tau times a polynomial:

    |k'| = lambda e^-tau slope(tau)
    h(t) = int_t^inf int_s^inf k(r) dr ds = e^-tau second(tau) / lambda^2,    int_0^inf k = total / lambda

*A Matern kernel over an interval.* The part of [a, b] on one side of x is [u, u + w] in distance. With
J_i(omega) = int_0^1 s^i e^(-omega s) ds, omega = lambda w, v = lambda u,

    int_u^(u+w) k = e^-v / lambda sum_j c_j sum_i binom(j, i) v^(j-i) omega^(i+1) J_i,

a sum of positive terms, exact to rounding however short or far the interval is.

*A Matern kernel over a Gaussian.* With D = x - Y ~ N(mu, s^2), beta = lambda s - mu / s and

    M_j = E[(D / s)^j e^(-lambda D); D > 0] = phi(mu / s) R_j(beta),
    R_j(beta) = int_0^inf t^j e^(-beta t - t^2 / 2) dt,

one side of zero contributes sum_j c_j (lambda s)^j M_j. R_0 = sqrt(pi/2) erfcx(beta / sqrt 2), and
R_(j+1) = j R_(j-1) - beta R_j. As that recursion loses digits like beta^2j for large beta, from beta = 4 on
the ratios R_j / R_(j-1) come from its continued fraction r_j = j / (beta + r_(j+1)), to 1e-13.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import comb, pi, sqrt

import numpy as np

from gp.arrays import Array, as_like, namespace, special
from gp.embeddings.embed import DISCRETISE, Formulas, Known, UnknownPairError, choose, embedding
from gp.embeddings.scale_mixture import radial
from gp.kernels import Anova, ByColumn, Kernel, Matern12, Matern32, Matern52, SquaredExponential, Stationary
from gp.measures import Gaussian, Uniform

Polynomial = tuple[float, ...]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


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


class Profile:
    """A stationary kernel in one dimension, for all columns at once, with ``lengthscale``, (D,)."""

    lengthscale: Array
    total: Array
    """kappa, (D,)."""

    @abstractmethod
    def interval(self, x: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """Return the average over [a, b] of k(x - y), and its derivative in x."""

    @abstractmethod
    def gaussian(self, x: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
        """Return E k(x - Y), Y ~ N(mean, sd^2), and its derivative in x."""

    @abstractmethod
    def decaying(self, t: Array) -> Array:
        """Return h(t) for t >= 0."""

    def two_intervals(self, a: Array, b: Array, c: Array, d: Array) -> Array:
        """Return the average of k(x - y) over x in [a, b] and y in [c, d]."""
        xp, h = namespace(a), self.decaying
        overlap = xp.minimum(b, d) - xp.maximum(a, c)
        inside = 2 * self.total * xp.maximum(overlap, xp.zeros_like(overlap))
        inside = inside + h(xp.abs(b - c)) - h(xp.abs(a - c)) - h(xp.abs(b - d)) + h(xp.abs(a - d))
        average = inside / ((b - a) * (d - c))
        first = b - a <= d - c
        low, high = xp.where(first, a, c), xp.where(first, b, d)
        short = high - low <= self.lengthscale
        if not bool(xp.any(short)):
            return average
        # by quadrature over the shorter; the average over the longer interval has kinks at its two ends
        other_low, other_high = xp.where(first, c, a), xp.where(first, d, b)
        cuts = [low, *(xp.minimum(xp.maximum(e, low), high) for e in (other_low, other_high)), high]

        def inner(x: Array) -> Array:
            return self.interval(x, other_low, other_high)[0]

        pieces = [gauss_legendre(inner, cuts[i], cuts[i + 1]) for i in range(3)]
        return xp.where(short, (pieces[0] + pieces[1] + pieces[2]) / (high - low), average)


def column_lengthscale(kernel: Stationary | Anova, like: Array) -> Array:
    """Return one lengthscale per column, (D,), in the kind of ``like`` (D,)."""
    xp = namespace(like)
    lengthscale = as_like(kernel.lengthscale, like)
    shape = tuple(getattr(lengthscale, "shape", ()))
    if shape not in ((), (1,), tuple(like.shape)):
        raise ValueError(
            f"lengthscale has shape {shape}, the measure has dimension {like.shape[0]}: give one "
            "lengthscale, or one per dimension"
        )
    return lengthscale * xp.ones_like(like)


def gauss_legendre(function: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """Return int_a^b function, for bounds (..., D); the nodes stand first in its argument."""
    nodes = as_like((_NODES + 1) / 2, a).reshape(-1, *(1 for _ in a.shape))
    weights = as_like(_WEIGHTS / 2, a).reshape(nodes.shape)
    return (b - a) * namespace(a).sum(weights * function(a + (b - a) * nodes), axis=0)


def normal_interval(alpha: Array, beta: Array) -> Array:
    """Return Phi(beta) - Phi(alpha) for alpha <= beta, without loss in either tail."""
    xp, ndtr = namespace(alpha), special(alpha).ndtr
    right = alpha + beta > 0
    low, high = xp.where(right, -beta, alpha), xp.where(right, -alpha, beta)
    return ndtr(high) - ndtr(low)


class SquaredExponentialProfile(Profile):
    """k(t) = exp(-t^2 / (2 lengthscale^2))."""

    def __init__(self, lengthscale: Array) -> None:
        self.lengthscale, self.total = lengthscale, sqrt(pi / 2) * lengthscale

    def interval(self, x: Array, a: Array, b: Array) -> tuple[Array, Array]:
        xp = namespace(x)
        width = (b - a) / self.lengthscale
        alpha, beta = (a - x) / self.lengthscale, (b - x) / self.lengthscale
        value = sqrt(2 * pi) * normal_interval(alpha, beta) / width
        short = width <= 1
        if bool(xp.any(short)):
            by_rule = gauss_legendre(lambda t: xp.exp(-(t**2) / 2), alpha, beta) / width
            value = xp.where(short, by_rule, value)
        return value, _rise(alpha, beta) / (b - a)

    def gaussian(self, x: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
        total = self.lengthscale**2 + sd**2
        step = (x - mean) / total
        height = 1 / namespace(x).sqrt(1 + (sd / self.lengthscale) ** 2)
        value = height * namespace(x).exp(-(x - mean) * step / 2)
        return value, -value * step

    def decaying(self, t: Array) -> Array:
        t = t / self.lengthscale
        rest = 1 - sqrt(pi / 2) * t * special(t).erfcx(t / sqrt(2))
        return self.lengthscale**2 * namespace(t).exp(-(t**2) / 2) * rest


def _rise(alpha: Array, beta: Array) -> Array:
    """exp(-alpha^2 / 2) - exp(-beta^2 / 2) for alpha <= beta, without cancellation."""
    xp = namespace(alpha)
    gap = (beta - alpha) * (beta + alpha) / 2
    up = gap >= 0
    zero = xp.zeros_like(gap)
    rising = -xp.exp(-(alpha**2) / 2) * xp.expm1(-xp.where(up, gap, zero))
    falling = xp.exp(-(beta**2) / 2) * xp.expm1(xp.where(up, zero, gap))
    return xp.where(up, rising, falling)


class MaternProfile(Profile):
    """A Matern kernel in one dimension, by the polynomials that go with e^-tau."""

    def __init__(
        self,
        lengthscale: Array,
        two_nu: int,
        *,
        value: Polynomial,
        slope: Polynomial,
        total: float,
        second: Polynomial,
    ) -> None:
        self.lengthscale = lengthscale
        self.rate = sqrt(two_nu) / lengthscale
        self.value, self.slope, self.second, self.total = value, slope, second, total / self.rate

    def interval(self, x: Array, a: Array, b: Array) -> tuple[Array, Array]:
        xp = namespace(x)
        zero, width = xp.zeros_like(x), b - a

        def inside(length: Array) -> Array:
            # unlike `clip`, this has at an end of the interval the mean of the gradients on both sides
            return xp.minimum(xp.maximum(length, zero), width)

        left = self._side(xp.maximum(x - b, zero), inside(x - a))
        right = self._side(xp.maximum(a - x, zero), inside(b - x))
        return (left[0] + right[0]) / width, (right[1] - left[1]) / width

    def _side(self, distance: Array, width: Array) -> tuple[Array, Array]:
        """Integrals of k and |k'| over distances [distance, distance + width]."""
        tau, omega = self.rate * distance, self.rate * width
        moments = _exponential_moments(omega)
        decay = namespace(tau).exp(-tau)
        value, slope = (
            decay * _shifted(polynomial, tau, omega, moments) for polynomial in (self.value, self.slope)
        )
        return value / self.rate, slope

    def gaussian(self, x: Array, mean: Array, sd: Array) -> tuple[Array, Array]:
        xp = namespace(x)
        sd = sd * xp.ones_like(x)
        right, left = (_tilted_moments(gap, sd, self.rate) for gap in (x - mean, mean - x))
        value = self._tilted(self.value, right, sd) + self._tilted(self.value, left, sd)
        slope = self._tilted(self.slope, left, sd) - self._tilted(self.slope, right, sd)
        return value, self.rate * slope

    def _tilted(self, polynomial: Polynomial, moments: tuple[Array, ...], sd: Array) -> Array:
        """E[polynomial(lambda D) e^(-lambda D); D > 0]."""
        scale = self.rate * sd
        return sum(c * scale**j * moments[j] for j, c in enumerate(polynomial) if c)

    def decaying(self, t: Array) -> Array:
        tau = self.rate * t
        polynomial = sum(c * tau**j for j, c in enumerate(self.second))
        return namespace(t).exp(-tau) * polynomial / self.rate**2


def matern_profile(kernel: Stationary, like: Array) -> MaternProfile:
    """Return the profile of a Matern kernel in the kind of ``like`` (D,)."""
    scale = column_lengthscale(kernel, like)
    if isinstance(kernel, Matern12):
        return MaternProfile(scale, 1, value=(1,), slope=(1,), total=1, second=(1,))
    if isinstance(kernel, Matern32):
        return MaternProfile(scale, 3, value=(1, 1), slope=(0, 1), total=2, second=(3, 1))
    assert isinstance(kernel, Matern52)  # the only other class it is called with
    third = 1 / 3
    return MaternProfile(
        scale,
        5,
        value=(1, 1, third),
        slope=(0, third, third),
        total=8 * third,
        second=(5, 7 * third, third),
    )


def _tilted_moments(mu: Array, sd: Array, rate: Array) -> tuple[Array, Array, Array]:
    """Return E[(D / sd)^j e^(-rate D); D > 0] for j = 0, 1, 2, D ~ N(mu, sd^2); see the module."""
    xp = namespace(mu)
    beta = rate * sd - mu / sd
    density = xp.exp(-((mu / sd) ** 2) / 2) / sqrt(2 * pi)
    negative = beta < 0
    zero = xp.zeros_like(beta)

    # for mu > rate sd^2 the exponent is below -rate mu / 2, and all terms are positive
    below = xp.where(negative, beta, zero)
    exponent = xp.where(negative, rate * (rate * sd**2 / 2 - mu), zero)
    m0 = xp.exp(exponent) * special(mu).ndtr(-below)
    m1 = density - below * m0
    near = (m0, m1, m0 - below * m1)

    far = _half_line_moments(xp.where(negative, zero, beta))
    m = [xp.where(negative, n, density * f) for n, f in zip(near, far, strict=True)]
    return m[0], m[1], m[2]


def _half_line_moments(beta: Array) -> tuple[Array, Array, Array]:
    """R_j(beta) for j = 0, 1, 2 and beta >= 0."""
    xp = namespace(beta)
    r0 = sqrt(pi / 2) * special(beta).erfcx(beta / sqrt(2))
    large = beta > 4
    small_beta = xp.where(large, xp.zeros_like(beta), beta)
    r1 = 1 - small_beta * r0
    r2 = r0 - small_beta * r1

    large_beta = xp.where(large, beta, xp.full_like(beta, 4.0))
    ratio = xp.zeros_like(beta)
    for j in range(30, 2, -1):
        ratio = j / (large_beta + ratio)
    ratio2 = 2 / (large_beta + ratio)
    ratio1 = 1 / (large_beta + ratio2)
    first = xp.where(large, ratio1 * r0, r1)
    return r0, first, xp.where(large, ratio1 * ratio2 * r0, r2)


def _exponential_moments(omega: Array) -> tuple[Array, Array, Array]:
    """J_i(omega) = int_0^1 s^i e^(-omega s) ds for i = 0, 1, 2 and omega >= 0.

    From omega = 1 on by i J_(i-1) - omega J_i = e^-omega upwards; below, J_2 by its power series
    and the same relation downwards. In these directions nothing cancels.
    """
    xp = namespace(omega)
    large, one = omega > 1, xp.ones_like(omega)
    high = xp.where(large, omega, one)
    decay = xp.exp(-high)
    up0 = (1 - decay) / high
    up1 = (up0 - decay) / high
    up2 = (2 * up1 - decay) / high

    low = xp.where(large, one, omega)
    decay = xp.exp(-low)
    term, down2 = one, one / 3
    for k in range(1, 19):  # 1 / 18! is below rounding
        term = -term * low / k
        down2 = down2 + term / (3 + k)
    down1 = (low * down2 + decay) / 2
    down0 = low * down1 + decay
    return (
        xp.where(large, up0, down0),
        xp.where(large, up1, down1),
        xp.where(large, up2, down2),
    )


def _shifted(polynomial: Polynomial, tau: Array, omega: Array, moments: tuple[Array, ...]) -> Array:
    """int_0^omega polynomial(tau + s) e^-s ds."""
    return sum(
        c * comb(j, i) * tau ** (j - i) * omega ** (i + 1) * moments[i]
        for j, c in enumerate(polynomial)
        if c
        for i in range(j + 1)
    )
