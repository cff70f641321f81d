"""Gaussian with diagonal covariance: mean-field over the coordinates of theta.

    eta = (m / v, -1 / (2 v)),   t(x) = (x, x^2),   mu = (m, v + m^2),   u = (m, ln s),   v = s^2.

The formulas are those of `gaussian` with diagonal matrices, stored as vectors.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.arrays import Values, diagonal_matrix, like, namespace
from bqvi.families.gaussian import Normal
from gp.arrays import LOG_2PI, Array
from gp.checks import require_finite, require_positive, require_shape


class DiagonalGaussian(Normal):
    """A batch of Gaussians with independent coordinates.

    Parameters
    ----------
    mean : (..., D)
    variance : (..., D), positive
    """

    def __init__(self, mean: Array, variance: Array) -> None:
        require_finite("mean", mean)
        require_shape("variance", variance, mean.shape)
        require_positive("variance", variance)
        self.mean = mean
        self.variance = variance

    @classmethod
    def _of(cls, mean: Array, variance: Array, **known: Any) -> Self:
        self = object.__new__(cls)
        self.__dict__.update(mean=mean, variance=variance, **known)
        return self

    @classmethod
    def from_natural(cls, natural: Values) -> Self:
        variance = -0.5 / natural[1]
        return cls._of(variance * natural[0], variance, natural=natural)

    @classmethod
    def from_unconstrained(cls, unconstrained: Values) -> Self:
        """Return the family at u = (m, ln s)."""
        mean, log_scale = unconstrained
        scale = namespace(log_scale).exp(log_scale)
        known = {"unconstrained": unconstrained, "scale": scale, "log_variance": 2.0 * log_scale}
        return cls._of(mean, scale * scale, **known)

    @cached_property
    def natural(self) -> Values:
        return self.mean / self.variance, -0.5 / self.variance

    @cached_property
    def unconstrained(self) -> Values:
        """u = (m, ln s)."""
        return self.mean, 0.5 * self.log_variance

    @cached_property
    def log_variance(self) -> Array:
        """ln v, (..., D)."""
        return namespace(self.variance).log(self.variance)

    @cached_property
    def scale(self) -> Array:
        """s, (..., D)."""
        return namespace(self.variance).sqrt(self.variance)

    @property
    def covariance(self) -> Array:
        """The diagonal covariance as a matrix, (..., D, D)."""
        return diagonal_matrix(self.variance)

    @property
    def log_determinant(self) -> Array:
        """sum ln v, batch-shaped."""
        return self.log_variance.sum(-1)

    @property
    def expected_statistics(self) -> Values:
        """mu = (m, v + m^2)."""
        return self.mean, self.variance + self.mean * self.mean

    @property
    def log_normaliser(self) -> Array:
        """A = sum(m^2 / v + ln v) / 2."""
        return 0.5 * (self.mean * self.mean / self.variance + self.log_variance).sum(-1)

    def kl(self, other: DiagonalGaussian) -> Array:
        gap = other.mean - self.mean
        ratio = (self.variance + gap * gap) / other.variance
        return 0.5 * (ratio - 1.0 + other.log_variance - self.log_variance).sum(-1)

    def statistics(self, theta: Array) -> Values:
        return theta, theta * theta

    def log_prob(self, theta: Array) -> Array:
        gap = theta - self.mean
        return -0.5 * (gap * gap / self.variance + LOG_2PI + self.log_variance).sum(-1)

    def from_noise(self, noise: np.ndarray) -> Array:
        """m + s xi for standard normal noise xi (n, ..., D)."""
        return self.mean + self.scale * like(noise, self.mean)

    def path_gradient(self, noise: np.ndarray, slopes: np.ndarray) -> Values:
        """d/du of the mean of f(m + s xi) over n draws, for one NumPy Gaussian.

        Parameters
        ----------
        noise : xi (..., n, D), in groups of n draws; a mean is taken for each group.
        slopes : df/dtheta at m + s xi, of the same shape.
        """
        return slopes.mean(-2), (slopes * noise).mean(-2) * self.scale

    def log_prob_slopes(self, noise: np.ndarray) -> np.ndarray:
        """d ln q / d theta at m + s xi, -xi / s, for noise xi (n, D)."""
        return -noise / self.scale

    @property
    def entropy_gradient(self) -> Values:
        """d/du of the entropy: (0, 1)."""
        xp = namespace(self.mean)
        return xp.zeros_like(self.mean), xp.ones_like(self.mean)

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta: dm = v d1 + 2 m v d2, dv = 2 v^2 d2."""
        mean_step = self.variance * (tangent[0] + 2.0 * self.mean * tangent[1])
        variance_step = 2.0 * self.variance * self.variance * tangent[1]
        return mean_step, variance_step + 2.0 * self.mean * mean_step

    def fisher_solve(self, cotangent: Values) -> Values:
        variance_step = cotangent[1] - 2.0 * self.mean * cotangent[0]
        second = 0.5 * variance_step / (self.variance * self.variance)
        return cotangent[0] / self.variance - 2.0 * self.mean * second, second

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        return gradient[0] + 2.0 * gradient[1] * self.mean, 2.0 * gradient[1] * self.variance

    def gradient_to_natural(self, gradient: Values) -> Values:
        second = 0.5 * gradient[1] / self.variance
        return gradient[0] - 2.0 * second * self.mean, second

    def retract(self, tangent: Values) -> Self:
        change = -2.0 * tangent[1]
        bend = 0.5 * change * change * self.variance
        first = self.natural[0] + tangent[0] + bend * self.mean
        return self.from_natural((first, -0.5 * (1.0 / self.variance + change + bend)))
