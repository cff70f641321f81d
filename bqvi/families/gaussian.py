"""Gaussians with any covariance, or with a diagonal one (thesis Table 1).

    eta = (C^-1 m, -C^-1 / 2),   t(x) = (x, x x^T),   mu = (m, C + m m^T),
    A = m^T C^-1 m / 2 + ln|C| / 2,   h = (2 pi)^(-D/2).

Diagonal matrices are stored as vectors, of which all products are entry by entry: eta = (m / v, -1 / (2 v)),
t(x) = (x, x^2), mu = (m, v + m^2). Otherwise the formulas are the same, and stand once, in `Normal`.

Unconstrained coordinates are u = (m, R): the covariance is C = L L^T, where L has the entries of R below
its diagonal and the exponentials of R's diagonal on it; u = (m, ln s) with v = s^2. With a natural gradient
(g, G), G symmetric,

    dL/dm = g + 2 G m,   dL/dL = tril(2 G L),   and back: G = L^-T S L^-1 / 2, S symmetric with the
    lower triangle of L^T dL/dL (L^T is upper triangular, so that the strict upper part of 2 G L does not
    enter that triangle).

The retraction along (d eta_1, d eta_2) takes the precision P, with G = -2 d eta_2, to

    P + G + G C G / 2 = (P + (P + G) C (P + G)) / 2,

positive definite for every G (Lin, Schmidt and Khan 2020), and moves m by C' (d eta_1 + 2 d eta_2 m)
with the new covariance, as the straight line does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from bqvi.arrays import Values, diagonal, diagonal_matrix, like, matvec, namespace, outer, transpose
from bqvi.families import log_cholesky
from bqvi.families.family import ExponentialFamily
from gp.arrays import LOG_2PI, Array
from gp.checks import Seed, generator, require_covariance, require_finite, require_positive, require_shape


class _Products(NamedTuple):
    """The algebra of matrices C, whole or diagonal."""

    apply: Callable[[Array, Array], Array]
    """C v."""
    outer: Callable[[Array, Array], Array]
    """v w^T."""
    times: Callable[[Array, Array], Array]
    """C B."""
    turned: Callable[[Array], Array]
    """C^T."""
    matrix: Callable[[Array], Array]
    """The matrix of a diagonal."""
    axes: tuple[int, ...]
    """Those of C."""


class Normal(ExponentialFamily):
    """Gaussians N(m, C), C = L L^T, whose matrices are (..., D, D), or (..., D) where they are diagonal."""

    leaf_names = ("", "")
    _by: ClassVar[_Products]
    mean: Array
    _spread: Array
    """C."""
    precision: Array
    """C^-1."""
    _root: Array
    """L."""
    log_determinant: Array
    """ln|C|, batch-shaped."""
    _crossed: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """The mean of the products of slopes and noise (..., n, D), a matrix."""
    _from_factor: Callable[[Array], Array]
    """d/du of the derivative by L."""
    _to_symmetric: Callable[[Array], Array]
    """G of the derivative by u."""

    @classmethod
    def _of(cls, **known: Array | Values) -> Self:
        """An instance from any one of its representations; the others are computed at first use."""
        self = object.__new__(cls)
        self.__dict__.update(known)
        return self

    @property
    def dimension(self) -> int:
        """D."""
        return int((self.mean if "mean" in self.__dict__ else self.natural[0]).shape[-1])

    @property
    def mode(self) -> Array:
        """The mean."""
        return self.mean

    @cached_property
    def natural(self) -> Values:
        return self._by.apply(self.precision, self.mean), -0.5 * self.precision

    @cached_property
    def expected_statistics(self) -> Values:
        """mu = (m, C + m m^T)."""
        return self.mean, self._spread + self._by.outer(self.mean, self.mean)

    @property
    def entropy(self) -> Array:
        """(D ln(2 pi e) + ln|C|) / 2 (thesis Eq. 3.37, with its sign corrected)."""
        return 0.5 * (self.dimension * (LOG_2PI + 1.0) + self.log_determinant)

    @property
    def log_normaliser(self) -> Array:
        """A = (m^T C^-1 m + ln|C|) / 2."""
        return 0.5 * ((self.natural[0] * self.mean).sum(-1) + self.log_determinant)

    def kl(self, other: Self) -> Array:
        gap = other.mean - self.mean
        mahalanobis = (gap * self._by.apply(other.precision, gap)).sum(-1)
        trace = (other.precision * self._spread).sum(self._by.axes)
        log_ratio = other.log_determinant - self.log_determinant
        return 0.5 * (trace + mahalanobis - self.dimension + log_ratio)

    def statistics(self, theta: Array) -> Values:
        return theta, self._by.outer(theta, theta)

    def log_base_measure(self, theta: Array) -> Array:
        return namespace(theta).full_like(theta[..., 0], -0.5 * theta.shape[-1] * LOG_2PI)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws m + L xi (thesis Eq. 5.19), differentiable in torch parameters."""
        return self.from_noise(generator(seed).standard_normal((n, *self.mean.shape)))

    def from_noise(self, noise: np.ndarray) -> Array:
        """m + L xi for standard normal noise xi (n, ..., D)."""
        return self.mean + self._by.apply(self._root, like(noise, self.mean))

    def path_gradient(self, noise: np.ndarray, slopes: np.ndarray) -> Values:
        """d/du of the mean of f(m + L xi) over n draws, for one NumPy Gaussian.

        Parameters
        ----------
        noise : xi (..., n, D), in groups of n draws; a mean is taken for each group.
        slopes : df/dtheta at m + L xi, of the same shape.
        """
        return slopes.mean(-2), self._from_factor(self._crossed(slopes, noise))

    @property
    def entropy_gradient(self) -> Values:
        """d/du of the entropy: (0, I)."""
        xp = namespace(self.mean)
        return xp.zeros_like(self.mean), self._by.matrix(xp.ones_like(self.mean))

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta: dm = C (d1 + 2 d2 m), dC = 2 C d2 C."""
        mean_step = self._by.apply(self._spread, tangent[0] + 2.0 * self._by.apply(tangent[1], self.mean))
        cross = self._by.outer(self.mean, mean_step)
        spread_step = 2.0 * self._by.times(self._by.times(self._spread, tangent[1]), self._spread)
        return mean_step, spread_step + cross + self._by.turned(cross)

    def fisher_solve(self, cotangent: Values) -> Values:
        cross = self._by.outer(self.mean, cotangent[0])
        spread_step = cotangent[1] - cross - self._by.turned(cross)
        second = 0.5 * self._by.times(self._by.times(self.precision, spread_step), self.precision)
        return self._by.apply(self.precision, cotangent[0]) - 2.0 * self._by.apply(second, self.mean), second

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        mean_gradient = gradient[0] + 2.0 * self._by.apply(gradient[1], self.mean)
        return mean_gradient, self._from_factor(2.0 * self._by.times(gradient[1], self._root))

    def gradient_to_natural(self, gradient: Values) -> Values:
        second = self._to_symmetric(gradient[1])
        return gradient[0] - 2.0 * self._by.apply(second, self.mean), second

    def retract(self, tangent: Values) -> Self:
        change = -(tangent[1] + self._by.turned(tangent[1]))
        bend = 0.5 * self._by.times(self._by.times(change, self._spread), change)
        precision = self.precision + change + bend
        linear = self._by.apply(self.precision, self.mean) + tangent[0]
        # the mean follows the straight line: P' m' = P m + d eta_1 + (P' - P + 2 d eta_2) m
        return self.from_natural((linear + self._by.apply(bend, self.mean), -0.5 * precision))


class Gaussian(Normal):
    """A batch of Gaussians N(m, C) over R^D.

    Parameters
    ----------
    mean : (..., D)
    covariance : (..., D, D), symmetric positive definite
    """

    _by = _Products(matvec, outer, operator.matmul, transpose, diagonal_matrix, (-2, -1))

    def __init__(self, mean: Array, covariance: Array) -> None:
        require_finite("mean", mean)
        require_shape("covariance", covariance, (*mean.shape, mean.shape[-1]))
        require_covariance("covariance", covariance)
        self.mean = mean
        self.covariance = covariance

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

    @property
    def _spread(self) -> Array:
        return self.covariance

    @cached_property
    def scale_tril(self) -> Array:
        """Lower Cholesky factor L of the covariance, (..., D, D)."""
        return namespace(self.covariance).linalg.cholesky(self.covariance)

    @property
    def _root(self) -> Array:
        return self.scale_tril

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
    def unconstrained(self) -> Values:
        """u = (m, R)."""
        return self.mean, log_cholesky.coordinates(self.scale_tril)

    @cached_property
    def log_determinant(self) -> Array:
        """ln|C|, batch-shaped."""
        if "scale_tril" in self.__dict__ or "natural" not in self.__dict__:
            return 2.0 * namespace(self.scale_tril).log(diagonal(self.scale_tril)).sum(-1)
        return -namespace(self.precision).linalg.slogdet(self.precision)[1]

    def log_prob(self, theta: Array) -> Array:
        whitened = matvec(self.scale_inverse, theta - self.mean)
        squares = (whitened * whitened).sum(-1)
        return -0.5 * (squares + self.dimension * LOG_2PI + self.log_determinant)

    def log_prob_slopes(self, noise: np.ndarray) -> np.ndarray:
        """d ln q / d theta at m + L xi, -L^-T xi, for noise xi (n, D)."""
        return -noise @ self.scale_inverse

    def _crossed(self, slopes: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return np.asarray(transpose(slopes) @ noise / noise.shape[-2])

    def _from_factor(self, slope: Array) -> Array:
        return log_cholesky.from_factor(slope, self.scale_tril)

    def _to_symmetric(self, raw: Array) -> Array:
        return log_cholesky.pushed_forward(raw, self.scale_tril, self.scale_inverse)


class DiagonalGaussian(Normal):
    """A batch of Gaussians with independent coordinates: mean-field over the coordinates of theta.

    Parameters
    ----------
    mean : (..., D)
    variance : (..., D), positive
    """

    _by = _Products(operator.mul, operator.mul, operator.mul, lambda v: v, lambda v: v, (-1,))

    def __init__(self, mean: Array, variance: Array) -> None:
        require_finite("mean", mean)
        require_shape("variance", variance, mean.shape)
        require_positive("variance", variance)
        self.mean = mean
        self.variance = variance

    @classmethod
    def from_natural(cls, natural: Values) -> Self:
        variance = -0.5 / natural[1]
        return cls._of(mean=variance * natural[0], variance=variance, natural=natural)

    @classmethod
    def from_unconstrained(cls, unconstrained: Values) -> Self:
        """Return the family at u = (m, ln s)."""
        mean, log_scale = unconstrained
        scale = namespace(log_scale).exp(log_scale)
        known = {"unconstrained": unconstrained, "scale": scale, "log_variance": 2.0 * log_scale}
        return cls._of(mean=mean, variance=scale * scale, **known)

    @property
    def _spread(self) -> Array:
        return self.variance

    @property
    def precision(self) -> Array:
        """1 / v, (..., D)."""
        return 1.0 / self.variance

    @cached_property
    def scale(self) -> Array:
        """s, (..., D)."""
        return namespace(self.variance).sqrt(self.variance)

    @property
    def _root(self) -> Array:
        return self.scale

    @cached_property
    def unconstrained(self) -> Values:
        """u = (m, ln s)."""
        return self.mean, 0.5 * self.log_variance

    @cached_property
    def log_variance(self) -> Array:
        """ln v, (..., D)."""
        return namespace(self.variance).log(self.variance)

    @property
    def covariance(self) -> Array:
        """The diagonal covariance as a matrix, (..., D, D)."""
        return diagonal_matrix(self.variance)

    @property
    def log_determinant(self) -> Array:
        """sum ln v, batch-shaped."""
        return self.log_variance.sum(-1)

    def log_prob(self, theta: Array) -> Array:
        gap = theta - self.mean
        return -0.5 * (gap * gap / self.variance + LOG_2PI + self.log_variance).sum(-1)

    def log_prob_slopes(self, noise: np.ndarray) -> np.ndarray:
        """d ln q / d theta at m + s xi, -xi / s, for noise xi (n, D)."""
        return -noise / self.scale

    def _crossed(self, slopes: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return np.asarray((slopes * noise).mean(-2))

    def _from_factor(self, slope: Array) -> Array:
        return slope * self.scale

    def _to_symmetric(self, raw: Array) -> Array:
        return 0.5 * raw / self.variance
