"""The rational quadratic kernel (Rasmussen & Williams 2006, Eq. 4.19).

k(x, y) = variance * (1 + s / (2 alpha))^(-alpha): squared exponentials mixed over a Gamma
distribution of inverse squared lengthscales. alpha -> infinity gives the squared exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Parameter, Pullback, parameter
from gp.kernels.stationary import Stationary


@dataclass(frozen=True, eq=False)
class RationalQuadratic(Stationary):
    """variance * (1 + s / (2 alpha))^(-alpha); alpha a positive number without a unit."""

    alpha: Array = parameter(1.0, "shape")

    def profile(self, s: Array) -> Array:
        return self._power(s, 0)

    def slope(self, s: Array) -> Array:
        return -0.5 * self._power(s, 1)

    def slope_given(self, s: Array, k: Array) -> Array:
        """Return -k / (2 b)."""
        return -0.5 * k / (1 + s / (2 * as_like(self.alpha, s)))

    def curvature(self, s: Array) -> Array:
        return 0.25 * (1 + 1 / as_like(self.alpha, s)) * self._power(s, 2)

    def _power(self, s: Array, order: int) -> Array:
        """b^(-alpha - order), through the logarithm so that a large alpha loses no digits."""
        xp, alpha = namespace(s), as_like(self.alpha, s)
        return xp.exp(-(alpha + order) * xp.log1p(s / (2 * alpha)))

    def parameters(self) -> tuple[Parameter, ...]:
        lengthscale, variance, alpha = super().parameters()
        return lengthscale, alpha, variance

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return super().with_parameters((values[0], values[2], values[1]))

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        k, stationary = super().with_pullback(x)
        half = self.squared_distance(x, x) / 2

        def pullback(weights: Array) -> Array:
            excess = half / (self.alpha + half) - np.log1p(half / self.alpha)
            alpha = self.alpha * np.vdot(weights, k * excess)
            others = stationary(weights)
            return np.concatenate([others[:-1], [float(alpha)], others[-1:]])

        return k, pullback
