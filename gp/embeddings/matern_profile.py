"""The Matern kernels of order 1/2, 3/2 and 5/2 in one dimension.

k(t) = e^-tau c(tau),  tau = lambda |t|,  lambda = sqrt(2 nu) / lengthscale, with c a polynomial. Its
derivative and its repeated integrals have the same form, each e^-tau times a polynomial:

    |k'| = lambda e^-tau slope(tau)
    h(t) = int_t^inf int_s^inf k(r) dr ds = e^-tau second(tau) / lambda^2,    int_0^inf k = total / lambda

*Over an interval.* The part of [a, b] on one side of x is [u, u + w] in distance. With
J_i(omega) = int_0^1 s^i e^(-omega s) ds, omega = lambda w, v = lambda u,

    int_u^(u+w) k = e^-v / lambda sum_j c_j sum_i binom(j, i) v^(j-i) omega^(i+1) J_i,

a sum of positive terms, exact to rounding however short or far the interval is.

*Over a Gaussian.* With D = x - Y ~ N(mu, s^2), beta = lambda s - mu / s and

    M_j = E[(D / s)^j e^(-lambda D); D > 0] = phi(mu / s) R_j(beta),
    R_j(beta) = int_0^inf t^j e^(-beta t - t^2 / 2) dt,

one side of zero contributes sum_j c_j (lambda s)^j M_j. R_0 = sqrt(pi/2) erfcx(beta / sqrt 2), and
R_(j+1) = j R_(j-1) - beta R_j. As that recursion loses digits like beta^2j for large beta, from beta = 4 on
the ratios R_j / R_(j-1) come from its continued fraction r_j = j / (beta + r_(j+1)), to 1e-13.
"""

from __future__ import annotations

from math import comb, pi, sqrt

from gp.arrays import Array, namespace, special
from gp.embeddings.profiles import Profile, column_lengthscale
from gp.kernels import Matern12, Matern32, Matern52, Stationary

Polynomial = tuple[float, ...]


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
