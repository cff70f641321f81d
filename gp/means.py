"""Prior means: zero, constant, linear, and the negative quadratic of VBMC.

A mean is m(x) = offset(x) + sum_j basis_j(x) coefficient_j. The coefficients enter linearly, so a
fit finds them in closed form by generalised least squares. Its other quantities (the location and scale of a
quadratic) are parameters like a kernel's. All of these means are polynomials of degree two at most, so their
expectation under a measure is a function of that measure's mean and covariance only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.kernels.base import Declared, Parameter, parameter


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

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the other parameters."""

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other values of these parameters."""

    def pullback(self, x: Array, weights: Array) -> Array:
        """Return the gradient of sum_i w_i m(x_i) in the parameters (log if positive). NumPy."""

    def expectation(self, location: Array, covariance: Array) -> Array:
        """Return the expectation under a measure with this mean (D,) and covariance (D, D)."""

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        """Return its gradients in the measure's mean, (D,), and covariance, (D, D), symmetric."""


class _WithoutParameters(Declared):
    """A mean with nothing to fit but its coefficients."""

    def pullback(self, x: Array, weights: Array) -> Array:
        return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Zero(_WithoutParameters):
    """m(x) = 0."""

    def __call__(self, x: Array) -> Array:
        return namespace(x).zeros_like(x[:, 0])

    def gradient(self, x: Array) -> Array:
        return namespace(x).zeros_like(x)

    def basis(self, x: Array) -> Array:
        return x[:, :0]

    def with_coefficients(self, coefficients: Array) -> Zero:
        return self

    def expectation(self, location: Array, covariance: Array) -> Array:
        return 0.0 * location[0]

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        xp = namespace(location, covariance)
        return xp.zeros_like(location), xp.zeros_like(covariance)


@dataclass(frozen=True, eq=False)
class Constant(_WithoutParameters):
    """m(x) = value, in output units."""

    value: Array = 0.0

    def __call__(self, x: Array) -> Array:
        return as_like(self.value, x) * namespace(x).ones_like(x[:, 0])

    def gradient(self, x: Array) -> Array:
        return namespace(x).zeros_like(x)

    def basis(self, x: Array) -> Array:
        return namespace(x).ones_like(x[:, :1])

    def with_coefficients(self, coefficients: Array) -> Constant:
        return Constant(coefficients[0])

    def expectation(self, location: Array, covariance: Array) -> Array:
        return as_like(self.value, location) + 0.0 * location[0]

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        return Zero().expectation_gradient(location, covariance)


@dataclass(frozen=True, eq=False)
class Linear(_WithoutParameters):
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

    def expectation(self, location: Array, covariance: Array) -> Array:
        return self(location[None, :])[0]

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        xp = namespace(location, covariance)
        return as_like(self.slope, location) * xp.ones_like(location), xp.zeros_like(covariance)


@dataclass(frozen=True, eq=False)
class NegativeQuadratic(Declared):
    """m(x) = maximum - sum_d (x_d - location_d)^2 / (2 scale_d^2).

    The mean of VBMC's Gaussian process for a log joint (Acerbi 2018, Eq. 4), which makes the
    exponential of the surrogate integrable.

    Attributes
    ----------
    maximum : a number, in output units.
    location : a number or (D,), in input units.
    scale : a positive number or (D,), in input units per root of the output unit.
    """

    maximum: Array = 0.0
    location: Array = parameter(0.0, "location", input_power=1, positive=False)
    scale: Array = parameter(1.0, "lengthscale", input_power=1, output_power=-0.5)

    def _standardised(self, x: Array) -> Array:
        return (x - as_like(self.location, x)) / as_like(self.scale, x)

    def __call__(self, x: Array) -> Array:
        squares = namespace(x).sum(self._standardised(x) ** 2, axis=1)
        return as_like(self.maximum, x) - 0.5 * squares

    def gradient(self, x: Array) -> Array:
        return -self._standardised(x) / as_like(self.scale, x)

    def basis(self, x: Array) -> Array:
        return namespace(x).ones_like(x[:, :1])

    def with_coefficients(self, coefficients: Array) -> NegativeQuadratic:
        return replace(self, maximum=coefficients[0])

    def pullback(self, x: Array, weights: Array) -> Array:
        standardised = self._standardised(x)
        location = weights @ (standardised / self.scale)
        scale = weights @ standardised**2
        return np.concatenate(
            [
                location if np.size(self.location) > 1 else [location.sum()],
                scale if np.size(self.scale) > 1 else [scale.sum()],
            ]
        )

    def expectation(self, location: Array, covariance: Array) -> Array:
        """Return m(location) - sum_d covariance_dd / (2 scale_d^2)."""
        xp = namespace(location, covariance)
        spread = xp.linalg.diagonal(covariance) / as_like(self.scale, location) ** 2
        return self(location[None, :])[0] - 0.5 * xp.sum(spread)

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        """Return dm/dx at the location, and the matrix with -1 / (2 scale_d^2) on its diagonal."""
        xp = namespace(location, covariance)
        precision = xp.ones_like(location) / as_like(self.scale, location) ** 2
        eye = xp.eye(location.shape[0], dtype=location.dtype, device=location.device)
        return self.gradient(location[None, :])[0, :], -0.5 * eye * precision


@dataclass(frozen=True, eq=False)
class Fixed(_WithoutParameters):
    """``mean`` with its present coefficients and parameters, which a fit does not change."""

    mean: Mean

    def __call__(self, x: Array) -> Array:
        return self.mean(x)

    def gradient(self, x: Array) -> Array:
        return self.mean.gradient(x)

    def basis(self, x: Array) -> Array:
        return x[:, :0]

    def with_coefficients(self, coefficients: Array) -> Fixed:
        return self

    def expectation(self, location: Array, covariance: Array) -> Array:
        return self.mean.expectation(location, covariance)

    def expectation_gradient(self, location: Array, covariance: Array) -> tuple[Array, Array]:
        return self.mean.expectation_gradient(location, covariance)
