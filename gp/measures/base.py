"""The contract of measures.

A function f on R^D is integrated against a probability measure pi, pi[f] = int f(x) pi(dx). Uniform points of
the unit cube can be mapped to the measure, so that any quadrature rule on the cube is one for it; in
*standard coordinates* its mean is zero and its covariance the identity.

Results have the kind, dtype and device of the measure's parameters; those of a method with points as argument
have the points' (see :mod:`gp.arrays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from gp.arrays import Array, as_like, namespace, to_numpy
from gp.matrices import log_diagonal_sum, lower_solve

Seed: TypeAlias = int | np.random.Generator
"""An integer or a generator of random numbers: the same seed gives the same numbers."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map x = shift + scale u between standard coordinates u and those of the measure.

    Attributes
    ----------
    shift : (D,)
    scale : (D, D), invertible.
    triangular : whether ``scale`` is lower triangular with a positive diagonal, as that of a measure is.
    """

    shift: Array
    scale: Array
    triangular: bool = True

    def to_standard(self, x: Array) -> Array:
        """Return u = scale^-1 (x - shift), (n, D), for points x (n, D)."""
        return self.solve((x - as_like(self.shift, x)).T).T

    def solve(self, right: Array) -> Array:
        """Return scale^-1 right, (D, m), for a matrix (D, m)."""
        scale = as_like(self.scale, right)
        return lower_solve(scale, right) if self.triangular else namespace(right).linalg.solve(scale, right)

    def from_standard(self, u: Array) -> Array:
        """Return x = shift + scale u, (n, D), for standard points u (n, D)."""
        return as_like(self.shift, u) + u @ as_like(self.scale, u).T

    @property
    def log_determinant(self) -> Array:
        """log |det scale|: the log density of u exceeds that of x by it."""
        if not self.triangular:
            return namespace(self.scale).linalg.slogdet(self.scale)[1]
        return log_diagonal_sum(self.scale)


@dataclass(frozen=True, eq=False)
class Standardised:
    """A measure in standard coordinates, and the map back.

    Attributes
    ----------
    measure : the measure of u, with mean zero and covariance the identity.
    map : x = map.from_standard(u) follows the original measure.
    """

    measure: Measure
    map: AffineMap


@runtime_checkable
class Measure(Protocol):
    """A probability measure on R^D."""

    @property
    def dimension(self) -> int:
        """The number D of columns of its points."""

    @property
    def mean(self) -> Array:
        """The measure's mean, (D,)."""

    @property
    def covariance(self) -> Array:
        """The measure's covariance, (D, D)."""

    def parameters(self) -> tuple[Array, ...]:
        """Return its parameters as a named tuple, in the order of its constructor."""

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other parameters, in the order and shapes of :meth:`parameters`."""

    def sample(self, n: int, seed: Seed) -> Array:
        """Return n independent points, (n, D); for a seed the same numbers for NumPy and torch."""

    def log_density(self, x: Array) -> Array:
        """Return its log density at x (n, D), (n,); raises TypeError where there is none."""

    def from_unit_cube(self, u: Array) -> Array:
        """Return points (n, D) that follow the measure where u (n, D) is uniform on [0, 1]^D."""

    def marginal(self, columns: Sequence[int]) -> Measure:
        """Return the measure of the columns ``columns``."""

    def standardise(self) -> Standardised:
        """Return the measure in coordinates where its mean is 0 and its covariance I."""


def by_first(weights: Array, u: Array) -> tuple[np.ndarray, np.ndarray]:
    """Which of K parts by ``weights`` (K,) the first coordinate of u (n, D) chooses, and where in it, (n,).

    Part k has the interval [c_(k-1), c_k) of cumulative weights.
    """
    shares = to_numpy(weights).astype(np.float64)
    edges, first = np.cumsum(shares) / shares.sum(), to_numpy(u)[:, 0].astype(np.float64)
    last = int(np.flatnonzero(shares)[-1])  # by rounding, 1 may lie beyond the last edge
    index = np.minimum(np.searchsorted(edges, first, side="right"), last)
    return index, np.clip((first - (edges - shares)[index]) / shares[index], 0.0, 1.0)


def open_interval(u: Array) -> Array:
    """Return u moved off 0 and 1 by the precision of its dtype, so that quantiles are finite."""
    xp = namespace(u)
    eps = float(xp.finfo(u.dtype).eps)
    return xp.clip(u, eps, 1 - eps)
