"""The squared exponential kernel (thesis Eq. 7.4; Rasmussen & Williams 2006, Eq. 4.9).

k(x, y) = variance * exp(-s / 2),   s = sum_d (x_d - y_d)^2 / lengthscale_d^2.

Its functions are infinitely differentiable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import Array, is_torch, namespace
from gp.kernels.stationary import Stationary


@dataclass(frozen=True, eq=False)
class SquaredExponential(Stationary):
    """variance * exp(-s / 2); lengthscale a number or (D,), variance a number."""

    def profile(self, s: Array) -> Array:
        half = -0.5 * s
        return namespace(s).exp(half) if is_torch(half) else np.exp(half, out=half)

    def slope(self, s: Array) -> Array:
        return -0.5 * self.profile(s)

    def slope_given(self, s: Array, k: Array) -> Array:
        """Return -k / 2."""
        return -0.5 * k

    def curvature(self, s: Array) -> Array:
        return 0.25 * self.profile(s)
