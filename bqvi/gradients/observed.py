"""m observations of y under a prior process, and the factor of their covariance.

With C C^T = K / s^2 + noise (m, m): half = C^-1 Y is independent, of variance s^2 each, whence s^2 at its
most likely value; weights = C^-T half. Rows [X^T N] below C make it the factor with n observations more,

    X = C^-1 k,    N N^T = K_n - X^T X,    half_n = N^-1 (Y_n - X^T half),

and K^-1 grows by W_n^T W_n, W_n = N^-1 [-X^T C^-1, I], of which the jackknife wants the diagonal: everything
in O(m^2 n), nothing of what is there is made anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bqvi.gradients.doubtful import Doubts
from bqvi.gradients.gradient_kernel import Places, Shape
from bqvi.quadrature.positive_definite import cholesky, inverse_diagonal, triangular_inverse
from gp.triangular import solve_lower

JITTER = 1e-6
"""On the diagonal of K / s^2; 1e-4 costs an order of magnitude where gradients are exact."""


@dataclass(frozen=True, eq=False)
class Prior:
    """What is assumed of y."""

    shape: Shape
    jitter: float = JITTER
    slope: float = 0.0
    """C: the prior mean of y is c u. 0 is sticking-the-landing; 1 has grad f itself zero a priori."""

    def above(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Y less its prior mean, (m, D)."""
        return targets if self.slope == 0.0 else targets - self.slope * points


@dataclass(frozen=True, eq=False)
class Observed:
    """What was seen, and what follows of it whatever q is."""

    prior: Prior
    places: Places
    """Of U, (m, D)."""
    targets: np.ndarray
    """Y, (m, D)."""
    doubts: Doubts
    """How noise is told: from the first observations, for all."""
    factor: np.ndarray
    """C, lower triangular, (m, m)."""
    half: np.ndarray
    """C^-1 of Y less its prior mean, (m, D)."""
    inverse_diagonal: np.ndarray
    """Of K^-1 s^2, (m,)."""

    @classmethod
    def of(cls, prior: Prior, points: np.ndarray, targets: np.ndarray) -> Observed:
        """From (m, D) points and y there, O(m^3)."""
        places, above = Places.of(points, prior.shape), prior.above(points, targets)
        doubts = Doubts.of(points, above, prior.shape.directions)
        gram = prior.shape.covariance(places, places)
        np.einsum("ii->i", gram)[:] += prior.jitter * doubts.noise(points, above)
        factor = cholesky(gram)
        half = solve_lower(factor, above)
        return cls(prior, places, targets, doubts, factor, half, inverse_diagonal(factor))

    def extended(self, new: Places, targets: np.ndarray) -> Observed:
        """With n more observations: rows are added to the factor, O(m^2 n)."""
        m, n, prior = len(self.half), len(targets), self.prior
        above = prior.above(new.points, targets)
        cross = self.between(new)
        gram = prior.shape.covariance(new, new) - cross.T @ cross
        np.einsum("ii->i", gram)[:] += prior.jitter * self.doubts.noise(new.points, above)
        factor = np.zeros((m + n, m + n), order="F")
        factor[:m, :m] = self.factor
        factor[m:, :m] = cross.T
        factor[m:, m:] = last = cholesky(gram)
        told = solve_lower(last, above - cross.T @ self.half)
        rows = solve_lower(last, solve_lower(self.factor, cross, transposed=True).T)
        corner = triangular_inverse(last)
        return Observed(
            prior,
            self.places.joined(new),
            np.concatenate([self.targets, targets]),
            self.doubts,
            factor,
            np.concatenate([self.half, told]),
            np.concatenate(
                [self.inverse_diagonal + np.einsum("nm,nm->m", rows, rows), np.square(corner).sum(0)]
            ),
        )

    def between(self, places: Places) -> np.ndarray:
        """C^-1 k of n further places, (m, n): their inner products are what is known of them."""
        return self.solve(self.prior.shape.covariance(self.places, places))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """C^-1 right, for (m, R)."""
        solved: np.ndarray = solve_lower(self.factor, right)
        return solved

    @cached_property
    def weights(self) -> np.ndarray:
        """alpha = K^-1 Y s^2, (m, D)."""
        solved: np.ndarray = solve_lower(self.factor, self.half, transposed=True)
        return solved

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return float(np.vdot(self.half, self.half)) / self.half.size
