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
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from gp.arrays import Array, as_like, namespace, special
from gp.kernels import Anova, Stationary

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
