"""The mixture of Gaussians sum_k w_k N(m_k, Sigma_k).

Its mean is m = sum_k w_k m_k and its covariance sum_k w_k (Sigma_k + (m_k - m)(m_k - m)^T).

A point u of the unit cube has D coordinates, while a draw needs D + 1 numbers: the component, and the point
in it. The first coordinate is therefore used twice: component k is the one whose interval of cumulative
weights [c_(k-1), c_k) contains u_1, and (u_1 - c_(k-1)) / w_k, which is uniform given k, replaces u_1. The
points follow the mixture exactly, and a low-discrepancy set in the cube is one in each component.

Its density: with Sigma_k = L_k L_k^T the covariances and A_k = L_k^-1,

    ln p(x)      = ln sum_k exp(h_k - |A_k (x - m_k)|^2 / 2),
    h_k          = ln w_k + ln det A_k - (D / 2) ln 2 pi,
    grad ln p(x) = -sum_k r_k(x) A_k^T A_k (x - m_k),     r_k(x) the share of component k in p(x).

The components are taken one after the other, so that memory grows with K n and not with K n D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from gp import checks
from gp.arrays import LOG_2PI, Array, as_like, namespace, special, to_numpy
from gp.matrices import log_diagonal_sum, lower_inverse, named_cholesky
from gp.measures.base import AffineMap, Seed, Standardised, by_first, open_interval
from gp.measures.gaussian import Gaussian


class MixtureParameters(NamedTuple):
    """Weights (..., K), means (..., K, D), covariances (..., K, D, D), or gradients in them."""

    weights: Array
    means: Array
    covariances: Array


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """sum_k weights_k N(means_k, covariances_k).

    Attributes
    ----------
    weights : (K,), non-negative, with sum one.
    means : (K, D)
    covariances : (K, D, D); given as (K, D), the variances of independent coordinates. They are
        always held as matrices.
    factors : (K, D, D), their lower Cholesky factors.

    Raises
    ------
    ValueError
        where shapes disagree, an entry is NaN, the weights are negative or do not sum to one, or
        a covariance is not positive definite.
    """

    weights: Array
    means: Array
    covariances: Array
    factors: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights, means, covariances = checks.common_arrays(
            weights=self.weights, means=self.means, covariances=self.covariances
        )
        checks.require_shape("means", means, ("K", "D"))
        checks.require_shape("weights", weights, (means.shape[0],))
        checks.require_weights(weights)
        covariances = checks.as_covariances("covariances", covariances, tuple(means.shape))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariances", covariances)
        object.__setattr__(self, "factors", named_cholesky("covariances", covariances))

    @property
    def dimension(self) -> int:
        return int(self.means.shape[1])

    @property
    def components(self) -> tuple[Gaussian, ...]:
        """The K Gaussians, without their weights."""
        count = self.means.shape[0]
        return tuple(Gaussian(self.means[k], self.covariances[k]) for k in range(count))

    @property
    def mean(self) -> Array:
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        xp = namespace(self.means)
        centred = self.means - self.mean
        within = xp.sum(self.weights[:, None, None] * self.covariances, axis=0)
        return within + (self.weights[:, None] * centred).T @ centred

    def parameters(self) -> MixtureParameters:
        return MixtureParameters(self.weights, self.means, self.covariances)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return type(self)(*values)

    def sample(self, n: int, seed: Seed) -> Array:
        checks.require_integer("n", n, 1)
        rng = np.random.default_rng(seed)
        host = to_numpy(self.weights).astype(np.float64)
        index = rng.choice(len(host), size=n, p=host / host.sum())
        normals = as_like(rng.standard_normal((n, self.dimension)), self.means)
        return self._at(index, normals)

    def _at(self, index: Array, normals: Array) -> Array:
        """Return points of the components ``index`` (n,), from standard normal ones (n, D)."""
        means, factors = as_like(self.means, normals), as_like(self.factors, normals)
        return means[index] + (factors[index] @ normals[:, :, None])[:, :, 0]

    def log_density(self, x: Array) -> Array:
        checks.require_shape("x", x, ("n", self.dimension))
        parts = (as_like(part, x) for part in (self.weights, self.means, self.factors))
        return MixtureDensity.of(*parts).log_density(x)

    def from_unit_cube(self, u: Array) -> Array:
        """Return points (n, D) of the mixture for points u (n, D) of the unit cube.

        The first coordinate chooses the component and, rescaled, the place in it (see the module).
        """
        checks.require_cube(u, self.dimension)
        xp = namespace(u)
        index, inside = by_first(self.weights, u)
        cube = xp.concat([as_like(inside, u)[:, None], u[:, 1:]], axis=1)
        return self._at(index, special(u).ndtri(open_interval(cube)))

    def marginal(self, columns: Sequence[int]) -> GaussianMixture:
        index = list(columns)
        return GaussianMixture(self.weights, self.means[:, index], self.covariances[:, index, :][:, :, index])

    def standardise(self) -> Standardised:
        to_x = AffineMap(self.mean, named_cholesky("covariance", self.covariance))
        inverse = lower_inverse(to_x.scale)
        covariances = inverse @ self.covariances @ inverse.T
        standard = GaussianMixture(self.weights, to_x.to_standard(self.means), covariances)
        return Standardised(standard, to_x)


@dataclass(frozen=True, eq=False)
class MixtureDensity:
    """ln sum_k w_k N(x; m_k, Sigma_k), for NumPy and torch.

    Attributes
    ----------
    heights : (..., K), the logarithms h_k of the weighted densities at the means.
    means : (..., K, D)
    whitening : (..., K, D, D), the matrices A_k.
    """

    heights: Array
    means: Array
    whitening: Array

    @classmethod
    def of(cls, weights: Array, means: Array, factors: Array) -> MixtureDensity:
        """Make the density from weights (..., K) >= 0, means (..., K, D), Cholesky factors (..., K, D, D)."""
        xp = namespace(weights)
        present = weights > 0
        logs = xp.log(xp.where(present, weights, xp.ones_like(weights)))
        logs = xp.where(present, logs, xp.full_like(logs, -xp.inf))
        constants = log_diagonal_sum(factors) + 0.5 * means.shape[-1] * LOG_2PI
        return cls(logs - constants, means, lower_inverse(factors))

    def log_parts(self, x: Array) -> Array:
        """Return ln w_k N(x; m_k, Sigma_k), (..., K, n), at points x (..., n, D)."""
        xp = namespace(x)
        squares = [xp.sum(self._whitened(x, k) ** 2, axis=-1) for k in range(self.means.shape[-2])]
        return self.heights[..., None] - 0.5 * xp.stack(squares, axis=-2)

    def log_density(self, x: Array) -> Array:
        return _log_sum(self.log_parts(x))

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        """Return ln p, (..., n), and its gradient, (..., n, D), at points x (..., n, D)."""
        xp = namespace(x)
        logs = self.log_parts(x)
        values = _log_sum(logs)
        shares = xp.exp(logs - values[..., None, :])
        gradient = xp.zeros_like(x)
        for k in range(self.means.shape[-2]):
            pulled = self._whitened(x, k) @ self.whitening[..., k, :, :]
            gradient = gradient - shares[..., k, :, None] * pulled
        return values, gradient

    def _whitened(self, x: Array, k: int) -> Array:
        """Return A_k (x - m_k), (..., n, D)."""
        whitening = self.whitening[..., k, :, :]
        return (x - self.means[..., k, None, :]) @ namespace(x).matrix_transpose(whitening)


def _log_sum(logs: Array) -> Array:
    """Return the logarithm of the sum over components of exp(logs), (..., n), for logs (..., K, n)."""
    xp = namespace(logs)
    top = xp.max(logs, axis=-2)
    return top + xp.log(xp.sum(xp.exp(logs - top[..., None, :]), axis=-2))
