"""The Matern kernels of half-integer order (Rasmussen & Williams 2006, Eq. 4.17).

With r = sqrt(s), s = sum_d (x_d - y_d)^2 / lengthscale_d^2, and a = r sqrt(2 nu):

    nu = 1/2    variance * exp(-a)                      continuous functions
    nu = 3/2    variance * (1 + a) exp(-a)              once differentiable
    nu = 5/2    variance * (1 + a + a^2 / 3) exp(-a)    twice differentiable

The slopes and curvatures are those of the profile as a function of s (da/ds = nu / a). The slope of
nu = 1/2 and the curvature of nu = 3/2 are unbounded at s = 0, where they only ever multiply
squared differences that vanish faster; they are taken as zero there.
"""

from __future__ import annotations

from dataclasses import dataclass

from gp.arrays import Array, namespace
from gp.kernels.stationary import Stationary, safe_sqrt


@dataclass(frozen=True, eq=False)
class Matern12(Stationary):
    """variance * exp(-r): the Ornstein-Uhlenbeck process in one dimension."""

    def profile(self, s: Array) -> Array:
        return namespace(s).exp(-safe_sqrt(s))

    def slope(self, s: Array) -> Array:
        a = safe_sqrt(s)
        return _zero_at_origin(-namespace(s).exp(-a) / (2 * a), s)

    def curvature(self, s: Array) -> Array:
        a = safe_sqrt(s)
        return _zero_at_origin(namespace(s).exp(-a) * (1 + a) / (4 * a**3), s)

    derivatives = None  # type: ignore[assignment]  # the functions are continuous only
    diagonal_derivatives = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Matern32(Stationary):
    """variance * (1 + a) exp(-a), a = sqrt(3) r."""

    def profile(self, s: Array) -> Array:
        a = safe_sqrt(3 * s)
        return (1 + a) * namespace(s).exp(-a)

    def slope(self, s: Array) -> Array:
        return -1.5 * namespace(s).exp(-safe_sqrt(3 * s))

    def curvature(self, s: Array) -> Array:
        a = safe_sqrt(3 * s)
        return _zero_at_origin(2.25 * namespace(s).exp(-a) / a, s)


@dataclass(frozen=True, eq=False)
class Matern52(Stationary):
    """variance * (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r."""

    def profile(self, s: Array) -> Array:
        a = safe_sqrt(5 * s)
        return (1 + a + 5 / 3 * s) * namespace(s).exp(-a)

    def slope(self, s: Array) -> Array:
        a = safe_sqrt(5 * s)
        return -5 / 6 * (1 + a) * namespace(s).exp(-a)

    def curvature(self, s: Array) -> Array:
        return 25 / 12 * namespace(s).exp(-safe_sqrt(5 * s))


def _zero_at_origin(values: Array, s: Array) -> Array:
    xp = namespace(s)
    return xp.where(s > 0, values, xp.zeros_like(values))
