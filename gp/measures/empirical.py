"""The empirical measure sum_i w_i delta(x_i) of a finite set of points.

Every kernel has an embedding: k(., X) w. A point u of the unit cube is mapped by the quantile function of the
first coordinate: the points are sorted by their first column and u_1 chooses one by cumulative weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from gp import checks
from gp.arrays import Array, as_like, namespace, to_numpy
from gp.matrices import named_cholesky
from gp.measures.base import AffineMap, Seed, Standardised, by_first


class EmpiricalParameters(NamedTuple):
    """Points (..., N, D) and weights (..., N) of an empirical measure, or gradients in them."""

    points: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class Empirical:
    """sum_i weights_i delta(points_i).

    Attributes
    ----------
    points : (N, D)
    weights : (N,), non-negative, with sum one; equal where they are not given.

    Raises
    ------
    ValueError
        where shapes disagree, an entry is NaN, or weights are negative or do not sum to one.
    """

    points: Array
    weights: Array = None

    def __post_init__(self) -> None:
        (points,) = checks.common_arrays(points=self.points)
        checks.require_shape("points", points, ("N", "D"))
        weights = self.weights
        if weights is None:
            weights = namespace(points).ones_like(points[:, 0]) / points.shape[0]
        points, weights = checks.common_arrays(points=points, weights=weights)
        checks.require_shape("weights", weights, (points.shape[0],))
        checks.require_weights(weights)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights)

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    @property
    def mean(self) -> Array:
        return self.weights @ self.points

    @property
    def covariance(self) -> Array:
        """Weighted covariance of the points (divided by N where weights are equal), (D, D)."""
        centred = self.points - self.mean
        return (self.weights[:, None] * centred).T @ centred

    def parameters(self) -> EmpiricalParameters:
        return EmpiricalParameters(self.points, self.weights)

    def with_parameters(self, values: Sequence[Array]) -> Self:
        return type(self)(*values)

    def sample(self, n: int, seed: Seed) -> Array:
        checks.require_integer("n", n, 1)
        host = to_numpy(self.weights).astype(np.float64)
        index = np.random.default_rng(seed).choice(len(host), size=n, p=host / host.sum())
        return self.points[index]

    def log_density(self, x: Array) -> Array:
        """Raise TypeError: a finite set of points has no density."""
        raise TypeError(
            "Empirical has no density: fit a Gaussian or a GaussianMixture to its points, or ask "
            "for integrals against it, which are weighted sums"
        )

    def from_unit_cube(self, u: Array) -> Array:
        """Return points (n, D) chosen by the first column of u (n, D), by sorted first column."""
        checks.require_cube(u, self.dimension)
        order = np.argsort(to_numpy(self.points)[:, 0], kind="stable")
        return as_like(self.points, u)[order[by_first(to_numpy(self.weights)[order], u)[0]]]

    def marginal(self, columns: Sequence[int]) -> Empirical:
        return Empirical(self.points[:, list(columns)], self.weights)

    def standardise(self) -> Standardised:
        """Return the points in coordinates where their mean is 0 and their covariance I.

        Raises
        ------
        ValueError
            where the points span fewer than D dimensions.
        """
        to_x = AffineMap(self.mean, named_cholesky("covariance of points", self.covariance))
        return Standardised(Empirical(to_x.to_standard(self.points), self.weights), to_x)
