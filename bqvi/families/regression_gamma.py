"""Normal-gamma over the coefficients of J linear regressions and the noise precision that they share.

    v ~ InverseGamma(nu / 2, s / 2),   w_j | v ~ N(m_j, v V^-1),  j = 1..J,   lambda = 1 / v

    t = (lambda W, -lambda W^T W / 2, -lambda / 2, ln(lambda) / 2),   h = (2 pi)^(-J P / 2),   W (J, P),
    eta = (M V, V, s + tr(M V M^T), nu + 2 + J P),
    A = (nu ln 2 - nu ln s - J ln|V|) / 2 + ln Gamma(nu / 2),
    mu = (nu M / s, -(J V^-1 + nu M^T M / s) / 2, -nu / (2 s), (psi(nu / 2) + ln 2 - ln s) / 2),

psi the digamma function. An observation y (J,) = W x + noise adds (y x^T, x x^T, |y|^2, J). With P = 1 and
x = 1 it is `NormalInverseGamma`, whose conventions are these. Densities are over (W, v), so eta = 0 is the
flat density.

Points theta are arrays (..., J P + 1): the rows of W, then ln v. NumPy arrays only. There are no Euclidean
coordinates: coordinate ascent, natural gradients and point masses need none.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import digamma, gammaln

from bqvi.arrays import Seed, Values, generator, transpose
from bqvi.checks import require_covariance, require_finite, require_positive, require_shape
from bqvi.families.gaussian import LOG_2PI

_LOG_2 = math.log(2.0)


class RegressionGamma:
    """A batch of distributions of coefficients and a noise variance.

    Parameters
    ----------
    mean : (..., J, P), M
    precision : (..., P, P), V, symmetric positive definite: that of coefficients in units of 1 / v
    scale : (...), s > 0
    dof : (...), nu > 0

    Raises
    ------
    ValueError
        Shapes that do not fit, entries that are not finite or out of their range.
    """

    leaf_names = ("", "", "", "")

    def __init__(self, mean: np.ndarray, precision: np.ndarray, scale: np.ndarray, dof: np.ndarray) -> None:
        require_finite("mean", mean)
        batch, p = mean.shape[:-2], mean.shape[-1]
        require_shape("precision", precision, (*batch, p, p))
        require_covariance("precision", precision)
        for name, value in (("scale", scale), ("dof", dof)):
            require_shape(name, np.asarray(value), batch)
            require_positive(name, np.asarray(value))
        self.coefficients, self.precision = mean, precision
        self.scale, self.dof = np.asarray(scale, float), np.asarray(dof, float)

    def from_natural(self, natural: Values) -> Self:
        """Return the family at eta; not checked, for use inside loops."""
        linear, precision, second, total = natural
        other = object.__new__(type(self))
        other.precision = precision
        other.coefficients = transpose(np.linalg.solve(precision, transpose(linear)))
        other.scale = second - (other.coefficients * linear).sum((-2, -1))
        other.dof = total - (2.0 + linear.shape[-1] * linear.shape[-2])
        other.__dict__["natural"] = natural
        return other

    @property
    def n_outputs(self) -> int:
        """J."""
        return int(self.coefficients.shape[-2])

    @property
    def dimension(self) -> int:
        """P."""
        return int(self.coefficients.shape[-1])

    @cached_property
    def natural(self) -> Values:
        """eta."""
        linear = self.coefficients @ self.precision
        second = self.scale + (self.coefficients * linear).sum((-2, -1))
        return linear, self.precision, second, self.dof + (2.0 + self.n_outputs * self.dimension)

    @property
    def mean(self) -> np.ndarray:
        """E[W] and the logarithm of the harmonic mean of v, as a point (..., J P + 1)."""
        return self._packed(np.log(self.scale / self.dof))

    @property
    def mode(self) -> np.ndarray:
        """The densest (W, v): M and s / (nu + 2 + J P), as a point (..., J P + 1)."""
        return self._packed(np.log(self.scale / self.natural[3]))

    def _packed(self, log_variance: np.ndarray) -> np.ndarray:
        rows = self.coefficients.reshape(*self.coefficients.shape[:-2], -1)
        return np.concatenate([rows, log_variance[..., None]], axis=-1)

    def unpacked(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W (..., J, P) and ln v (...) of points ``theta``."""
        shape = (*theta.shape[:-1], self.n_outputs, self.dimension)
        return theta[..., :-1].reshape(shape), theta[..., -1]

    @cached_property
    def covariance(self) -> np.ndarray:
        """V^-1, of coefficients in units of v, (..., P, P)."""
        return np.linalg.inv(self.precision)

    @cached_property
    def log_determinant(self) -> np.ndarray:
        """ln|V|, batch-shaped."""
        return np.asarray(np.linalg.slogdet(self.precision)[1])

    @cached_property
    def expected_precision(self) -> np.ndarray:
        """E[lambda] = nu / s, batch-shaped."""
        return np.asarray(self.dof / self.scale)

    @cached_property
    def expected_statistics(self) -> Values:
        """mu."""
        linear = self.expected_precision[..., None, None] * self.coefficients
        squares = self.n_outputs * self.covariance + transpose(self.coefficients) @ linear
        logs = digamma(0.5 * self.dof) + _LOG_2 - np.log(self.scale)
        return linear, -0.5 * squares, -0.5 * self.expected_precision, 0.5 * logs

    @cached_property
    def log_normaliser(self) -> np.ndarray:
        """A."""
        logs = self.dof * (_LOG_2 - np.log(self.scale)) - self.n_outputs * self.log_determinant
        return np.asarray(0.5 * logs + gammaln(0.5 * self.dof))

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of (W, v), nats."""
        mu = self.expected_statistics
        inner = sum(_inner(a, b, self.dof.ndim) for a, b in zip(self.natural, mu, strict=True))
        return np.asarray(self.log_normaliser + 0.5 * self.n_outputs * self.dimension * LOG_2PI - inner)

    def kl(self, other: RegressionGamma) -> np.ndarray:
        """KL(self || other), batch-shaped."""
        gap = self.coefficients - other.coefficients
        squares = self.expected_precision * ((gap @ other.precision) * gap).sum((-2, -1))
        trace = (other.precision * self.covariance).sum((-2, -1)) - self.dimension
        logs = self.log_determinant - other.log_determinant
        means = 0.5 * (self.n_outputs * (trace + logs) + squares)
        log_ratio = np.log(self.scale) - np.log(other.scale)
        spread = 0.5 * (self.dof * (other.scale / self.scale - 1.0) + other.dof * log_ratio)
        shape = 0.5 * (self.dof - other.dof) * digamma(0.5 * self.dof)
        return np.asarray(means + spread + shape + gammaln(0.5 * other.dof) - gammaln(0.5 * self.dof))

    def statistics(self, theta: np.ndarray) -> Values:
        """t of points (L, ..., J P + 1)."""
        w, log_variance = self.unpacked(theta)
        precision = np.exp(-log_variance)
        linear = precision[..., None, None] * w
        return linear, -0.5 * transpose(w) @ linear, -0.5 * precision, -0.5 * log_variance

    def log_base_measure(self, theta: np.ndarray) -> np.ndarray:
        """-(J P / 2) ln(2 pi), whatever theta."""
        return np.full(theta.shape[:-1], -0.5 * self.n_outputs * self.dimension * LOG_2PI)

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        """Log density, in (W, v), at points (L, ..., J P + 1)."""
        w, log_variance = self.unpacked(theta)
        gap = w - self.coefficients
        quadratic = ((gap @ self.precision) * gap).sum((-2, -1)) + self.scale
        exponent = -0.5 * (np.exp(-log_variance) * quadratic + self.natural[3] * log_variance)
        return np.asarray(exponent - self.log_normaliser + self.log_base_measure(theta))

    def sample(self, n: int, seed: Seed) -> np.ndarray:
        """``n`` draws (n, ..., J P + 1)."""
        rng = generator(seed)
        log_variance = (
            np.log(self.scale) - _LOG_2 - np.log(rng.standard_gamma(0.5 * self.dof, (n, *self.dof.shape)))
        )
        noise = rng.standard_normal((n, *self.coefficients.shape))
        root = np.linalg.cholesky(self.covariance)
        spread = np.exp(0.5 * log_variance)[..., None, None]
        w = self.coefficients + spread * (noise @ transpose(root))
        return np.concatenate([w.reshape(*w.shape[:-2], -1), log_variance[..., None]], axis=-1)


def _inner(a: Any, b: Any, batch: int) -> np.ndarray:
    """<a, b>, batch-shaped."""
    product = np.asarray(a * b)
    return np.asarray(product.reshape(*product.shape[:batch], -1).sum(-1))
