"""The surrogate's kernel: a squared exponential with learnt interactions, and a quadratic.

    k(x, y) = s (prod_d (1 + w e_d) - 1) / ((1 + w)^D - 1)  +  b (x . y + (x . y)^2 / 2)  +  c

with e_d = exp(-(x_d - y_d)^2 / (2 l_d^2)). As w grows the first term becomes the squared exponential with
lengthscales l; as w vanishes, a sum of functions of one coordinate each. Between them lie the log densities
of most models: sums of functions of few coordinates each, which a product of exponentials needs far more
nodes for. The second term is the quadratic that a log density is near its mode, turned any way.

Write p = prod_d (1 + w e_d), u_d = w e_d / (1 + w e_d), g_d = u_d (x_d - y_d) / l_d^2 and a for s over the
norm. Derivatives observed at y (and x) have, from the first term,

    cov(f, d_e f')      =  a p g_e
    cov(d_d f, d_e f')  = -a p g_d g_e,    or  a p u_d (1 / l_d^2 - (x_d - y_d)^2 / l_d^4)  where d = e

so p and D ratios are all that any of it needs, and all that pull-backs to the hyperparameters need. Planes
(D, m, n) are kept coordinate first: sums over pairs are then matrix-vector products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Vector = np.ndarray

_IN_CACHE = 2**15
"""Entries of a plane that is worked on at once."""


@dataclass(frozen=True, eq=False)
class InteractionKernel:
    """The kernel's hyperparameters, in the units of the surrogate's frame."""

    lengthscales: Vector
    """(D,)."""
    interaction: float
    """W."""
    variance: float
    """S."""
    quadratic: float
    """B."""
    constant: float
    """C."""

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.lengthscales)

    @property
    def height(self) -> float:
        """A = s / ((1 + w)^D - 1)."""
        return float(self.variance / np.expm1(self.dimension * np.log1p(self.interaction)))

    def diagonal(self, x: Vector) -> Vector:
        """Prior variances at x (m, D), (m,)."""
        squares = np.einsum("md,md->m", x, x)
        found: Vector = self.variance + self.constant + self.quadratic * squares * (1.0 + 0.5 * squares)
        return found

    def cross(self, x: Vector, y: Vector, slopes: bool = False) -> Vector:
        """Covariances of f at x (m, D) with f at y (n, D), then its n D derivatives: (m, n or n (D + 1))."""
        products = x @ y.T
        values: Vector = products * (1.0 + 0.5 * products)
        values *= self.quadratic
        values += self.constant
        if not slopes:
            values += self._first(x, y)
            return values
        m, (n, dimension) = len(x), y.shape
        found = np.empty((m, n * (dimension + 1)))
        products += 1.0
        products *= self.quadratic
        block = max(_IN_CACHE // (n * dimension), 1)
        for rows in (slice(at, at + block) for at in range(0, m, block)):
            first, slope = self._first_slopes(x[rows], y)
            np.add(values[rows], first, out=found[rows, :n])
            slope += products[rows] * x[rows].T[:, :, None]
            found[rows, n:] = np.moveaxis(slope, 0, -1).reshape(len(first), -1)
        return found

    def _first(self, x: Vector, y: Vector) -> Vector:
        """The first term of `cross`, (m, n)."""
        p = np.ones((len(x), len(y)))
        for d, lengthscale in enumerate(self.lengthscales):
            scaled = (x[:, d, None] - y[:, d]) / lengthscale
            np.multiply(scaled, scaled, out=scaled)
            scaled *= -0.5
            np.exp(scaled, out=scaled)
            scaled *= self.interaction
            scaled += 1.0
            p *= scaled
        found: Vector = self.height * (p - 1.0)
        return found

    def _first_slopes(self, x: Vector, y: Vector) -> tuple[Vector, Vector]:
        """The same, and with the derivatives at y, (D, m, n)."""
        height, w = self.height, self.interaction
        gap = x.T[:, :, None] - y.T[:, None, :]
        precision = (self.lengthscales**-2.0)[:, None, None]
        varying = w * np.exp(-0.5 * precision * gap**2)
        p = np.prod(1.0 + varying, axis=0)
        g = varying / (1.0 + varying) * gap * precision
        return height * (p - 1.0), height * p * g

    def pulled_back(self, x: Vector, y: Vector, weights: Vector) -> Vector:
        """Gradient in x (m, D) of sum_n weights_mn cov(f(x_m), observation n); weights as `cross` is wide."""
        n, dimension = y.shape
        gap = x.T[:, :, None] - y.T[:, None, :]
        precision = (self.lengthscales**-2.0)[:, None, None]
        varying = self.interaction * np.exp(-0.5 * precision * gap**2)
        u = varying / (1.0 + varying)
        p = self.height * np.prod(1.0 + varying, axis=0)
        g = u * gap * precision
        of_values = weights[:, :n]
        products = x @ y.T
        found = -np.einsum("mn,dmn->md", of_values * p, g)
        found += self.quadratic * (of_values * (1.0 + products)) @ y
        if weights.shape[1] > n:
            of_slopes = weights[:, n:].reshape(len(x), n, dimension)
            along = np.einsum("mnd,dmn->mn", of_slopes, g)
            planes = np.moveaxis(of_slopes, -1, 0)
            curved = planes * (u * precision * (1.0 - gap**2 * precision) + g * g) - along * g
            found += np.einsum("mn,dmn->md", p, curved)
            steep = np.einsum("mnd,md->mn", of_slopes, x)
            found += self.quadratic * (steep @ y + np.einsum("mn,mnd->md", 1.0 + products, of_slopes))
        result: Vector = found
        return result


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """Points (n, D) whose covariance is wanted for one kernel after the other, with its pull-back.

    Derivatives are observed at the first ``slopes`` of them; N = n + slopes D observations in all.
    """

    points: Vector
    slopes: int
    gap: Vector
    """X_d - y_d, (D, n, n)."""
    squares: Vector
    products: Vector
    """x . y, (n, n)."""

    @classmethod
    def of(cls, points: Vector, slopes: int) -> FixedPoints:
        """Of points (n, D); derivatives are observed at the first ``slopes`` of them too."""
        gap = points.T[:, :, None] - points.T[:, None, :]
        return cls(points, slopes, gap, gap**2, points @ points.T)

    def covariance(self, kernel: InteractionKernel) -> tuple[Vector, Pullback]:
        """The covariance of all observations, (N, N), and its pull-back to the hyperparameters."""
        precision = kernel.lengthscales**-2.0
        varying = kernel.interaction * np.exp((-0.5 * precision)[:, None, None] * self.squares)
        ratio = 1.0 + varying
        p = np.prod(ratio, axis=0)
        np.divide(varying, ratio, out=ratio)
        height = kernel.height
        quadratic = self.quadratic
        first = height * (p - 1.0)
        if self.slopes:
            p *= height
            first = self._with_slopes(first, p, ratio, precision)
        pullback = Pullback(self, kernel, first, p if self.slopes else height * p, ratio, quadratic)
        matrix = first + kernel.quadratic * quadratic
        n = len(self.points)
        matrix[:n, :n] += kernel.constant
        return matrix, pullback

    @cached_property
    def quadratic(self) -> Vector:
        """x . y + (x . y)^2 / 2 and its derivatives, (N, N)."""
        t, x = self.products, self.points
        values = t * (1.0 + 0.5 * t)
        if not self.slopes:
            return values
        n, dimension = x.shape
        m = self.slopes
        full = np.empty((n + m * dimension,) * 2)
        full[:n, :n] = values
        full[:n, n:] = ((1.0 + t[:, :m])[:, :, None] * x[:, None, :]).reshape(n, -1)
        full[n:, :n] = full[:n, n:].T
        both = full[n:, n:].reshape(m, dimension, m, dimension)  # [i, d, j, e]: x_jd x_ie
        both[:] = x[:m, None, None, :] * x[:m].T[None, :, :, None]
        for d in range(dimension):
            both[:, d, :, d] += 1.0 + t[:m, :m]
        return full

    def _with_slopes(self, first: Vector, p: Vector, u: Vector, precision: Vector) -> Vector:
        n, dimension = self.points.shape
        m = self.slopes
        g = u[:, :, :m] * self.gap[:, :, :m] * precision[:, None, None]
        full = np.empty((n + m * dimension,) * 2)
        full[:n, :n] = first
        full[:n, n:] = np.moveaxis(p[:, :m] * g, 0, -1).reshape(n, -1)
        full[n:, :n] = full[:n, n:].T
        p, g, squares = p[:m, :m], g[:, :m], self.squares[:, :m, :m] * precision[:, None, None]
        both = -np.einsum("dij,eij->idje", p * g, g)
        bent = u[:, :m, :m] * precision[:, None, None] * (1.0 - squares)
        for d in range(dimension):
            both[:, d, :, d] = p * bent[d]
        full[n:, n:] = both.reshape(m * dimension, -1)
        return full


@dataclass(frozen=True, eq=False)
class Pullback:
    """From symmetric weights W (N, N) to the gradient of sum W K in the logarithms of (l, w, s, b)."""

    at: FixedPoints
    kernel: InteractionKernel
    first: Vector
    p: Vector
    """A p, (n, n)."""
    u: Vector
    quadratic: Vector

    def __call__(self, weights: Vector) -> Vector:
        """(D + 3,)."""
        kernel, n = self.kernel, len(self.at.points)
        precision = kernel.lengthscales**-2.0
        of_values = weights[:n, :n] * self.p
        if self.at.slopes:
            lengths, interaction = self._slopes(weights, of_values)
        else:
            weighted = (self.u.reshape(len(precision), -1)) * of_values.reshape(-1)
            lengths = np.einsum("dp,dp->d", weighted, self.at.squares.reshape(len(precision), -1)) * precision
            interaction = weighted.sum()
        total = float(np.vdot(weights, self.first))
        w, dimension = kernel.interaction, kernel.dimension
        norm = dimension * w / (1.0 + w) / -np.expm1(-dimension * np.log1p(w))
        quadratic = kernel.quadratic * float(np.vdot(weights, self.quadratic))
        return np.concatenate([lengths, [interaction - norm * total, total, quadratic]])

    def _slopes(self, weights: Vector, of_values: Vector) -> tuple[Vector, float]:
        n, dimension = self.at.points.shape
        m = self.at.slopes
        precision = (self.kernel.lengthscales**-2.0)[:, None, None]
        u, h = self.u, self.at.squares * precision
        g = u[:, :, :m] * self.at.gap[:, :, :m] * precision
        own_u, own_g, own_h, own_p = u[:, :m, :m], g[:, :m], h[:, :m, :m], self.p[:m, :m]
        bent = own_u * precision * (1.0 - own_h)
        cross = np.moveaxis(weights[:n, n:].reshape(n, m, dimension), -1, 0)
        both = weights[n:, n:].reshape(m, dimension, m, dimension)
        own = np.einsum("idjd->dij", both).copy()
        mixed = np.einsum("idje,dij->eij", both, own_g) - own * own_g  # over d != e
        of_p = of_values.copy()
        of_p[:, :m] += self.p[:, :m] * (2.0 * np.einsum("dij,dij->ij", cross, g))
        of_p[:m, :m] += own_p * (np.einsum("dij,dij->ij", own, bent) - np.einsum("dij,dij->ij", mixed, own_g))
        of_g = 2.0 * self.p[:, :m] * cross
        of_g[:, :m] -= 2.0 * own_p * mixed
        of_bent = own_p * own
        through_u = of_p * u
        through_u[:, :, :m] += of_g * g * (1.0 - u[:, :, :m])
        through_u[:, :m, :m] += of_bent * bent * (1.0 - own_u)
        lengths = np.einsum("dij,dij->d", through_u, h)
        lengths += np.einsum("dij,dij->d", of_g, -2.0 * g)
        lengths += np.einsum("dij,dij->d", of_bent, own_u * precision * (4.0 * own_h - 2.0))
        return lengths, float(through_u.sum())
