"""Prior means: zero, constant, linear.

A mean is m(x) = offset(x) + sum_j basis_j(x) coefficient_j. The coefficients enter linearly, so a fit finds
them in closed form by generalised least squares. The means here are polynomials of degree one, so that their
expectation under a measure is a function of that measure's mean and covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gp.arrays import Array, as_like, namespace
from gp.names import all_suggesting


@runtime_checkable
class Mean(Protocol):
    """The contract of a prior mean."""

    def __call__(self, x: Array) -> Array:
        """Return m(x_i), (n,), for points x (n, D)."""

    def gradient(self, x: Array) -> Array:
        """Return dm/dx at x_i, (n, D)."""

    def basis(self, x: Array) -> Array:
        """Return the functions that enter linearly, (n, p); p may be 0."""

    def with_coefficients(self, coefficients: Array) -> Mean:
        """Return a copy whose linear coefficients are (p,)."""

    def expectation(self, location: Array, covariance: Array) -> Array:
        """Return the expectation under a measure with this mean (D,) and covariance (D, D)."""

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        """Return its gradients in the measure's mean, (D,), and covariance, (D, D), symmetric."""


class _Affine(Mean, Protocol):
    """A mean without slope and coefficients where none are stated, with an expectation that is a value."""

    def gradient(self, x: Array) -> Array:
        return namespace(x).zeros_like(x)

    def basis(self, x: Array) -> Array:
        return x[:, :0]

    def with_coefficients(self, coefficients: Array) -> Mean:
        return self

    def expectation(self, location: Array, covariance: Array) -> Array:
        return self(location[None, :])[0] + 0.0 * location[0]  # of the graph of the location

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        return self.gradient(location[None, :])[0], namespace(covariance).zeros_like(covariance)


@dataclass(frozen=True, eq=False)
class Zero(_Affine):
    """m(x) = 0."""

    def __call__(self, x: Array) -> Array:
        return namespace(x).zeros_like(x[:, 0])


@dataclass(frozen=True, eq=False)
class Constant(_Affine):
    """m(x) = value, in output units."""

    value: Array = 0.0

    def __call__(self, x: Array) -> Array:
        return as_like(self.value, x) * namespace(x).ones_like(x[:, 0])

    def basis(self, x: Array) -> Array:
        return namespace(x).ones_like(x[:, :1])

    def with_coefficients(self, coefficients: Array) -> Constant:
        return Constant(coefficients[0])


@dataclass(frozen=True, eq=False)
class Linear(_Affine):
    """m(x) = intercept + slope . x; slope a number (for every dimension) or (D,)."""

    intercept: Array = 0.0
    slope: Array = 0.0

    def __call__(self, x: Array) -> Array:
        return namespace(x).sum(as_like(self.slope, x) * x, axis=1) + as_like(self.intercept, x)

    def gradient(self, x: Array) -> Array:
        return as_like(self.slope, x) * namespace(x).ones_like(x)

    def basis(self, x: Array) -> Array:
        xp = namespace(x)
        return xp.concat([xp.ones_like(x[:, :1]), x], axis=1)

    def with_coefficients(self, coefficients: Array) -> Linear:
        return Linear(coefficients[0], coefficients[1:])


@dataclass(frozen=True, eq=False)
class Fixed(_Affine):
    """``mean`` with its present coefficients, which a fit does not change."""

    mean: Mean

    def __call__(self, x: Array) -> Array:
        return self.mean(x)

    def gradient(self, x: Array) -> Array:
        return self.mean.gradient(x)

    def expectation(self, location: Array, covariance: Array) -> Array:
        return self.mean.expectation(location, covariance)

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        return self.mean.expectation_gradient(location, covariance)


all_suggesting(globals())
