"""Draws with importance weights, their quantiles, and a mixture of Gaussians fitted to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.importance import effective_size, normalised
from gp.measures import GaussianMixture
from gp.measures.mixture_density import MixtureDensity

_ROUNDS = 20
"""Rounds of expectation maximisation."""


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws that represent the posterior together with their weights.

    Attributes
    ----------
    points : (n, D), in the coordinates.
    log_weights : (n,), of any common size.
    """

    points: np.ndarray
    log_weights: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights, (n,)."""
        return normalised(self.log_weights)

    @property
    def effective_sample_size(self) -> float:
        """1 / sum of the squared weights."""
        return float(effective_size(self.weights))

    def mixture(self, groups: np.ndarray) -> GaussianMixture:
        """The mixture fitted by expectation maximisation (Dempster, Laird and Rubin 1977).

        Parameters
        ----------
        groups : (n,), integers from 0, the component of each draw at first. A component of fewer than
            2 (D + 1) effective draws is left out, unless it is the only one.
        """
        x, weights = self.points, self.weights
        shares = np.eye(int(groups.max()) + 1)[groups]
        for _ in range(_ROUNDS):
            parts = shares * weights[:, None]
            size = parts.sum(0) ** 2 / np.maximum(np.square(parts).sum(0), 1e-300)
            parts = parts[:, (size >= 2 * (x.shape[1] + 1)) | (size == size.max())]
            mass = parts.sum(0)
            means = (parts.T @ x) / mass[:, None]
            centred = x - means[:, None]
            covariances = (centred * (parts / mass).T[:, :, None]).mT @ centred
            np.einsum("kii->ki", covariances)[:] *= 1.0 + 1e-9  # rounding: correlations of one
            q = GaussianMixture(mass / mass.sum(), means, 0.5 * (covariances + covariances.mT))
            logs = MixtureDensity.of(q.weights, q.means, q.factors).log_parts(x)
            shares = np.exp(logs - np.logaddexp.reduce(logs, axis=0)).T
        return q


def weighted_quantiles(theta: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles (J, P) at J levels of draws theta (n, P) with weights (n,) of sum one."""
    columns = []
    for x in theta.T:
        order = np.argsort(x)
        reached = np.cumsum(weights[order]) - 0.5 * weights[order]
        columns.append(np.interp(levels, reached, x[order]))
    return np.stack(columns, axis=1)
