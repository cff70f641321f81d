"""The periodic kernel (MacKay 1998; Rasmussen & Williams 2006, Eq. 4.31), one factor per dimension.

k(x, y) = variance * exp(-2 sum_d sin^2(pi (x_d - y_d) / period_d) / lengthscale_d^2).

It is the squared exponential of points wound around circles, u(x) = (cos, sin)(2 pi x / period) /
lengthscale, since |u(x) - u(y)|^2 = 4 sin^2(pi (x - y) / period) / lengthscale^2. The kernel is computed in
this form, and is therefore positive semi-definite in any dimension. The lengthscale has no unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Derivatives, Homogeneous, Pullback, of_columns, parameter
from gp.kernels.stationary import (
    contract_squared_differences,
    squared_distance,
)


@dataclass(frozen=True, eq=False)
class Periodic(Homogeneous):
    """Functions that repeat after ``period``.

    Attributes
    ----------
    lengthscale : a positive number or (D,), without a unit (1 is half a radius of the circle).
    period : a positive number or (D,), in the unit of the inputs.
    variance : a positive number, in squared output units.
    """

    lengthscale: Array = parameter(1.0, "shape")
    period: Array = parameter(1.0, "period", input_power=1)
    variance: Array = parameter(1.0, "variance", output_power=2)

    def __call__(self, x: Array, y: Array) -> Array:
        s = squared_distance(self._wound(x), self._wound(y))
        return as_like(self.variance, x) * namespace(x).exp(-0.5 * s)

    def _wound(self, x: Array) -> Array:
        """Return the points on their circles, (n, 2 D)."""
        xp = namespace(x)
        angle = 2 * pi / as_like(self.period, x) * x
        lengthscale = as_like(self.lengthscale, x)
        return xp.concat([xp.cos(angle) / lengthscale, xp.sin(angle) / lengthscale], axis=1)

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        k, wound = self(x, x), self._wound(x)
        dimension = x.shape[1]

        def pullback(weights: Array) -> Array:
            weighted = weights * k
            squares = contract_squared_differences(weighted, wound)
            lengthscale = squares[:dimension] + squares[dimension:]
            period = 2 * pi * _contract_winding(weighted, x, wound) / self.period
            return np.concatenate(
                [
                    lengthscale if np.size(self.lengthscale) > 1 else [lengthscale.sum()],
                    period if np.size(self.period) > 1 else [period.sum()],
                    [weighted.sum()],
                ]
            )

        return k, pullback

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        xp, k, one = namespace(x, y), self(x, y), namespace(x).ones_like(x[0, :])
        rate = (one * (2 * pi / as_like(self.period, x)))[:, None, None]
        inverse = (one / as_like(self.lengthscale, x) ** 2)[:, None, None]
        angle = rate * (x.T[:, :, None] - y.T[:, None, :])  # (D, n, m)
        slopes = -rate * inverse * xp.sin(angle)
        return of_columns(k, k, slopes, rate**2 * inverse * xp.cos(angle) - slopes**2)


def _contract_winding(weights: Array, x: Array, wound: Array) -> Any:
    """sum_ij W_ij (x_id - x_jd) sin(2 pi (x_id - x_jd) / period_d) / lengthscale_d^2, (D,)."""
    x = x - x.mean(axis=0)
    cosine, sine = wound[:, : x.shape[1]], wound[:, x.shape[1] :]
    product = x * sine * (weights @ cosine) - x * cosine * (weights @ sine)
    return 2 * product.sum(axis=0)
