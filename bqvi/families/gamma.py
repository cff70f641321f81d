"""Gamma over a positive rate.

    density lambda^(a - 1) exp(-b lambda):   eta = (a, b),   t = (ln lambda, -lambda),   h = 1 / lambda,
    A = ln Gamma(a) - a ln b,   mu = (psi(a) - ln b, -a / b),   u = (ln a, ln b).

Points theta are **ln lambda**, as those of a Dirichlet are: small shapes underflow. Densities are in lambda.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from bqvi.arrays import Seed, Values, digamma, gammaln, namespace, trigamma
from bqvi.checks import require_positive, require_shape
from bqvi.families.log_gamma import rsample_log_gamma
from gp.arrays import Array


class Gamma:
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
        """eta = (a, b)."""
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
        """KL(self || other), batch-shaped."""
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
        excess = self.shape - 1.0
        xp = namespace(theta)
        # 0 * -inf is 0 here: under a flat prior a rate of zero has density 1
        counted = xp.where(excess == 0.0, xp.zeros_like(theta), theta)
        return excess * counted - self.rate * xp.exp(theta) - self.log_normaliser

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` draws, as ln lambda."""
        return self.rsample(n, seed)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws, as ln lambda, with implicit reparameterisation gradients."""
        return rsample_log_gamma(self.shape, n, seed) - self.log_rate

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta."""
        first = trigamma(self.shape) * tangent[0] - tangent[1] / self.rate
        return first, -tangent[0] / self.rate + self.shape / self.rate**2 * tangent[1]

    def fisher_solve(self, cotangent: Values) -> Values:
        """d eta of d mu."""
        determinant = trigamma(self.shape) * self.shape - 1.0
        first = self.shape * cotangent[0] + self.rate * cotangent[1]
        second = self.rate * cotangent[0] + self.rate**2 * trigamma(self.shape) * cotangent[1]
        return first / determinant, second / determinant

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """dL/d(ln a, ln b) from the natural gradient."""
        first, second = self.fisher_product(gradient)
        return self.shape * first, self.rate * second

    def gradient_to_natural(self, gradient: Values) -> Values:
        """The natural gradient from dL/d(ln a, ln b)."""
        return self.fisher_solve((gradient[0] / self.shape, gradient[1] / self.rate))

    def retract(self, tangent: Values) -> Self:
        """v + d + d^2 / (2 v) of each parameter v, positive for every d."""
        return self.from_natural(
            tuple(v + d + 0.5 * d * d / v for v, d in zip(self.natural, tangent, strict=True))
        )
