"""Gaussian with any covariance (thesis Table 1).

    eta = (C^-1 m, -C^-1 / 2),   t(x) = (x, x x^T),   mu = (m, C + m m^T),
    A = m^T C^-1 m / 2 + ln|C| / 2,   h = (2 pi)^(-D/2).

Unconstrained coordinates are u = (m, R): the covariance is C = L L^T, where L has the entries of R below
its diagonal and the exponentials of R's diagonal on it. With a natural gradient (g, G), G symmetric,

    dL/dm = g + 2 G m,   dL/dL = tril(2 G L),   and back: G = L^-T S L^-1 / 2, S symmetric with the
    lower triangle of L^T dL/dL (L^T is upper triangular, so that the strict upper part of 2 G L does not
    enter that triangle).

The retraction along (d eta_1, d eta_2) takes the precision P, with G = -2 d eta_2, to

    P + G + G C G / 2 = (P + (P + G) C (P + G)) / 2,

positive definite for every G (Lin, Schmidt and Khan 2020), and moves m by C' (d eta_1 + 2 d eta_2 m)
with the new covariance, as the straight line does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from bqvi.arrays import Values, diagonal, diagonal_matrix, like, matvec, namespace, outer, transpose
from bqvi.families import log_cholesky
from bqvi.families.family import ExponentialFamily
from gp.arrays import LOG_2PI, Array
from gp.checks import Seed, generator, require_covariance, require_finite, require_shape


class Normal(ExponentialFamily):
    """What Gaussians with full and with diagonal covariance have in common."""

    leaf_names = ("", "")
    mean: Array

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.mean.shape[-1])

    @property
    def log_determinant(self) -> Array:
        """ln|C|, batch-shaped."""

    @property
    def entropy(self) -> Array:
        """(D ln(2 pi e) + ln|C|) / 2 (thesis Eq. 3.37, with its sign corrected)."""
        return 0.5 * (self.dimension * (LOG_2PI + 1.0) + self.log_determinant)

    @property
    def mode(self) -> Array:
        """The mean."""
        return self.mean

    def log_base_measure(self, theta: Array) -> Array:
        return namespace(theta).full_like(theta[..., 0], -0.5 * theta.shape[-1] * LOG_2PI)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws m + L xi (thesis Eq. 5.19), differentiable in torch parameters."""
        return self.from_noise(generator(seed).standard_normal((n, *self.mean.shape)))

    def from_noise(self, noise: np.ndarray) -> Array:
        """m + L xi for standard normal noise xi (n, ..., D)."""


class Gaussian(Normal):
    """A batch of Gaussians N(m, C) over R^D.

    Parameters
    ----------
    mean : (..., D)
    covariance : (..., D, D), symmetric positive definite
    """

    def __init__(self, mean: Array, covariance: Array) -> None:
        require_finite("mean", mean)
        require_shape("covariance", covariance, (*mean.shape, mean.shape[-1]))
        require_covariance("covariance", covariance)
        self.mean = mean
        self.covariance = covariance

    @classmethod
    def _of(cls, **known: Array | Values) -> Self:
        """An instance from any one of its representations; the others are computed at first use."""
        self = object.__new__(cls)
        self.__dict__.update(known)
        return self

    @classmethod
    def from_natural(cls, natural: Values) -> Self:
        """From eta = ((..., D), (..., D, D)); not checked, for use inside loops."""
        return cls._of(natural=natural)

    @classmethod
    def from_unconstrained(cls, unconstrained: Values) -> Self:
        """Return the family at u = (m, R), see the module's docstring."""
        mean, raw = unconstrained
        return cls._of(unconstrained=unconstrained, mean=mean, scale_tril=log_cholesky.factor_at(raw))

    @cached_property
    def mean(self) -> Array:
        """m, (..., D)."""
        return matvec(self.covariance, self.natural[0])

    @cached_property
    def covariance(self) -> Array:
        """C, (..., D, D)."""
        if "scale_tril" in self.__dict__:
            return self.scale_tril @ transpose(self.scale_tril)
        return namespace(self.natural[1]).linalg.inv(-2.0 * self.natural[1])

    @cached_property
    def scale_tril(self) -> Array:
        """Lower Cholesky factor L of the covariance, (..., D, D)."""
        return namespace(self.covariance).linalg.cholesky(self.covariance)

    @cached_property
    def scale_inverse(self) -> Array:
        """L^-1, (..., D, D)."""
        return namespace(self.scale_tril).linalg.inv(self.scale_tril)

    @cached_property
    def precision(self) -> Array:
        """C^-1, (..., D, D)."""
        if "natural" in self.__dict__:
            return -2.0 * self.natural[1]
        return transpose(self.scale_inverse) @ self.scale_inverse

    @cached_property
    def natural(self) -> Values:
        return matvec(self.precision, self.mean), -0.5 * self.precision

    @cached_property
    def unconstrained(self) -> Values:
        """u = (m, R)."""
        return self.mean, log_cholesky.coordinates(self.scale_tril)

    @property
    def dimension(self) -> int:
        """D."""
        return int((self.mean if "mean" in self.__dict__ else self.natural[0]).shape[-1])

    @cached_property
    def log_determinant(self) -> Array:
        """ln|C|, batch-shaped."""
        if "scale_tril" in self.__dict__ or "natural" not in self.__dict__:
            return 2.0 * namespace(self.scale_tril).log(diagonal(self.scale_tril)).sum(-1)
        return -namespace(self.precision).linalg.slogdet(self.precision)[1]

    @cached_property
    def expected_statistics(self) -> Values:
        """mu = (m, C + m m^T)."""
        return self.mean, self.covariance + outer(self.mean, self.mean)

    @property
    def log_normaliser(self) -> Array:
        """A = (m^T C^-1 m + ln|C|) / 2."""
        return 0.5 * ((self.natural[0] * self.mean).sum(-1) + self.log_determinant)

    def kl(self, other: Gaussian) -> Array:
        gap = other.mean - self.mean
        mahalanobis = (gap * matvec(other.precision, gap)).sum(-1)
        trace = (other.precision * self.covariance).sum((-2, -1))
        log_ratio = other.log_determinant - self.log_determinant
        return 0.5 * (trace + mahalanobis - self.dimension + log_ratio)

    def statistics(self, theta: Array) -> Values:
        return theta, outer(theta, theta)

    def log_prob(self, theta: Array) -> Array:
        whitened = matvec(self.scale_inverse, theta - self.mean)
        squares = (whitened * whitened).sum(-1)
        return -0.5 * (squares + self.dimension * LOG_2PI + self.log_determinant)

    def from_noise(self, noise: np.ndarray) -> Array:
        """m + L xi for standard normal noise xi (n, ..., D)."""
        return self.mean + matvec(self.scale_tril, like(noise, self.mean))

    def path_gradient(self, noise: np.ndarray, slopes: np.ndarray) -> Values:
        """d/du of the mean of f(m + L xi) over n draws, for one NumPy Gaussian.

        Parameters
        ----------
        noise : xi (..., n, D), in groups of n draws; a mean is taken for each group.
        slopes : df/dtheta at m + L xi, of the same shape.
        """
        by_factor = transpose(slopes) @ noise / noise.shape[-2]
        return slopes.mean(-2), log_cholesky.from_factor(by_factor, self.scale_tril)

    def log_prob_slopes(self, noise: np.ndarray) -> np.ndarray:
        """d ln q / d theta at m + L xi, -L^-T xi, for noise xi (n, D)."""
        return -noise @ self.scale_inverse

    @property
    def entropy_gradient(self) -> Values:
        """d/du of the entropy: (0, I)."""
        xp = namespace(self.mean)
        return xp.zeros_like(self.mean), diagonal_matrix(xp.ones_like(self.mean))

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta: dm = C (d1 + 2 d2 m), dC = 2 C d2 C."""
        mean_step = matvec(self.covariance, tangent[0] + 2.0 * matvec(tangent[1], self.mean))
        cross = outer(self.mean, mean_step)
        covariance_step = 2.0 * self.covariance @ tangent[1] @ self.covariance
        return mean_step, covariance_step + cross + transpose(cross)

    def fisher_solve(self, cotangent: Values) -> Values:
        cross = outer(self.mean, cotangent[0])
        covariance_step = cotangent[1] - cross - transpose(cross)
        second = 0.5 * self.precision @ covariance_step @ self.precision
        return matvec(self.precision, cotangent[0]) - 2.0 * matvec(second, self.mean), second

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        mean_gradient = gradient[0] + 2.0 * matvec(gradient[1], self.mean)
        return mean_gradient, log_cholesky.pulled_back(gradient[1], self.scale_tril)

    def gradient_to_natural(self, gradient: Values) -> Values:
        mean_gradient, raw = gradient
        second = log_cholesky.pushed_forward(raw, self.scale_tril, self.scale_inverse)
        return mean_gradient - 2.0 * matvec(second, self.mean), second

    def retract(self, tangent: Values) -> Self:
        change = -(tangent[1] + transpose(tangent[1]))
        precision = self.precision + change + 0.5 * change @ self.covariance @ change
        linear = matvec(self.precision, self.mean) + tangent[0]
        # the mean follows the straight line: P' m' = P m + d eta_1 + (P' - P + 2 d eta_2) m
        turned = matvec(precision - self.precision - change, self.mean)
        return self.from_natural((linear + turned, -0.5 * precision))
