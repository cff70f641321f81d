"""The uniform measure on a box [lower_1, upper_1] x ... x [lower_D, upper_D].

Standard coordinates centre the box and divide by (upper - lower) / sqrt(12), which gives [-sqrt 3, sqrt 3]^D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from gp import checks
from gp.arrays import Array, as_like, namespace, to_numpy
from gp.kernels.stationary import diagonal_matrix
from gp.measures.base import AffineMap, Seed, Standardised


class UniformParameters(NamedTuple):
    """Lower and upper corner of a box, (..., D) each, or gradients in them."""

    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Uniform:
    """Uniform on the box between ``lower`` and ``upper``: the probability measure, whose total mass is 1.

    An integral against it is the mean of f over the box. The integral over the box, int f(x) dx, is that mean
    times the box's volume, ``np.prod(measure.width)``.

    Attributes
    ----------
    lower, upper : (D,), lower < upper in every coordinate; numbers are allowed for D = 1, ``Uniform(0.0,
        1.0)``.

    Raises
    ------
    ValueError
        where shapes disagree, an entry is NaN or infinite, or lower >= upper somewhere.
    """

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        lower, upper = checks.common_arrays(lower=self.lower, upper=self.upper)
        if not lower.shape and not upper.shape:
            lower, upper = lower[None], upper[None]
        checks.require_shape("lower", lower, ("D",))
        checks.require_shape("upper", upper, (lower.shape[0],))
        wrong = np.flatnonzero(to_numpy(lower) >= to_numpy(upper)).tolist()
        if wrong:
            raise ValueError(f"lower >= upper in coordinates {wrong}: give lower < upper, or set it within f")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def dimension(self) -> int:
        return int(self.lower.shape[0])

    @property
    def width(self) -> Array:
        """Lengths of the sides, (D,)."""
        return self.upper - self.lower

    @property
    def mean(self) -> Array:
        return self.lower + self.width / 2

    @property
    def covariance(self) -> Array:
        return diagonal_matrix(self.width**2 / 12)

    def parameters(self) -> UniformParameters:
        return UniformParameters(self.lower, self.upper)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return type(self)(*values)

    def sample(self, n: int, seed: Seed) -> Array:
        checks.require_integer("n", n, 1)
        u = np.random.default_rng(seed).random((n, self.dimension))
        return self.from_unit_cube(as_like(u, self.lower))

    def log_density(self, x: Array) -> Array:
        checks.require_shape("x", x, ("n", self.dimension))
        xp = namespace(x)
        lower, upper = as_like(self.lower, x), as_like(self.upper, x)
        inside = xp.all((x >= lower) & (x <= upper), axis=1)
        height = -xp.sum(xp.log(upper - lower)) * xp.ones_like(x[:, 0])
        return xp.where(inside, height, xp.full_like(height, -xp.inf))

    def from_unit_cube(self, u: Array) -> Array:
        checks.require_cube(u, self.dimension)
        return as_like(self.lower, u) * (1 - u) + as_like(self.upper, u) * u

    def marginal(self, columns: Sequence[int]) -> Uniform:
        index = list(columns)
        return Uniform(self.lower[index], self.upper[index])

    def standardise(self) -> Standardised:
        one = namespace(self.lower).ones_like(self.lower)
        to_x = AffineMap(self.mean, diagonal_matrix(self.width / sqrt(12)))
        return Standardised(Uniform(-sqrt(3) * one, sqrt(3) * one), to_x)
