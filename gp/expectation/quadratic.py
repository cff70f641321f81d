"""Polynomials of degree two, c + w . u + u^T M u / 2: prior means, and what some kernels add to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.means import Mean


@dataclass(frozen=True, eq=False)
class Quadratic:
    """c + w . u + u^T M u / 2.

    Attributes
    ----------
    constant : c. linear : w, (D,). curvature : M, symmetric, (D, D).
    """

    constant: float
    linear: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of_mean(cls, mean: Mean, dimension: int) -> Quadratic:
        """A prior mean of D variables as a polynomial: by its expectation and the gradients of that, at 0."""
        zero, none = np.zeros(dimension), np.zeros((dimension, dimension))
        linear, half = mean.expectation_gradient(zero, none)
        return cls(float(mean.expectation(zero, none)), linear, 2.0 * half)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Values at (M, D) points, (M,)."""
        found: np.ndarray = self.constant + u @ self.linear
        found += 0.5 * np.einsum("md,md->m", u, u @ self.curvature)
        return found

    def gradient(self, u: np.ndarray) -> np.ndarray:
        """Gradients at (M, D) points, (M, D)."""
        found: np.ndarray = self.linear + u @ self.curvature
        return found
