"""Functions that grow in the tails of a Gaussian measure, such as the quotient of two densities.

A stationary process varies by as much at four standard deviations as at the centre. The quotient p/q of a
density and a proposal with lighter tails does not: it grows, at worst like the reciprocal of q, where
there are no nodes. As a function of standard coordinates u it is in place to say

    f(u) = a(u) g(u),     a(u) = exp(beta |u|^2 / 2),     g stationary,

so that f has the covariance a(u) k(u, u') a(u'). Against a Gaussian its integrals are those of k against
a wider one, for a(u) N(u; m, S) is

    C N(u; m', S'),   S'^-1 = S^-1 - beta I,   m' = S' S^-1 m,
    C = (|S'| / |S|)^(1/2) exp((m'^T S'^-1 m' - m^T S^-1 m) / 2),

and importance sampling from N(m', S') instead of N(m, S) is the same idea with other weights. The variance
of f is finite for beta < 1/2, its mean for beta < 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gp.arrays import Array, namespace
from gp.embeddings import embed, embedding
from gp.embeddings.registry import Formulas
from gp.kernels import Derivatives, DiagonalDerivatives, DifferentiableKernel
from gp.kernels.base import Parameter, Pullback
from gp.measures import Gaussian, GaussianMixture, Measure


@dataclass(frozen=True, eq=False)
class Growing:
    """The kernel a(u) k(u, u') a(u'); ``growth`` is beta."""

    kernel: DifferentiableKernel
    growth: float

    def factor(self, x: Array) -> Array:
        """Return a, (n,)."""
        xp = namespace(x)
        return xp.exp(self.growth * xp.sum(x**2, axis=1) / 2)

    def __call__(self, x: Array, y: Array) -> Array:
        """Return a(x_i) k(x_i, y_j) a(y_j), (n, m)."""
        return self.factor(x)[:, None] * self.kernel(x, y) * self.factor(y)

    def diagonal(self, x: Array) -> Array:
        """Return a(x_i)^2 k(x_i, x_i), (n,)."""
        return self.factor(x) ** 2 * self.kernel.diagonal(x)

    def parameters(self) -> tuple[Parameter, ...]:
        """Those of k."""
        return self.kernel.parameters()

    def with_parameters(self, values: Sequence[Array]) -> Growing:
        """Return a copy with other parameters of k."""
        return Growing(self.kernel.with_parameters(values), self.growth)

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return the Gram matrix and its pull-back, which is that of k with other weights."""
        gram, pullback = self.kernel.with_pullback(x)
        a = self.factor(x)
        both = a[:, None] * a
        return both * gram, lambda weights: pullback(both * weights)

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Return k with its derivatives: da/dx = beta x a, by the rule of products."""
        inner = self.kernel.derivatives(x, y)
        both = self.factor(x)[:, None] * self.factor(y)
        u, v = self.growth * x[:, :, None], self.growth * y[None, :, :]
        k_x, k_y = inner.k_x + u * inner.k[:, None, :], inner.k_y + v * inner.k[:, :, None]
        k_xy = inner.k_xy + u[..., None] * inner.k_y[:, None, :, :] + k_x[..., None] * v[:, None, :, :]
        return Derivatives(
            both * inner.k, both[:, None, :] * k_x, both[:, :, None] * k_y, both[:, None, :, None] * k_xy
        )

    def diagonal_derivatives(self, x: Array) -> DiagonalDerivatives:
        """Return the same at equal points."""
        inner = self.kernel.diagonal_derivatives(x)
        both, u = self.factor(x)[:, None] ** 2, self.growth * x
        k_x, k_y = inner.k_x + u * inner.k[:, None], inner.k_y + u * inner.k[:, None]
        k_xy = inner.k_xy + u[:, :, None] * inner.k_y[:, None, :] + k_x[:, :, None] * u[:, None, :]
        return DiagonalDerivatives(both[:, 0] * inner.k, both * k_x, both * k_y, both[:, :, None] * k_xy)


def tilted(measure: Measure, growth: float) -> tuple[Any, Measure]:
    """Return C, (), and the normalised measure of a(u) times a Gaussian or a mixture of them.

    Raises
    ------
    ValueError
        A component is so wide that the integral diverges.
    """
    components = measure.components if isinstance(measure, GaussianMixture) else (measure,)
    found = [_tilted_gaussian(part, growth) for part in components]
    if not isinstance(measure, GaussianMixture):
        return found[0]
    weights = measure.weights * np.array([constant for constant, _ in found])
    total = weights.sum()
    means = np.stack([part.mean for _, part in found])
    return total, GaussianMixture(weights / total, means, np.stack([part.covariance for _, part in found]))


def _tilted_gaussian(measure: Measure, growth: float) -> tuple[Any, Gaussian]:
    assert isinstance(measure, Gaussian)  # and so are the components of a mixture
    precision = np.linalg.inv(measure.covariance)
    smaller = precision - growth * np.eye(measure.dimension)
    values = np.linalg.eigvalsh(smaller)
    if values.min() <= 0:
        raise ValueError(f"growth is {growth}; the integral is finite below {growth + values.min():.4g}")
    covariance = np.linalg.inv(smaller)
    mean = covariance @ precision @ measure.mean
    log = 0.5 * (np.linalg.slogdet(precision)[1] - np.sum(np.log(values)))
    log += 0.5 * (mean @ smaller @ mean - measure.mean @ precision @ measure.mean)
    return np.exp(log), Gaussian(mean, (covariance + covariance.T) / 2)


@embedding(Growing, Gaussian)
@embedding(Growing, GaussianMixture)
def growing_kernel(kernel: Growing, measure: Gaussian | GaussianMixture) -> Formulas:
    """Return the integrals of k against the tilted measure. NumPy."""
    constant, wider = tilted(measure, kernel.growth)
    inner = embed(kernel.kernel, wider)

    def cross(other: Measure) -> Array:
        more, also_wider = (constant, wider) if other is measure else tilted(other, kernel.growth)
        return constant * more * inner.double(also_wider)

    def mean_gradient(x: Array) -> Array:
        slope = kernel.growth * x * inner.mean(x)[:, None] + inner.mean_gradient(x)
        return constant * kernel.factor(x)[:, None] * slope

    return Formulas(
        mean=lambda x: constant * kernel.factor(x) * inner.mean(x), cross=cross, mean_gradient=mean_gradient
    )
