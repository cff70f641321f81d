"""The kernel of a process on the gradient of the log joint, and its integrals under a Gaussian.

    k(u, u') = s^2 (exp(-|b - b'|^2 / 2) + b0 + b1 u . u' + b2 l^4 b^T Q' b / 2),        b = B u / l,

where B^T B = M has the directions along which y is nonlinear (`observation_noise`), l is the lengthscale, and
b2 is the weight of a quadratic term of long range, for the skewness of the posterior, which the exponential
alone does not extrapolate. With Q = b b^T + |b|^2 I / 2 the term is (b . b')^2 / 2 + |b|^2 |b'|^2 / 4: for a
sum of functions of projections a . b, as of a regression, third derivatives are sums of a a a^T, and with a ~
N(0, I) the covariance of (a . b)^2 and (a . b')^2 is proportional to 2 (b . b')^2 + |b|^2 |b'|^2 (Isserlis).

Under q = N(m, R R^T), with e = R^-1 (u - m) standardised, c = B m / l, T = B R / l, A = I + T T^T,
a_n = A^-1 (b_n - c) and z_n = |A|^(-1/2) exp(-(b_n - c)^T a_n / 2), the covariances / s^2 of y(u_n) with the
functionals are

    E[y]     z_n + b0 + b1 u_n . m + b2 l^4 tr(S Q_n) / 2
    E[y e]   T^T (z_n a_n + b2 l^4 Q_n c) + b1 R^T u_n

and those of the functionals with one another, for A_2 = I + 2 T T^T, S = T T^T + c c^T, U = S + tr S I / 2,

    E[y], E[y]       |A_2|^(-1/2) + b0 + b1 |m|^2 + b2 l^4 tr(S U) / 2
    E[y], E[y e]     b1 R^T m + b2 l^4 T^T U c
    E[y e], E[y e]   |A_2|^(-1/2) T^T A_2^-1 T + b1 R^T R + b2 l^4 T^T (2 c c^T + |c|^2 I) T
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bqvi.gradients.observation_noise import Directions
from bqvi.gradients.whitened import WhitenedFrame
from gp.conditioning.conditioned import Places
from gp.expectation import KernelMeans


@dataclass(frozen=True, eq=False)
class SeparableKernel:
    """k / s^2, a `gp.conditioning.conditioned.BlockKernel` of D outputs."""

    lengthscale: float
    """l."""
    constant_variance: float
    """b0."""
    linear: float
    """b1."""
    quadratic: float = 0.0
    """b2."""
    directions: Directions | None = None
    """The directions of M; None for M = I."""

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """B u of (m, D) points, the units in which M is I."""
        return points if self.directions is None else self.directions.scaled(points)

    def at(self, points: np.ndarray) -> Places:
        """The record of (m, D) points from which covariances are computed."""
        return Places.of(points, self.scaled(points) / self.lengthscale)

    def constant(self, points: np.ndarray) -> None:
        """None, as the mean of y is known."""

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """K / s^2 between m and n points, (m, n)."""
        kernel, inner = left.exponential(right)
        kernel += self.constant_variance
        kernel += (self.linear * left.points) @ right.points.T
        if self.quadratic != 0.0:
            inner *= inner
            inner += 2.0 * np.multiply.outer(left.halved, right.halved)
            inner *= 0.5 * self.quadratic * self.lengthscale**4
            kernel += inner
        return kernel

    def variances(self, places: Places) -> np.ndarray:
        """The diagonal of ``covariance`` of m points with themselves, (m,)."""
        bending = 3.0 * self.quadratic * self.lengthscale**4 * np.square(places.halved)
        squares = np.einsum("nd,nd->n", places.points, places.points)
        return 1.0 + self.constant_variance + self.linear * squares + bending

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """``covariance`` between (m, D) and (n, D) points, (m, n)."""
        return self.covariance(self.at(left), self.at(right))


@dataclass(frozen=True, eq=False)
class SeparableFunctionals:
    """E[y] and E[y e] of one output under q = N(m, R R^T), e = R^-1 (u - m): 1 + D of them."""

    kernel: SeparableKernel
    q: WhitenedFrame
    """q in the units of u."""

    @cached_property
    def centre(self) -> np.ndarray:
        """c, (D,)."""
        return self.kernel.scaled(self.q.mean[None])[0] / self.kernel.lengthscale

    @cached_property
    def root(self) -> np.ndarray:
        """The matrix T, (D, D)."""
        return np.ascontiguousarray(self.kernel.scaled(self.q.scale.T).T) / self.kernel.lengthscale

    @cached_property
    def _spread(self) -> np.ndarray:
        """T T^T, (D, D)."""
        return np.asarray(self.root @ self.root.T)

    @cached_property
    def _bending(self) -> float:
        """b2, for inner products of points divided by l."""
        return self.kernel.quadratic * self.kernel.lengthscale**4

    def covariances(self, places: Places) -> np.ndarray:
        """Prior covariances / s^2 with y at m places, (m, 1 + D)."""
        kernel = self.kernel
        bumps = KernelMeans.of(places.scaled, 1.0, self.centre, self._spread)
        projected, along = places.scaled @ self.root, places.scaled @ self.centre
        bending = np.einsum("nd,nd->n", projected, projected)
        bending += along * along
        bending += places.halved * (np.trace(self._spread) + self.centre @ self.centre)
        found = np.empty((len(projected), 1 + projected.shape[1]))
        found[:, 0] = bumps.z + (0.5 * self._bending) * bending + kernel.constant_variance
        found[:, 0] += places.points @ (kernel.linear * self.q.mean)
        slopes = bumps.a @ self.root
        slopes *= bumps.z[:, None]
        projected *= along[:, None]
        projected += np.multiply.outer(places.halved, self.centre @ self.root)
        slopes += self._bending * projected
        slopes += places.points @ (kernel.linear * self.q.scale)
        found[:, 1:] = slopes
        return found

    @cached_property
    def prior(self) -> np.ndarray:
        """Prior covariance / s^2 of the functionals, (1 + D, 1 + D)."""
        kernel, q, c, root, d = self.kernel, self.q, self.centre, self.root, len(self.centre)
        spread, steep, shift, size = self._spread, root.T @ root, c @ root, float(c @ c)
        mean = float(np.trace(spread)) + size
        bending = 0.5 * float(np.vdot(spread, spread)) + float(shift @ shift)
        bending += 0.5 * size**2 + 0.25 * mean**2
        twice = KernelMeans.of(c[None], 1.0, c, 2.0 * spread)
        double = float(twice.z[0])
        found = np.empty((1 + d, 1 + d))
        found[0, 0] = (
            double
            + kernel.constant_variance
            + kernel.linear * float(q.mean @ q.mean)
            + self._bending * bending
        )
        found[0, 1:] = found[1:, 0] = (kernel.linear * q.mean) @ q.scale + self._bending * (
            shift @ steep + (size + 0.5 * mean) * shift
        )
        found[1:, 1:] = double * root.T @ twice.precision @ root + kernel.linear * q.scale.T @ q.scale
        found[1:, 1:] += self._bending * (2.0 * shift[:, None] * shift + size * steep)
        return found
