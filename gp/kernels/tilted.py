"""Tilted kernels, for functions that grow in the tails of a Gaussian measure: a quotient of densities.

The quotient p/q of a density and a proposal with lighter tails grows in the tails, at most like the
reciprocal of q, where there are no nodes. A prior of this quotient in standard coordinates u is

    f(u) = a(u) g(u),     a(u) = exp(beta |u|^2 / 2),     g stationary,

so that f has the covariance a(u) k(u, u') a(u'). Its variance under N(0, I) is finite for beta < 1/2, its
mean for beta < 1. Its integrals are those of k against a wider Gaussian (:mod:`gp.embeddings.tilted`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gp.arrays import Array, namespace
from gp.kernels.base import Derivatives, DiagonalDerivatives, DifferentiableKernel, OfKernel


@dataclass(frozen=True, eq=False)
class Tilted(OfKernel):
    """The kernel a(u) k(u, u') a(u').

    Attributes
    ----------
    kernel : k. growth : beta, a number that is not fitted.
    """

    kernel: DifferentiableKernel
    growth: float

    def factor(self, x: Array) -> Array:
        """Return a at points x (n, D), (n,)."""
        xp = namespace(x)
        return xp.exp(self.growth * xp.sum(x**2, axis=1) / 2)

    def __call__(self, x: Array, y: Array) -> Array:
        return self.factor(x)[:, None] * self.kernel(x, y) * self.factor(y)

    def diagonal(self, x: Array) -> Array:
        return self.factor(x) ** 2 * self.kernel.diagonal(x)

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        inner = self.kernel.derivatives(x, y)
        both = self.factor(x)[:, None] * self.factor(y)
        u, v = self.growth * x[:, :, None], self.growth * y[None, :, :]
        k_x, k_y = inner.k_x + u * inner.k[:, None, :], inner.k_y + v * inner.k[:, :, None]
        k_xy = inner.k_xy + u[..., None] * inner.k_y[:, None, :, :] + k_x[..., None] * v[:, None, :, :]
        return Derivatives(
            both * inner.k, both[:, None, :] * k_x, both[:, :, None] * k_y, both[:, None, :, None] * k_xy
        )

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        inner = self.kernel.diagonal_derivatives(x)
        both, u = self.factor(x)[:, None] ** 2, self.growth * x
        k_x, k_y = inner.k_x + u * inner.k[:, None], inner.k_y + u * inner.k[:, None]
        k_xy = inner.k_xy + u[:, :, None] * inner.k_y[:, None, :] + k_x[:, :, None] * u[:, None, :]
        return DiagonalDerivatives(both[:, 0] * inner.k, both * k_x, both * k_y, both[:, :, None] * k_xy)
