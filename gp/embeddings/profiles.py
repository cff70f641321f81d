"""One-dimensional integrals of a stationary kernel k(t), t = x - y, with k(0) = 1.

An embedding of a product over columns consists of integrals of a `Profile` for each column d, as arrays
(..., D).

For every stationary kernel two identities are used. The difference of two independent Gaussians is Gaussian,
so a double integral between Gaussians is ``gaussian`` with the variances added. And with K'' = k, the
double integral over two intervals is the second difference K(b-c) - K(a-c) - K(b-d) + K(a-d);
taking K(t) = kappa |t| + h(|t|) with kappa = int_0^inf k and h decaying, its first part is 2 kappa
times the length of the overlap, and the rest is computed without cancellation of large numbers.

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
from gp.kernels import Anova, Matern12, Matern32, Matern52, Stationary

Polynomial = tuple[float, ...]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


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
