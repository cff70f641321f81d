"""Gamma over a positive rate.

    density lambda^(a - 1) exp(-b lambda):   eta = (a, b),   t = (ln lambda, -lambda),   h = 1 / lambda,
    A = ln Gamma(a) - a ln b,   mu = (psi(a) - ln b, -a / b),   u = (ln a, ln b).

Points theta are **ln lambda**, as those of a Dirichlet are: small shapes underflow. Densities are in lambda.

y ~ Gamma(a, 1) is drawn as ln y = ln y' + ln(u) / a with y' ~ Gamma(a + 1, 1) and u uniform. The
reparameterisation is implicit (Figurnov et al. 2018): with F the CDF of y,

    d ln y / da = -(dF / da) / (y p(y)),        (thesis Eqs 5.21 and 5.26 without the inverse CDF)
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
import scipy.special

from bqvi.arrays import Values, digamma, gammaln, like, namespace, trigamma
from bqvi.families.family import ExponentialFamily
from gp.arrays import Array, is_torch, to_numpy
from gp.checks import Seed, generator, require_positive, require_shape

_SMALL = np.log(1e-12)
"""The draw below which its density and slope are those of the power law, to rounding."""


def log_gamma_draws(shape: np.ndarray, n: int, seed: Seed) -> np.ndarray:
    """``n`` draws of ln y, y ~ Gamma(shape, 1): (n, *shape.shape)."""
    rng = generator(seed)
    size = (n, *shape.shape)
    boosted = np.log(rng.standard_gamma(shape + 1.0, size))
    # -ln u of a uniform u is standard exponential
    with np.errstate(divide="ignore"):  # a shape of 0 is its limit, ln y = -inf
        return np.asarray(boosted - rng.standard_exponential(size) / shape)


def log_gamma_slope(shape: np.ndarray, log_y: np.ndarray) -> np.ndarray:
    """d ln y / d shape at draws ln y, holding the CDF's value."""
    shape = np.broadcast_to(shape, log_y.shape)
    slope: np.ndarray = (scipy.special.psi(shape + 1.0) - log_y) / shape
    usual = log_y > _SMALL
    a, y = shape[usual], np.exp(log_y[usual])
    log_y_density = a * log_y[usual] - y - scipy.special.gammaln(a)
    slope[usual] = -_cdf_slope(a, y) * np.exp(-log_y_density)
    return slope


def _cdf_slope(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dF(y; a) / da."""
    h = 1e-3 * np.minimum(a, np.sqrt(a))
    lower = y < a
    slope = np.empty_like(y)
    for side, cdf, sign in (
        (lower, scipy.special.gammainc, 1.0),
        (~lower, scipy.special.gammaincc, -1.0),
    ):
        a_, y_, h_ = a[side], y[side], h[side]
        near = cdf(a_ + h_, y_) - cdf(a_ - h_, y_)
        far = cdf(a_ + 2.0 * h_, y_) - cdf(a_ - 2.0 * h_, y_)
        slope[side] = sign * (8.0 * near - far) / (12.0 * h_)
    return slope


def rsample_log_gamma(shape: Array, n: int, seed: Seed) -> Array:
    """``n`` draws of ln y; a torch ``shape`` receives their gradient."""
    if not is_torch(shape):
        return log_gamma_draws(shape, n, seed)
    host = to_numpy(shape).astype(float)
    log_y = log_gamma_draws(host, n, seed)
    if not shape.requires_grad:
        return like(log_y, shape)
    slope = like(log_gamma_slope(host, log_y), shape)
    return like(log_y, shape) + slope * (shape - shape.detach())


def times(factor: Array, logarithms: Array) -> Array:
    """``factor`` times ``logarithms``, 0 wherever the factor is 0, also at a logarithm of -inf.

    Under a flat prior an empty component has density 1.
    """
    xp = namespace(logarithms)
    return factor * xp.where(factor == 0.0, xp.zeros_like(logarithms), logarithms)


class Gamma(ExponentialFamily):
    """A batch of gamma distributions.

    Parameters
    ----------
    shape : (...), a > 0
    rate : (...), b > 0
    """

    leaf_names = ("", "")
    logarithmic_points = True
    """Points are ln lambda, the mean is lambda."""

    def __init__(self, shape: Array, rate: Array) -> None:
        require_positive("shape", shape)
        require_shape("rate", rate, shape.shape)
        require_positive("rate", rate)
        self.shape, self.rate = shape, rate

    @classmethod
    def from_natural(cls, natural: Values) -> Self:
        """Return the family at eta = (a, b); not checked, for use inside loops."""
        self = object.__new__(cls)
        self.shape, self.rate = natural
        return self

    @classmethod
    def from_unconstrained(cls, unconstrained: Values) -> Self:
        """Return the family at u = (ln a, ln b)."""
        xp = namespace(unconstrained[0])
        return cls.from_natural((xp.exp(unconstrained[0]), xp.exp(unconstrained[1])))

    @property
    def natural(self) -> Values:
        return self.shape, self.rate

    @property
    def unconstrained(self) -> Values:
        """u = (ln a, ln b)."""
        return namespace(self.shape).log(self.shape), self.log_rate

    @cached_property
    def log_rate(self) -> Array:
        """ln b."""
        return namespace(self.rate).log(self.rate)

    @cached_property
    def expected_statistics(self) -> Values:
        """mu = (psi(a) - ln b, -a / b)."""
        return digamma(self.shape) - self.log_rate, -self.shape / self.rate

    @cached_property
    def log_normaliser(self) -> Array:
        """A = ln Gamma(a) - a ln b."""
        return gammaln(self.shape) - self.shape * self.log_rate

    @property
    def entropy(self) -> Array:
        """a - ln b + ln Gamma(a) + (1 - a) psi(a)."""
        return self.shape - self.log_rate + gammaln(self.shape) + (1.0 - self.shape) * digamma(self.shape)

    @property
    def mean(self) -> Array:
        """E[lambda] = a / b."""
        return self.shape / self.rate

    @property
    def mode(self) -> Array:
        """ln of the mode (a - 1) / b; needs a >= 1."""
        excess = self.shape - 1.0
        with np.errstate(divide="ignore"):
            return (
                namespace(excess).log(namespace(excess).where(excess > 0.0, excess, 0.0 * excess))
                - self.log_rate
            )

    def kl(self, other: Gamma) -> Array:
        shape = (self.shape - other.shape) * digamma(self.shape) - gammaln(self.shape) + gammaln(other.shape)
        ratio = other.rate / self.rate - 1.0
        return shape + other.shape * (self.log_rate - other.log_rate) + self.shape * ratio

    def statistics(self, theta: Array) -> Values:
        """(ln lambda, -lambda) of points given as ln lambda."""
        return theta, -namespace(theta).exp(theta)

    def log_base_measure(self, theta: Array) -> Array:
        """-ln lambda."""
        return -theta

    def log_prob(self, theta: Array) -> Array:
        """Log density (in lambda) at points given as ln lambda (L, ...)."""
        return times(self.shape - 1.0, theta) - self.rate * namespace(theta).exp(theta) - self.log_normaliser

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws, as ln lambda, with implicit reparameterisation gradients."""
        return rsample_log_gamma(self.shape, n, seed) - self.log_rate

    def fisher_product(self, tangent: Values) -> Values:
        first = trigamma(self.shape) * tangent[0] - tangent[1] / self.rate
        return first, -tangent[0] / self.rate + self.shape / self.rate**2 * tangent[1]

    def fisher_solve(self, cotangent: Values) -> Values:
        determinant = trigamma(self.shape) * self.shape - 1.0
        first = self.shape * cotangent[0] + self.rate * cotangent[1]
        second = self.rate * cotangent[0] + self.rate**2 * trigamma(self.shape) * cotangent[1]
        return first / determinant, second / determinant

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        first, second = self.fisher_product(gradient)
        return self.shape * first, self.rate * second

    def gradient_to_natural(self, gradient: Values) -> Values:
        return self.fisher_solve((gradient[0] / self.shape, gradient[1] / self.rate))

    def retract(self, tangent: Values) -> Self:
        """v + d + d^2 / (2 v) of each parameter v, positive for every d."""
        return self.from_natural(
            tuple(v + d + 0.5 * d * d / v for v, d in zip(self.natural, tangent, strict=True))
        )
