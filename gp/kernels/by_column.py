"""Products over columns of one stationary kernel of a single column.

    k(x, y) = variance prod_d phi(s_d),     s_d = (x_d - y_d)^2 / l_d^2,

with phi the profile of ``kernel`` (:mod:`gp.kernels.stationary`). For a squared exponential this is the
kernel itself; of a Matern kernel the product has closed integrals wherever columns are independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Derivatives, DiagonalDerivatives, OfKernel, Pullback, differentiable, of_columns
from gp.kernels.stationary import Stationary


@dataclass(frozen=True, eq=False)
class ByColumn(OfKernel):
    """The product over columns.

    Attributes
    ----------
    kernel : with the profile phi, the variance, and the lengthscales: one, or (D,).
    """

    kernel: Stationary

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Stationary):
            raise TypeError(f"kernel = {self.kernel!r}: give a stationary kernel, such as Matern32")

    def _squares(self, x: Array, y: Array) -> Array:
        """Return s_d between x (n, D) and y (m, D), (D, n, m)."""
        self.kernel.check_dimension(x)
        lengthscale = as_like(self.kernel.lengthscale, x)
        return ((x / lengthscale).T[:, :, None] - (y / lengthscale).T[:, None, :]) ** 2

    def __call__(self, x: Array, y: Array) -> Array:
        factors = self.kernel.profile(self._squares(x, y))
        return as_like(self.kernel.variance, x) * namespace(x, y).prod(factors, axis=0)

    def log_slopes(self, x: Array, y: Array) -> Array:
        """Return dlog k / dx_d between x (n, D) and y (m, D), (D, n, m); zero where the points coincide."""
        s = self._squares(x, y)
        differences = (x.T[:, :, None] - y.T[:, None, :]) * self._inverse(x)[:, None, None] ** 2
        return 2 * self.kernel.slope(s) * differences / _positive(self.kernel.profile(s))

    def diagonal(self, x: Array) -> Array:
        return self.kernel.diagonal(x)

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        s = self._squares(x, x)
        k = self(x, x)

        def pullback(weights: Array) -> Array:
            slopes = -2 * s * self.kernel.slope(s) / _positive(self.kernel.profile(s))  # dlog phi / dlog l
            lengthscale = np.einsum("dij,ij->d", slopes, weights * k)
            if np.size(self.kernel.lengthscale) == 1:
                lengthscale = lengthscale.sum(keepdims=True)
            return np.append(lengthscale, np.vdot(weights, k))

        return k, pullback

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        xp = namespace(x, y)
        s, variance = self._squares(x, y), as_like(self.kernel.variance, x)
        inverse = self._inverse(x)[:, None, None]
        differentiable(self.kernel)
        factors = _positive(self.kernel.profile(s))
        k = variance * xp.prod(factors, axis=0)
        ratio = self.log_slopes(x, y)
        steep = (x.T[:, :, None] - y.T[:, None, :]) * inverse**2  # half of ds/dx
        own = -(2 * self.kernel.slope(s) * inverse**2 + 4 * self.kernel.curvature(s) * steep**2) / factors
        return of_columns(k, k, ratio, own)

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        return differentiable(self.kernel).diagonal_derivatives(x)

    def _inverse(self, x: Array) -> Array:
        return namespace(x).ones_like(x[0, :]) / as_like(self.kernel.lengthscale, x)


def _positive(factors: Array) -> Array:
    """Return the factors, which underflow for distant points, raised to a positive number."""
    return namespace(factors).clip(factors, 1e-300, None)
