"""m observations of y under a prior process, and what makes them independent.

With C C^T = K / s^2 + noise (m, m) and W = C^-1: half = W Y is independent, of variance s^2 each, whence s^2
at its most likely value; weights = W^T half. With n observations more C grows by rows [X^T N],

    X = W k,    N N^T = K_n - X^T X,    half_n = N^-1 (Y_n - X^T half),

and W by rows N^-1 [-X^T W, I]: O(m^2 n), and nothing of what is there is made anew. W itself is kept, not C:
products with it take a third of the time of solves at these sizes, and the diagonal of K^-1 = W^T W, which
the jackknife wants, is that of its columns' squares. The jitter bounds the condition of C by some thousands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.doubtful import Doubts
from bqvi.gradients.gradient_kernel import Places, Shape
from gp.triangular import cholesky, lower_product, triangular_inverse

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
    whitening: np.ndarray
    """W, lower triangular, (m, m)."""
    half: np.ndarray
    """W of Y less its prior mean, (m, D)."""
    weights: np.ndarray
    """alpha = K^-1 Y s^2, (m, D)."""
    inverse_diagonal: np.ndarray
    """Of K^-1 s^2, (m,)."""

    @classmethod
    def of(cls, prior: Prior, points: np.ndarray, targets: np.ndarray) -> Observed:
        """From (m, D) points and y there, O(m^3)."""
        places, above = Places.of(points, prior.shape), prior.above(points, targets)
        doubts = Doubts.of(points, above, prior.shape.directions)
        gram = prior.shape.covariance(places, places)
        np.einsum("ii->i", gram)[:] += prior.jitter * doubts.noise(points, above)
        whitening = np.ascontiguousarray(triangular_inverse(cholesky(gram)))
        half = whitening @ above
        precisions = np.einsum("nm,nm->m", whitening, whitening)
        return cls(prior, places, targets, doubts, whitening, half, whitening.T @ half, precisions)

    def extended(self, new: Places, targets: np.ndarray) -> Observed:
        """With n more observations: rows are added to W, O(m^2 n)."""
        m, n, prior = len(self.half), len(targets), self.prior
        above = prior.above(new.points, targets)
        cross = self.between(new)
        gram = prior.shape.covariance(new, new) - cross.T @ cross
        np.einsum("ii->i", gram)[:] += prior.jitter * self.doubts.noise(new.points, above)
        last = triangular_inverse(cholesky(gram))
        whitening = np.zeros((m + n, m + n))
        whitening[:m, :m] = self.whitening
        rows = whitening[m:]
        rows[:, :m] = -(last @ cross.T) @ self.whitening
        rows[:, m:] = last
        told = last @ (above - cross.T @ self.half)
        weights, precisions = rows.T @ told, np.einsum("nm,nm->m", rows, rows)
        weights[:m] += self.weights
        precisions[:m] += self.inverse_diagonal
        return Observed(
            prior,
            self.places.joined(new),
            np.concatenate([self.targets, targets]),
            self.doubts,
            whitening,
            np.concatenate([self.half, told]),
            weights,
            precisions,
        )

    def between(self, places: Places) -> np.ndarray:
        """W k of n further places, (m, n): their inner products are what is known of them."""
        return lower_product(self.whitening, self.prior.shape.covariance(self.places, places))

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return float(np.vdot(self.half, self.half)) / self.half.size
