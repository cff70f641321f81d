"""Gradients as a linear function of features whose coefficients drift: a Kalman filter.

    g_i = B^T f_i + noise_i,   f_i = (1, phi_i) in R^M',   noise variance r_i + s^2,

with one covariance C (M', M') for all P coordinates of the gradient, in units of their prior variance.
Between steps the coefficients drift because q moves: C <- (1 - rho^2) C + rho^2 I, so that C stays between 0
and the prior covariance. A step costs O(M'^2 S).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from acquisition.minibatch.features import Features
from gp.triangular import cholesky, solve_lower


@dataclass(frozen=True)
class Coefficients:
    """The posterior of B."""

    mean: np.ndarray = field(metadata={"grows": True})
    """(P M',) row by row; empty before the first observation."""
    covariance: np.ndarray
    """C, (M', M')."""

    @classmethod
    def prior(cls, features: Features) -> Coefficients:
        """The prior N(0, I) of B."""
        return cls(np.zeros(0), np.eye(features.rank + 1))

    @property
    def known(self) -> bool:
        """Whether there have been observations."""
        return len(self.mean) > 0

    @property
    def table(self) -> np.ndarray:
        """The mean of B^T, (P, M')."""
        return self.mean.reshape(-1, len(self.covariance))

    def observed(
        self, design: np.ndarray, gradients: np.ndarray, noise: np.ndarray, drift: float
    ) -> Coefficients:
        """After gradients (S, P) at features ``design`` (S, M') with noise variances (S,), and a drift."""
        table = self.table if self.known else np.zeros((gradients.shape[1], len(self.covariance)))
        prior = (1.0 - drift**2) * self.covariance
        prior.flat[:: len(prior) + 1] += drift**2
        cross = design @ prior
        gram = cross @ design.T
        gram.flat[:: len(gram) + 1] += noise
        factor = cholesky(gram)
        both = np.hstack([cross, gradients - design @ table.T])
        solved = solve_lower(factor, both)
        whitened, errors = np.split(solved, [len(prior)], axis=1)
        # subtracting a matrix of the form A^T A keeps the covariance exactly symmetric
        return Coefficients((table + errors.T @ whitened).ravel(), prior - whitened.T @ whitened)


def design(features: Features, indices: np.ndarray) -> np.ndarray:
    """(1, phi_i) of rows ``indices``, (S, M')."""
    return np.column_stack([np.ones(len(indices)), features.phi[indices]])


def mean_design(features: Features) -> np.ndarray:
    """Mean of the design over the data, (M',)."""
    return np.concatenate([[1.0], features.mean])
