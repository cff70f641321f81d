"""A kernel in other coordinates, k(A (x - c), A (y - c)).

With a k that decreases away from the origin, such as `gp.kernels.Tilted` with a negative growth, it is a
prior of functions that vary near c alone, in the directions and on the scale of A. Its integrals against a
measure are those of k against the measure of A (x - c).
"""

from __future__ import annotations

from dataclasses import dataclass

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Derivatives, DiagonalDerivatives, DifferentiableKernel, OfKernel


@dataclass(frozen=True, eq=False)
class Mapped(OfKernel):
    """The kernel k(A (x - c), A (y - c)).

    Attributes
    ----------
    kernel : k. centre : c, (D,). matrix : A, (D, D). The last two are not fitted.
    """

    kernel: DifferentiableKernel
    centre: Array
    matrix: Array

    def forward(self, x: Array) -> Array:
        """Return A (x - c) for points x (n, D), (n, D)."""
        return (x - as_like(self.centre, x)) @ as_like(self.matrix, x).T

    def __call__(self, x: Array, y: Array) -> Array:
        return self.kernel(self.forward(x), self.forward(y))

    def diagonal(self, x: Array) -> Array:
        return self.kernel.diagonal(self.forward(x))

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        inner = self.kernel.derivatives(self.forward(x), self.forward(y))
        xp, a = namespace(x), as_like(self.matrix, x)
        return Derivatives(
            inner.k,
            xp.einsum("ndm,de->nem", inner.k_x, a),
            inner.k_y @ a,
            xp.einsum("ndmf,de,fg->nemg", inner.k_xy, a, a),
        )

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        inner, a = self.kernel.diagonal_derivatives(self.forward(x)), as_like(self.matrix, x)
        return DiagonalDerivatives(inner.k, inner.k_x @ a, inner.k_y @ a, a.T @ inner.k_xy @ a)
