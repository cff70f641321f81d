"""The white kernel: an independent value at every point.

k(x, y) = variance if x = y, else 0.

It is a function of the *point*: two observations at one point share its value. Noise that differs
between observations at one point is not a kernel; give it as ``noise`` to the Gaussian process, also where
derivatives are observed or predicted, which these functions do not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Homogeneous, Pullback, parameter
from gp.kernels.stationary import squared_distance


@dataclass(frozen=True, eq=False)
class White(Homogeneous):
    """variance where the points are equal; variance a positive number in squared output units."""

    variance: Array = parameter(1.0, "noise", output_power=2)

    def __call__(self, x: Array, y: Array) -> Array:
        same = squared_distance(x, y) == 0
        return as_like(self.variance, x) * namespace(x).astype(same, x.dtype)

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        k = self(x, x)
        return k, lambda weights: np.atleast_1d(np.vdot(weights, k))
