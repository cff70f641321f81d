"""The kernel of a process on the gradient of the log joint, and its integrals under a Gaussian.

    k(u, u') = s^2 (exp(-|b - b'|^2 / (2 l^2)) + b0 + b1 u . u' + b2 (b . b')^2 / 2),        b = B u,

B^T B = M (`directions`) says along which directions y bends, and b2 is the slow bending that a bump of the
lengthscale of the fast one would forget between the points: the skewness of q's posterior.

Under q = N(m, R R^T), with e = R^-1 (u - m) standardised, c = B m, T = B R, A = l^2 I + T T^T,
a_n = A^-1 (b_n - c) and z_n = l^D |A|^(-1/2) exp(-(b_n - c)^T a_n / 2), the covariances / s^2 of y(u_n) with
the functionals are

    E[y]     z_n + b0 + b1 u_n . m + b2 (|T^T b_n|^2 + (b_n . c)^2) / 2
    E[y e]   T^T (z_n a_n + b2 (b_n . c) b_n) + b1 R^T u_n
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bqvi.gradients.directions import Directions
from bqvi.gradients.whitened import Frame
from bqvi.quadrature.kernel_sums import Bumps
from bqvi.quadrature.positive_definite import cholesky


@dataclass(frozen=True, eq=False)
class Shape:
    """Hyperparameters of k, less its scale s^2, which is profiled out."""

    lengthscale: float
    constant: float
    """b0."""
    linear: float
    """b1."""
    quadratic: float = 0.0
    """b2."""
    directions: Directions | None = None
    """Of M; None: all alike, M = I."""

    def bent(self, points: np.ndarray) -> np.ndarray:
        """B u of (m, D) points."""
        return points if self.directions is None else self.directions.scaled(points)

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """K / s^2 between m and n points, (m, n)."""
        kernel: np.ndarray = left.rising @ right.falling.T
        np.minimum(kernel, 0.0, out=kernel)  # rounding
        np.exp(kernel, out=kernel)
        kernel += left.trend @ right.trend.T
        if self.quadratic != 0.0:
            bending = left.bending @ right.bending.T
            bending *= bending
            kernel += bending
        return kernel


@dataclass(frozen=True, eq=False)
class Places:
    """Features of m points whose inner products are the terms of k: K takes three products of matrices."""

    points: np.ndarray
    """U, (m, D)."""
    shape: Shape

    @cached_property
    def bent(self) -> np.ndarray:
        """B, (m, D)."""
        return self.shape.bent(self.points)

    @cached_property
    def _squares(self) -> np.ndarray:
        """-|b|^2 / (2 l^2)."""
        squares: np.ndarray = np.einsum("nd,nd->n", self.bent, self.bent)
        return squares * (-0.5 / self.shape.lengthscale**2)

    @cached_property
    def rising(self) -> np.ndarray:
        """With `falling` the exponent, (m, D + 2)."""
        return _columns(self.bent * (1.0 / self.shape.lengthscale**2), self._squares, 1.0)

    @cached_property
    def falling(self) -> np.ndarray:
        """(m, D + 2)."""
        return _columns(self.bent, 1.0, self._squares)

    @cached_property
    def trend(self) -> np.ndarray:
        """Of b0 + b1 u . u', (m, D + 1)."""
        return _columns(np.sqrt(self.shape.linear) * self.points, np.sqrt(self.shape.constant))

    @cached_property
    def bending(self) -> np.ndarray:
        """Of the root of b2 (b . b')^2 / 2, (m, D)."""
        bending: np.ndarray = self.bent * np.power(0.5 * self.shape.quadratic, 0.25)
        return bending


def _columns(wide: np.ndarray, *further: np.ndarray | float) -> np.ndarray:
    m, d = wide.shape
    columns = np.empty((m, d + len(further)))
    columns[:, :d] = wide
    for i, column in enumerate(further):
        columns[:, d + i] = column
    return columns


def kernel_matrix(left: np.ndarray, right: np.ndarray, shape: Shape) -> np.ndarray:
    """K / s^2 between (m, D) and (n, D) points, (m, n)."""
    ours = Places(left, shape)
    return shape.covariance(ours, ours if right is left else Places(right, shape))


@dataclass(frozen=True, eq=False)
class Functionals:
    """E[y] and E[y e] of one output under q = N(m, R R^T), e = R^-1 (u - m): 1 + D of them."""

    shape: Shape
    q: Frame
    """In the units of u."""

    @cached_property
    def centre(self) -> np.ndarray:
        """C = B m, (D,)."""
        centre: np.ndarray = self.shape.bent(self.q.mean[None])[0]
        return centre

    @cached_property
    def root(self) -> np.ndarray:
        """T = B R, (D, D)."""
        return np.ascontiguousarray(self.shape.bent(self.q.scale.T).T)

    @cached_property
    def spread(self) -> np.ndarray:
        """T T^T, (D, D)."""
        spread: np.ndarray = self.root @ self.root.T
        return spread

    def bumps(self, bent: np.ndarray) -> Bumps:
        """Of the squared exponentials at (m, D) points B u."""
        return Bumps.of(bent, self.shape.lengthscale, self.centre, self.spread)

    def covariances(self, points: np.ndarray, bent: np.ndarray | None = None) -> np.ndarray:
        """Prior covariances / s^2 with y at (m, D) points, (m, 1 + D)."""
        shape, b = self.shape, self.shape.bent(points) if bent is None else bent
        bumps, along = self.bumps(b), b @ self.centre
        slopes = bumps.z[:, None] * bumps.a
        slopes += (shape.quadratic * along)[:, None] * b
        found = np.empty((len(points), 1 + points.shape[1]))
        found[:, 1:] = slopes @ self.root
        found[:, 1:] += (shape.linear * points) @ self.q.scale
        across = b @ self.root
        squares = np.einsum("nd,nd->n", across, across) + np.square(along)
        found[:, 0] = bumps.z + shape.constant + shape.linear * (points @ self.q.mean)
        found[:, 0] += 0.5 * shape.quadratic * squares
        return found

    @cached_property
    def prior(self) -> np.ndarray:
        """Prior covariance / s^2 of one another, (1 + D, 1 + D)."""
        shape, c, root, d = self.shape, self.centre, self.root, len(self.centre)
        second = self.spread + np.outer(c, c)
        half = cholesky(shape.lengthscale**2 * np.eye(d) + 2.0 * self.spread)
        double = np.exp(np.log(shape.lengthscale / np.diagonal(half)).sum())
        inner = np.linalg.solve(half, root)
        bending = np.outer(c, c) + float(c @ c) * np.eye(d)
        covariance = np.empty((1 + d, 1 + d))
        covariance[0, 0] = double + shape.constant + shape.linear * float(self.q.mean @ self.q.mean)
        covariance[0, 0] += 0.5 * shape.quadratic * float(np.vdot(second, second))
        covariance[0, 1:] = shape.linear * self.q.mean @ self.q.scale + shape.quadratic * c @ second @ root
        covariance[1:, 0] = covariance[0, 1:]
        covariance[1:, 1:] = double * inner.T @ inner + shape.linear * self.q.scale.T @ self.q.scale
        covariance[1:, 1:] += shape.quadratic * root.T @ bending @ root
        return covariance
