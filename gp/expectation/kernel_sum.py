"""Posterior means of Gaussian processes, as sums of kernels, and their Gaussian integrals.

With a squared exponential kernel, a `KernelSum`,

    phi(u) = v sum_n (alpha_n + B_n . d/du_n) k(u, u_n) + c + w . u + u^T M u / 2,
    k(u, u_n) = exp(-(u - u_n)^T Lambda^-1 (u - u_n) / 2),     Lambda = diag(l^2),

is the posterior mean given values (weights alpha), derivatives (weights B) or both; the polynomial, a
`Quadratic`, is the sum of the prior mean and of the functions of constant and quadratic kernels. Against
N(m, Sigma), with a_n and P below, z_n there times v, and b_n = B_n . a_n,

    E          = sum z (alpha - b)                         + c + w . m + (m^T M m + tr M Sigma) / 2
    dE/dm      = sum z ((alpha - b) a + P B)               + w + M m
    dE/dSigma  = sum z ((alpha - b) (a a^T - P) + (P B) a^T + a (P B)^T) / 2  + M / 2

and against a mixture sum_k pi_k N(m_k, Sigma_k): E = sum_k pi_k E_k, dE/dpi_k = E_k, dE/dm_k = pi_k dE_k/dm_k
and likewise in Sigma_k. By Bonnet and Price dE/dm = E[grad phi] and 2 dE/dSigma = E[Hessian of phi].

Of exp(-(u - u_n)^T Lambda^-1 (u - u_n) / 2) with Lambda = diag(l^2), against N(m, Sigma), with A = Lambda +
Sigma, P = A^-1 and a_n = P (u_n - m),

    z_n = |Lambda|^(1/2) |A|^(-1/2) exp(-(u_n - m)^T a_n / 2)
    dz_n/dm = z_n a_n,      dz_n/dSigma = z_n (a_n a_n^T - P) / 2.

z_n, dz_n/dm and 2 dz_n/dSigma are also the covariances of phi(u_n), phi ~ GP(0, k), with E[phi], E[grad phi]
and E[Hessian of phi].

With an analysis of variance kernel k (:class:`gp.kernels.Anova`) phi, an `AnovaSum`, is the same with v = 1.
Under N(m, diag v) coordinates are independent, so that in the product over coordinates each e_d is replaced
by its expectation

    z_d = l_d / sqrt(l_d^2 + v_d) exp(-(u_nd - m_d)^2 / (2 (l_d^2 + v_d))).

With p the product of 1 + w z_d over d, r_d = w z_d / (1 + w z_d), a_d = (u_nd - m_d) / (l_d^2 + v_d) and
t_d = (a_d^2 - 1 / (l_d^2 + v_d)) / 2, dp/dm_d = p r_d a_d and dp/dv_d = p r_d t_d. K Gaussians are integrated
at once; arrays (D, K, n) are kept coordinate first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from gp.arrays import differences
from gp.kernels import Anova, Constant, Kernel, Linear, QuadraticTrend, Sum
from gp.kernels.crossed import crossed
from gp.matrices import cholesky_inverse
from gp.means import Mean
from gp.measures import GaussianMixture, MixtureParameters


@dataclass(frozen=True, eq=False)
class Quadratic:
    """c + w . u + u^T M u / 2.

    Attributes
    ----------
    constant : c. linear : w, (D,). curvature : M, symmetric, (D, D).
    """

    constant: float
    linear: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of_mean(cls, mean: Mean, dimension: int) -> Quadratic:
        """A prior ``mean`` of D = ``dimension`` variables as a polynomial, by its expectation at 0."""
        zero, none = np.zeros(dimension), np.zeros((dimension, dimension))
        linear, half = mean.expectation_gradient(zero, none)
        return cls(float(mean.expectation(zero, none)), linear, 2.0 * half)

    @classmethod
    def of_kernel(
        cls, kernel: Kernel, points: np.ndarray, values: np.ndarray | None, slopes: np.ndarray | None
    ) -> Quadratic:
        """The part of a posterior mean that belongs to a kernel of polynomials; TypeError for others.

        Parameters
        ----------
        kernel : a `QuadraticTrend`, a `Linear`, a `Constant` or a sum of them. points : (n, D).
        values, slopes : the weights (n,) of values and (n, D) of derivatives at the points, or None.
        """
        dimension = points.shape[1]
        if isinstance(kernel, Sum):
            terms = [cls.of_kernel(term, points, values, slopes) for term in kernel.terms]
            return reduce(add, terms)
        if isinstance(kernel, Constant):
            total = 0.0 if values is None else float(values.sum())
            return cls(float(kernel.variance) * total, np.zeros(dimension), np.zeros((dimension, dimension)))
        if isinstance(kernel, Linear):
            linear = 0.0 if values is None else values @ (points - kernel.offset)
            linear = kernel.variance * (linear + (0.0 if slopes is None else slopes.sum(0)))
            return cls(-float(np.sum(linear * kernel.offset)), linear, np.zeros((dimension, dimension)))
        if not isinstance(kernel, QuadraticTrend):
            raise TypeError(f"functions of {type(kernel).__name__} are no polynomials of degree two")
        return cls.of_trend(kernel.linear, kernel.quadratic, points, values, slopes)

    @classmethod
    def of_trend(cls, b1: float, b2: float, points: np.ndarray, values: Any, slopes: Any) -> Quadratic:
        """That of a trend of variances b1, b2 >= 0; ``points``, ``values``, ``slopes`` as of `of_kernel`."""
        dimension = points.shape[1]
        linear, curvature = np.zeros(dimension), np.zeros((dimension, dimension))
        if values is not None:
            linear, curvature = values @ points, (points.T * values) @ points
        if slopes is not None:
            crossed = slopes.T @ points[: len(slopes)]
            linear, curvature = linear + slopes.sum(0), curvature + crossed + crossed.T
        return cls(0.0, b1 * linear, b2 * curvature)

    def times(self, factor: float) -> Quadratic:
        """Return the polynomial times a ``factor``."""
        return Quadratic(factor * self.constant, factor * self.linear, factor * self.curvature)

    def __add__(self, other: Quadratic) -> Quadratic:
        linear, curvature = self.linear + other.linear, self.curvature + other.curvature
        return Quadratic(self.constant + other.constant, linear, curvature)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.constant + u @ self.linear
        found += 0.5 * np.einsum("md,md->m", u, u @ self.curvature)
        return found

    def gradient(self, u: np.ndarray) -> np.ndarray:
        return self.linear + u @ self.curvature


@dataclass(frozen=True, eq=False)
class KernelMeans:
    """Integrals of n squared exponentials of height 1 against N(m, Sigma), and the arrays of their gradients.

    Attributes
    ----------
    z : (n,). a : P (u_n - m), (n, D). precision : P, (D, D).
    """

    z: np.ndarray
    a: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(
        cls, points: np.ndarray, lengthscale: float | np.ndarray, mean: np.ndarray, covariance: np.ndarray
    ) -> KernelMeans:
        """The integrals at (n, D) points, for one lengthscale or (D,), against N(``mean``, ``covariance``).

        Raises LinAlgError if ``covariance`` is not positive definite.
        """
        gap = points - mean
        spread = covariance.copy()
        spread.flat[:: len(mean) + 1] += lengthscale**2
        factor, precision = cholesky_inverse(spread)
        a = gap @ precision
        log_ratio = np.log(lengthscale / factor.diagonal()).sum()
        return cls(np.exp(log_ratio - 0.5 * np.einsum("nd,nd->n", gap, a)), a, precision)

    @classmethod
    def of_several(
        cls, points: np.ndarray, lengthscale: float | np.ndarray, means: np.ndarray, covariances: np.ndarray
    ) -> KernelMeans:
        """Integrals against K Gaussians of ``means`` (K, D), ``covariances`` (K, D, D), with a leading K.

        ``points`` (n, D) and ``lengthscale`` are as of `of`.
        """
        spread = covariances.copy()
        np.einsum("kii->ki", spread)[:] += np.square(lengthscale)
        factor = np.linalg.cholesky(spread)
        whitening = np.linalg.inv(factor)
        precision = whitening.mT @ whitening
        gap = points - means[:, None, :]
        a = gap @ precision
        log_ratio = np.log(lengthscale / np.einsum("kii->ki", factor)).sum(1)
        return cls(np.exp(log_ratio[:, None] - 0.5 * np.einsum("knd,knd->kn", gap, a)), a, precision)


def standard_variance(dimension: int, lengthscale: float) -> float:
    """The prior variance of E[phi] under N(0, I), for a height of 1.

    ``dimension`` is D, ``lengthscale`` the kernel's.
    """
    l2 = lengthscale**2
    return float((l2 / (l2 + 2.0)) ** (dimension / 2))


def standard_means(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray, float]:
    """z (n,), a (n, D) and P of N(0, I); P is a multiple of the identity and returned as a number.

    ``points`` are (n, D), ``lengthscale`` is the kernel's. z are the prior covariances of phi(u_n) with
    E[phi], for a height of 1.
    """
    l2 = lengthscale**2
    p = 1.0 / (l2 + 1.0)
    squares = np.einsum("nd,nd->n", points, points)
    return (l2 * p) ** (points.shape[1] / 2) * np.exp(-0.5 * p * squares), p * points, p


@dataclass(frozen=True, eq=False)
class Integrated:
    """E, and its gradients in the Gaussian.

    Attributes
    ----------
    value : E. mean : dE/dm, (D,). covariance : dE/dSigma, symmetric, (D, D).
    """

    value: float
    mean: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True, eq=False)
class KernelSum:
    """The function phi.

    Attributes
    ----------
    points : u_n, (n, D). lengthscale : l, one or (D,). height : v. trend : the polynomial.
    values : alpha, (n,); None where no values were observed.
    slopes : B, (n, D); None where no derivatives were observed.
    """

    points: np.ndarray
    lengthscale: float | np.ndarray
    height: float
    trend: Quadratic
    values: np.ndarray | None = None
    slopes: np.ndarray | None = None

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """The values of phi, (m,), at points ``u`` (m, D)."""
        terms, _ = self._terms(u)
        return terms.sum(1) + self.trend(u)

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """The gradients of phi, (m, D), at points ``u`` (m, D)."""
        terms, kernel = self._terms(u)
        found: np.ndarray = terms @ self.points - terms.sum(1)[:, None] * u
        if self.slopes is not None:
            found += kernel @ self.slopes
        found /= np.square(self.lengthscale)
        found += self.trend.gradient(u)
        return found

    def _terms(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The n terms of the sum at points ``u`` (m, D), and v k(u, u_n), (m, n) each."""
        scaled, points = u / self.lengthscale, self.points / self.lengthscale
        squares = np.square(scaled).sum(1)[:, None] + np.square(points).sum(1) - 2.0 * scaled @ points.T
        kernel = self.height * np.exp(-0.5 * np.maximum(squares, 0.0))
        weight = np.zeros(len(points)) if self.values is None else self.values
        if self.slopes is None:
            return kernel * weight, kernel
        tilt = self.slopes / self.lengthscale
        along = scaled @ tilt.T - np.einsum("nd,nd->n", tilt, points)
        return kernel * (weight + along), kernel

    def integrate(self, mean: np.ndarray, covariance: np.ndarray) -> Integrated:
        """E and its gradients under N(mean, covariance)."""
        means = KernelMeans.of(self.points, self.lengthscale, mean, covariance)
        z, a = self.height * means.z, means.a
        product = self.trend.curvature @ mean
        slope = self.trend.linear + product
        hessian = self.trend.curvature
        weight = np.zeros_like(z) if self.values is None else z * self.values
        if self.slopes is not None:
            weighted = z[:, None] * (self.slopes @ means.precision)
            weight = weight - z * np.einsum("nd,nd->n", self.slopes, a)
            crossed = weighted.T @ a
            slope = slope + weighted.sum(0)
            hessian = hessian + crossed + crossed.T
        hessian = hessian + (a.T * weight) @ a - weight.sum() * means.precision
        value = self.trend.constant + self.trend.linear @ mean + 0.5 * mean @ product
        value += 0.5 * np.vdot(self.trend.curvature, covariance) + weight.sum()
        return Integrated(float(value), slope + weight @ a, 0.5 * hessian)

    def integrate_mixture(self, q: GaussianMixture | MixtureParameters) -> tuple[float, MixtureParameters]:
        """E against a mixture ``q``, and gradients in weights (K,), means (K, D), covariances (K, D, D).

        Weights are free: their sum is not held at one.
        """
        weights, centres = np.asarray(q.weights), np.asarray(q.means)
        kernels = KernelMeans.of_several(self.points, self.lengthscale, centres, np.asarray(q.covariances))
        z, a, precision = (
            self.height * kernels.z,
            kernels.a,
            kernels.precision,
        )  # (K, n), (K, n, D), (K, D, D)
        bowed = centres @ self.trend.curvature
        slope = self.trend.linear + bowed
        hessian = self.trend.curvature
        weight = np.zeros_like(z) if self.values is None else z * self.values
        if self.slopes is not None:
            tilt = z[:, :, None] * (self.slopes @ precision)
            weight = weight - z * np.einsum("nd,knd->kn", self.slopes, a)
            crossed = tilt.mT @ a
            slope = slope + tilt.sum(1)
            hessian = hessian + crossed + crossed.mT
        total = weight.sum(1)
        hessian = hessian + (a.mT * weight[:, None, :]) @ a - total[:, None, None] * precision
        values = self.trend.constant + centres @ self.trend.linear + total
        values += 0.5 * np.einsum("kd,kd->k", bowed, centres)
        values += 0.5 * np.einsum("de,kde->k", self.trend.curvature, np.asarray(q.covariances))
        slope = slope + (weight[:, None, :] @ a)[:, 0]
        hessian = (0.5 * weights[:, None, None]) * hessian
        return float(weights @ values), MixtureParameters(values, weights[:, None] * slope, hessian)


@dataclass(frozen=True, eq=False)
class DiagonalIntegrals:
    """Expectations under K diagonal Gaussians, with their gradients.

    Attributes
    ----------
    values : expectations (K,). means : their gradients (K, D) in the means. variances : gradients (K, D) in
        the variances.
    """

    values: np.ndarray
    means: np.ndarray
    variances: np.ndarray


@dataclass(frozen=True, eq=False)
class AnovaSum:
    """The function phi.

    Attributes
    ----------
    points : u_n, (n, D). kernel : k. trend : the polynomial.
    values : alpha, (n,). slopes : B at the first m points, (m, D); None where no derivatives were observed.
    """

    points: np.ndarray
    kernel: Anova
    trend: Quadratic
    values: np.ndarray
    slopes: np.ndarray | None = None

    def times(self, factor: float) -> AnovaSum:
        """The function ``factor`` phi."""
        slopes = None if self.slopes is None else factor * self.slopes
        return replace(self, trend=self.trend.times(factor), values=factor * self.values, slopes=slopes)

    def plus(self, trend: Quadratic) -> AnovaSum:
        """The function phi + ``trend``."""
        return replace(self, trend=self.trend + trend)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        if self.slopes is None:
            return crossed(self.kernel, u, self.points) @ self.values + self.trend(u)
        cross = crossed(self.kernel, u, self.points, len(self.slopes))
        return cross @ np.concatenate([self.values, self.slopes.reshape(-1)]) + self.trend(u)

    def _tilt(self, slopes: np.ndarray) -> np.ndarray:
        """B (D, 1, n), with zeros at points without derivatives."""
        found = np.zeros((slopes.shape[1], 1, len(self.points)))
        found[:, 0, : len(slopes)] = slopes.T
        return found

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradients at points ``u`` (M, D), (M, D)."""
        kernel = self.kernel
        gap = differences(u, self.points)
        precision = (kernel.lengthscale**-2.0)[:, None, None]
        steep = gap * precision
        varying = -0.5 * gap * steep
        np.exp(varying, out=varying)
        varying *= kernel.interaction
        ratio = 1.0 + varying
        p = kernel.height * np.prod(ratio, axis=0)
        ratio = np.divide(varying, ratio, out=ratio)
        g = ratio * steep
        found = self.trend.gradient(u)
        if self.slopes is None:
            found -= (p * self.values * g).sum(2).T
            return found
        tilt = self._tilt(self.slopes)
        along = self.values + np.sum(tilt * g, axis=0)
        curved = tilt * (ratio * precision - g * (steep - g)) - along * g
        curved *= p
        found += curved.sum(2).T
        return found

    def integrate(self, means: np.ndarray, variances: np.ndarray) -> DiagonalIntegrals:
        """Against K Gaussians with ``means`` (K, D) and diagonal covariances, ``variances`` (K, D)."""
        bowed = means @ self.trend.curvature
        diagonal = self.trend.curvature.diagonal()
        values = self.trend.constant + means @ self.trend.linear + 0.5 * variances @ diagonal
        values = values + 0.5 * np.einsum("kd,kd->k", bowed, means)
        first, of_means, of_variances = self._kernel_integrals(means, variances)
        return DiagonalIntegrals(
            values + first, self.trend.linear + bowed + of_means, 0.5 * diagonal + of_variances
        )

    def _kernel_integrals(
        self, means: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Integrals (K,) of phi less the polynomial, and gradients (K, D) in means and variances."""
        kernel = self.kernel
        height = kernel.height
        spread = 1.0 / (variances.T + (kernel.lengthscale**2)[:, None])[:, :, None]  # (D, K, 1)
        gap = -differences(means, self.points)  # (D, K, n)
        a = gap * spread
        shrunk = kernel.interaction * kernel.lengthscale[:, None, None] * np.sqrt(spread)
        varying = shrunk * np.exp(-0.5 * gap * a)
        ratio = 1.0 + varying
        p = height * np.prod(ratio, axis=0)
        r = np.divide(varying, ratio, out=varying)
        along, bowed = r * a, 0.5 * (a * a - spread)
        if self.slopes is None:
            weighted = p * self.values
            values = weighted.sum(1) - height * self.values.sum()
            of_means = np.einsum("dkn,kn->kd", along, weighted)
            return values, of_means, np.einsum("dkn,kn->kd", r * bowed, weighted)
        m = len(self.slopes)
        tilt, own_p, own_a, own_r = self.slopes.T[:, None], p[:, :m], a[:, :, :m], r[:, :, :m]
        near, curved = along[:, :, :m], bowed[:, :, :m]
        weighted = p * self.values
        weighted[:, :m] -= own_p * np.sum(tilt * near, axis=0)
        values = weighted.sum(1) - height * self.values.sum()
        steep, rest = tilt * own_p, (1.0 - own_r) * near
        turned = rest * own_a - own_r * spread  # d along / dm
        moved = rest * curved - near * spread  # d along / dv
        of_means, of_variances = (along * weighted).sum(2), (r * bowed * weighted).sum(2)
        of_means -= (steep * turned).sum(2)
        of_variances -= (steep * moved).sum(2)
        return values, of_means.T, of_variances.T


@dataclass(frozen=True, eq=False)
class AnovaSums:
    """A sum of such functions, each of a kernel of its own.

    Attributes
    ----------
    parts : the functions, one or more.
    """

    parts: tuple[AnovaSum, ...]

    def times(self, factor: float) -> AnovaSums:
        """The function times ``factor``."""
        return AnovaSums(tuple(part.times(factor) for part in self.parts))

    def plus(self, trend: Quadratic) -> AnovaSums:
        """The function plus ``trend``."""
        return AnovaSums((self.parts[0].plus(trend), *self.parts[1:]))

    def __call__(self, u: np.ndarray) -> np.ndarray:
        return reduce(add, [part(u) for part in self.parts])

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradients at points ``u`` (M, D), (M, D)."""
        return reduce(add, [part.gradient(u) for part in self.parts])

    def integrate(self, means: np.ndarray, variances: np.ndarray) -> DiagonalIntegrals:
        """Against K Gaussians with ``means`` (K, D) and diagonal covariances, ``variances`` (K, D)."""
        each = [part.integrate(means, variances) for part in self.parts]
        parts = zip(*((one.values, one.means, one.variances) for one in each), strict=True)
        return DiagonalIntegrals(*(reduce(add, part) for part in parts))
