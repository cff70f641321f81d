"""Radial stationary kernels: the base class, squared exponential, rational quadratic and Matern kernels.

k(x, y) = variance * phi(s),   s = sum_d (x_d - y_d)^2 / lengthscale_d^2,

so a kernel of this family is determined by its profile phi with phi(0) = 1, and its derivatives follow from
phi' and phi'' (derivatives in s). With D_d = (x_d - y_d) / lengthscale_d^2,

    dk/dx_d                =  2 variance phi' D_d  =  -dk/dy_d
    d2k/dx_d dy_e          = -2 variance phi' [d = e] / lengthscale_d^2 - 4 variance phi'' D_d D_e
    dk/d log lengthscale_d = -2 variance phi' (x_d - y_d)^2 / lengthscale_d^2

There is one lengthscale per dimension ("automatic relevance determination") or one for all.

The Matern kernels of half-integer order (Rasmussen & Williams 2006, Eq. 4.17), with a = sqrt(2 nu s):

    nu = 1/2    variance * exp(-a)                      continuous functions
    nu = 3/2    variance * (1 + a) exp(-a)              once differentiable
    nu = 5/2    variance * (1 + a + a^2 / 3) exp(-a)    twice differentiable

Slopes and curvatures are those of the profile as a function of s (da/ds = nu / a). The slope of nu = 1/2 and
the curvature of nu = 3/2 are unbounded at s = 0, where they only ever multiply squared differences that
vanish faster; they are taken as zero there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.spatial.distance import cdist

from gp.arrays import Array, as_like, describe, is_torch, namespace
from gp.kernels.base import Derivatives, Homogeneous, Parameter, parameter
from gp.kernels.parameters import EACH


@dataclass(frozen=True, eq=False)
class Stationary(Homogeneous):
    """A radial stationary kernel; subclasses define the profile, its slope and its curvature.

    Attributes
    ----------
    lengthscale : a positive number, or (D,), in the unit of the inputs. Without it 1, and in a fit one
        for each column.
    variance : a positive number, the prior variance of f (sigma_s^2), in squared output units.
    """

    lengthscale: Array = parameter(EACH, "lengthscale", input_power=1)
    variance: Array = parameter(1.0, "variance", output_power=2)

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """Return phi(s) for squared scaled distances s of any shape."""

    @abstractmethod
    def slope(self, s: Array) -> Array:
        """Return phi'(s), of the shape of s."""

    @abstractmethod
    def curvature(self, s: Array) -> Array:
        """Return phi''(s), of the shape of s."""

    def __call__(self, x: Array, y: Array) -> Array:
        return as_like(self.variance, x) * self.profile(self.squared_distance(x, y))

    def squared_distance(self, x: Array, y: Array) -> Array:
        """Return s between x (n, D) and y (m, D), shape (n, m)."""
        self.check_dimension(x)
        lengthscale = as_like(self.lengthscale, x)
        return squared_distance(x / lengthscale, y / lengthscale)

    def check_dimension(self, x: Array) -> None:
        """Raise ValueError where the number of lengthscales is not that of the columns of x."""
        shape = getattr(self.lengthscale, "shape", ())
        if x.ndim != 2 or (shape and shape[0] not in (1, x.shape[1])):
            raise ValueError(
                f"x is a {describe(x)}, lengthscale has shape {tuple(shape)}: give points of shape "
                "(n, D) and one lengthscale, or D of them"
            )

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        self.check_dimension(x)
        xp = namespace(x, y)
        variance = as_like(self.variance, x)
        inverse = xp.ones_like(x[0, :]) / as_like(self.lengthscale, x)
        scaled = (x[:, None, :] - y[None, :, :]) * inverse  # (n, m, D)
        s = xp.sum(scaled**2, axis=-1)
        gradient = scaled * inverse  # (n, m, D)
        slope, curvature = 2 * variance * self.slope(s), 4 * variance * self.curvature(s)
        k_y = -slope[:, :, None] * gradient
        transposed = xp.permute_dims(gradient, (0, 2, 1))
        k_xy = (
            -(curvature[:, None, :] * transposed)[:, :, :, None] * gradient[:, None, :, :]
            - slope[:, None, :, None] * diagonal_matrix(inverse**2)[:, None, :]
        )
        return Derivatives(
            k=variance * self.profile(s), k_x=slope[:, None, :] * transposed, k_y=k_y, k_xy=k_xy
        )


@dataclass(frozen=True, eq=False)
class SquaredExponential(Stationary):
    """variance * exp(-s / 2), of infinitely differentiable functions (thesis Eq. 7.4).

    Its lengthscale is a number or (D,), its variance a number (Rasmussen & Williams 2006, Eq. 4.9).
    """

    def profile(self, s: Array) -> Array:
        half = -0.5 * s
        return namespace(s).exp(half) if is_torch(half) else np.exp(half, out=half)

    def slope(self, s: Array) -> Array:
        return -0.5 * self.profile(s)

    def curvature(self, s: Array) -> Array:
        return 0.25 * self.profile(s)


@dataclass(frozen=True, eq=False)
class RationalQuadratic(Stationary):
    """variance * (1 + s / (2 alpha))^(-alpha); alpha a positive number without a unit.

    Squared exponentials are mixed over a Gamma distribution of inverse squared lengthscales; alpha ->
    infinity gives the squared exponential (Rasmussen & Williams 2006, Eq. 4.19).
    """

    alpha: Array = parameter(1.0, "shape")

    def profile(self, s: Array) -> Array:
        return self._power(s, 0)

    def slope(self, s: Array) -> Array:
        return -0.5 * self._power(s, 1)

    def curvature(self, s: Array) -> Array:
        return 0.25 * (1 + 1 / as_like(self.alpha, s)) * self._power(s, 2)

    def _power(self, s: Array, order: int) -> Array:
        """b^(-alpha - order), through the logarithm so that a large alpha loses no digits."""
        xp, alpha = namespace(s), as_like(self.alpha, s)
        return xp.exp(-(alpha + order) * xp.log1p(s / (2 * alpha)))

    def parameters(self) -> tuple[Parameter, ...]:
        lengthscale, variance, alpha = super().parameters()
        return lengthscale, alpha, variance

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return super().with_parameters((values[0], values[2], values[1]))


@dataclass(frozen=True, eq=False)
class Matern12(Stationary):
    """variance * exp(-r): the Ornstein-Uhlenbeck process in one dimension."""

    def profile(self, s: Array) -> Array:
        return namespace(s).exp(-safe_sqrt(s))

    def slope(self, s: Array) -> Array:
        a = safe_sqrt(s)
        return _zero_at_origin(-namespace(s).exp(-a) / (2 * a), s)

    def curvature(self, s: Array) -> Array:
        a = safe_sqrt(s)
        return _zero_at_origin(namespace(s).exp(-a) * (1 + a) / (4 * a**3), s)

    derivatives = None  # type: ignore[assignment]  # the functions are continuous only


@dataclass(frozen=True, eq=False)
class Matern32(Stationary):
    """variance * (1 + a) exp(-a), a = sqrt(3) r."""

    def profile(self, s: Array) -> Array:
        a = safe_sqrt(3 * s)
        return (1 + a) * namespace(s).exp(-a)

    def slope(self, s: Array) -> Array:
        return -1.5 * namespace(s).exp(-safe_sqrt(3 * s))

    def curvature(self, s: Array) -> Array:
        a = safe_sqrt(3 * s)
        return _zero_at_origin(2.25 * namespace(s).exp(-a) / a, s)


@dataclass(frozen=True, eq=False)
class Matern52(Stationary):
    """variance * (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r."""

    def profile(self, s: Array) -> Array:
        a = safe_sqrt(5 * s)
        return (1 + a + 5 / 3 * s) * namespace(s).exp(-a)

    def slope(self, s: Array) -> Array:
        a = safe_sqrt(5 * s)
        return -5 / 6 * (1 + a) * namespace(s).exp(-a)

    def curvature(self, s: Array) -> Array:
        return 25 / 12 * namespace(s).exp(-safe_sqrt(5 * s))


def squared_distance(x: Array, y: Array) -> Array:
    """Return sum_d (x_id - y_jd)^2, (n, m), exact for close points, twice differentiable in torch.

    The differences are formed explicitly: |x|^2 + |y|^2 - 2 x.y loses all digits of the distance
    of close points, and the Matern 1/2 profile would turn that error into its square root.
    """
    if is_torch(x):
        return ((x[:, None, :] - y[None, :, :]) ** 2).sum(dim=-1)
    if x.shape[0] == 1:  # for a single row the checks of cdist take longer than the distances
        difference = y - x
        return np.einsum("ij,ij->i", difference, difference)[None, :]
    return cdist(x, y, "sqeuclidean").astype(x.dtype, copy=False)


def contract_squared_differences(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return sum_ij W_ij (x_id - x_jd)^2, (D,), for symmetric W, without an (n, n, D) array."""
    x = x - x.mean(axis=0)
    return 2 * (weights.sum(axis=1) @ x**2 - np.einsum("id,id->d", x, weights @ x))


def safe_sqrt(s: Array) -> Array:
    """Return the root of s >= 0 with a derivative of zero, not infinity, at 0."""
    xp = namespace(s)
    return xp.sqrt(xp.maximum(s, xp.full_like(s, 1e-36)))


def diagonal_matrix(values: Array) -> Array:
    """Return the matrix (D, D) with ``values`` (D,) on its diagonal, differentiable in torch."""
    xp = namespace(values)
    identity = xp.eye(values.shape[0], dtype=values.dtype, device=values.device)
    return identity * values


def _zero_at_origin(values: Array, s: Array) -> Array:
    xp = namespace(s)
    return xp.where(s > 0, values, xp.zeros_like(values))
