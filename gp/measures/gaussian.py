"""The Gaussian measure N(m, Sigma), with any covariance.

In standard coordinates u = L^-1 (x - m), with Sigma = L L^T, the measure is N(0, I). A sample is m + L e with
e ~ N(0, I), a point of the unit cube is mapped by the normal quantile of each coordinate, and the log
density is -|u|^2/2 - sum log L_dd - (D/2) log 2 pi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from gp import checks
from gp.arrays import LOG_2PI, Array, as_like, namespace, special, to_numpy
from gp.matrices import log_diagonal_sum, named_cholesky
from gp.measures.base import AffineMap, Seed, Standardised, open_interval


class GaussianParameters(NamedTuple):
    """Mean (..., D) and covariance (..., D, D) of a Gaussian, or gradients in them."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(mean, covariance).

    Attributes
    ----------
    mean : (D,)
    covariance : (D, D), symmetric and positive definite; given as (D,), the variances of
        independent coordinates. It is always held as a matrix.
    factor : (D, D), its lower Cholesky factor.

    Raises
    ------
    ValueError
        where shapes disagree, an entry is NaN, or the covariance is not positive definite.
    """

    mean: Array
    covariance: Array
    factor: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        mean, covariance = checks.common_arrays(mean=self.mean, covariance=self.covariance)
        checks.require_shape("mean", mean, ("D",))
        covariance = checks.as_covariances("covariance", covariance, tuple(mean.shape))
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)
        object.__setattr__(self, "factor", named_cholesky("covariance", covariance))

    @property
    def dimension(self) -> int:
        return int(self.mean.shape[0])

    @property
    def is_diagonal(self) -> bool:
        """Whether its coordinates are independent."""
        host = to_numpy(self.covariance)
        return bool(np.all(host == np.diag(np.diag(host))))

    def parameters(self) -> GaussianParameters:
        return GaussianParameters(self.mean, self.covariance)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return type(self)(*values)

    @property
    def map(self) -> AffineMap:
        """The map from N(0, I) to this measure."""
        return AffineMap(self.mean, self.factor)

    def sample(self, n: int, seed: Seed) -> Array:
        checks.require_integer("n", n, 1)
        normals = np.random.default_rng(seed).standard_normal((n, self.dimension))
        return self.map.from_standard(as_like(normals, self.mean))

    def log_density(self, x: Array) -> Array:
        checks.require_shape("x", x, ("n", self.dimension))
        xp = namespace(x)
        u = self.map.to_standard(x)
        constant = log_diagonal_sum(as_like(self.factor, x)) + 0.5 * self.dimension * LOG_2PI
        return -0.5 * xp.sum(u**2, axis=1) - constant

    def from_unit_cube(self, u: Array) -> Array:
        checks.require_cube(u, self.dimension)
        return self.map.from_standard(special(u).ndtri(open_interval(u)))

    def marginal(self, columns: Sequence[int]) -> Gaussian:
        index = list(columns)
        return Gaussian(self.mean[index], self.covariance[index, :][:, index])

    def standardise(self) -> Standardised:
        xp = namespace(self.mean)
        standard = Gaussian(xp.zeros_like(self.mean), xp.ones_like(self.mean))
        return Standardised(standard, self.map)
