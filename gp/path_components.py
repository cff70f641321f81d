"""The terms of a random function that is drawn from a kernel.

    Plane   a linear function, drawn exactly
    CosineSum   a sum of random cosines, each of which may be multiplied by random linear functions
    Noise   an independent value at each point, times a standard deviation that may depend on it

All three can be evaluated at any points, any number of times, with the same value at the same point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from scipy.special import ndtri

from gp.arrays import Array, as_like, namespace, to_numpy
from gp.kernels.base import Kernel


@dataclass(frozen=True, eq=False)
class Plane:
    """intercept + slope . x; slope (D,)."""

    intercept: Array
    slope: Array

    def __call__(self, x: Array) -> Array:
        return x @ self.slope + self.intercept

    def gradient(self, x: Array) -> Array:
        return namespace(x).ones_like(x) * self.slope


@dataclass(frozen=True, eq=False)
class Planes:
    """F linear functions, intercept_j + slope_j . x; slopes (F, D), intercepts (F,)."""

    intercepts: Array
    slopes: Array

    def __call__(self, x: Array) -> Array:
        return x @ self.slopes.T + self.intercepts


@dataclass(frozen=True, eq=False)
class CosineSum:
    """sum_j amplitude_j cos(frequency_j . x + phase_j) prod_l plane_lj(x).

    Attributes
    ----------
    frequencies : (F, D). phases, amplitudes : (F,). planes : of F functions each; there may be none.
    """

    frequencies: Array
    phases: Array
    amplitudes: Array
    planes: tuple[Planes, ...] = ()

    def __call__(self, x: Array) -> Array:
        waves = namespace(x).cos(self._angle(x))
        return prod((plane(x) for plane in self.planes), start=waves) @ self.amplitudes

    def gradient(self, x: Array) -> Array:
        xp, angle = namespace(x), self._angle(x)
        factors = [xp.cos(angle), *(plane(x) for plane in self.planes)]
        slope = (-xp.sin(angle) * self._without(0, factors)) @ self.frequencies
        for place, plane in enumerate(self.planes, start=1):
            slope = slope + self._without(place, factors) @ plane.slopes
        return slope

    def _angle(self, x: Array) -> Array:
        return x @ self.frequencies.T + self.phases

    def _without(self, place: int, factors: Sequence[Array]) -> Array:
        """Return the amplitudes times all factors but one, (F,) or (m, F)."""
        return prod((*factors[:place], *factors[place + 1 :]), start=self.amplitudes)


@dataclass(frozen=True, eq=False)
class Noise:
    """sd(x) e(x), e(x) a standard normal number for each point, independent of those of all others.

    e(x) is computed from the digits of the point and a key by a pseudorandom function (the finaliser of
    SplitMix64; Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators", Sec. 4.1), as
    numbers cannot be stored for all points. The same point has the same number in single and in double
    precision.

    Attributes
    ----------
    key : a whole number. columns : the columns of x of which e is a function.
    factors : kernels and their columns, whose product at (x, x) is sd^2.
    """

    key: int
    columns: tuple[int, ...]
    factors: tuple[tuple[Kernel, tuple[int, ...]], ...]

    def __call__(self, x: Array) -> Array:
        variance = prod(kernel.diagonal(x[:, list(columns)]) for kernel, columns in self.factors)
        normal = _standard_normal_of(to_numpy(x)[:, list(self.columns)], self.key)
        return namespace(x).sqrt(variance) * as_like(normal, x)

    def gradient(self, x: Array) -> Array:
        raise TypeError("White has no derivatives: its paths are continuous nowhere")


def _standard_normal_of(x: Array, key: int) -> Any:
    """Return a standard normal number for each point x (m, D), (m,): equal points have equal numbers."""
    bits = (np.asarray(x, dtype=np.float64) + 0.0).view(np.uint64)  # adding 0 makes minus zero zero
    hashed = np.full(len(bits), key, dtype=np.uint64)
    for column in bits.T:
        hashed = _mixed((hashed ^ column) + _GOLDEN)
    uniform = ((hashed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return ndtri(uniform)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, the increment of SplitMix64 (Steele, Lea and Flood, 2014)."""


def _mixed(bits: Array) -> Any:
    """Return a bijection of 64 bits in which each bit depends on every given bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
