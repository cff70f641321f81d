"""The proposals q_1, ..., q_M of M problems: mixtures of Gaussians in their coordinates, all at once.

M evidences with one factorisation, as those of M data under a decoder, are estimated together: what is
computed of particles (G, L, D) of G systems is computed for all problems in one call. System s belongs to
problem s // (G / M).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np

from bqvi.arrays import logsumexp
from gp.arrays import to_numpy
from gp.linear_maps import log_diagonal_sum, lower_inverse
from gp.measures import GaussianMixture

__all__ = ["Proposals"]


@dataclass(frozen=True, eq=False)
class Proposals:
    """M mixtures of C Gaussians in D dimensions.

    Attributes
    ----------
    mixtures : M measures.
    means : (M, C, D). whitening : (M, C, D, D), inverse lower Cholesky factors of the covariances.
    log_constants : (M, C), ln of each weight and of the component's density at its mean.
    """

    mixtures: tuple[GaussianMixture, ...]
    means: np.ndarray
    whitening: np.ndarray
    log_constants: np.ndarray

    @classmethod
    def of(cls, mixtures: Sequence[Any]) -> Proposals:
        """Those of M ``mixtures``, measures with weights, means and covariances.

        Raises
        ------
        ValueError
            They have different dimensions or numbers of components.
        """
        plain = tuple(
            GaussianMixture(*(to_numpy(part).astype(float) for part in (q.weights, q.means, q.covariances)))
            for q in mixtures
        )
        shapes = {q.means.shape for q in plain}
        if len(shapes) > 1:
            raise ValueError(
                f"proposal has mixtures of components and dimensions {sorted(shapes)}; all must have as many"
            )
        factors = np.stack([np.stack([part.factor for part in q.components]) for q in plain])
        dimension = factors.shape[-1]
        with np.errstate(divide="ignore"):
            logs = np.log(np.stack([q.weights for q in plain]))
        constants = logs - log_diagonal_sum(factors) - 0.5 * dimension * log(2.0 * pi)
        return cls(plain, np.stack([q.means for q in plain]), lower_inverse(factors), constants)

    def __len__(self) -> int:
        return len(self.mixtures)

    @property
    def dimension(self) -> int:
        """The number D of coordinates."""
        return int(self.means.shape[-1])

    @property
    def factors(self) -> np.ndarray:
        """Lower Cholesky factors of the covariances of the mixtures, (M, D, D)."""
        covariances = np.stack([q.covariance for q in self.mixtures])
        from gp.linear_maps import cholesky

        found: np.ndarray = cholesky("the proposal's covariance", covariances)
        return found

    def sample(self, systems: int, particles: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws (M systems, L, D), L being ``particles``, of ``systems`` for each problem."""
        drawn = [q.sample(systems * particles, rng) for q in self.mixtures]
        return np.concatenate(drawn).reshape(len(self) * systems, particles, self.dimension)

    def log_density(self, points: np.ndarray, slopes: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Log densities (G, L) at points (G, L, D), and their gradients (G, L, D) if ``slopes``."""
        grouped = points.reshape(len(self), 1, -1, self.dimension)
        u = (grouped - self.means[:, :, None]) @ np.swapaxes(self.whitening, -1, -2)
        logs = self.log_constants[..., None] - 0.5 * (u**2).sum(axis=-1)
        total = logsumexp(np.moveaxis(logs, 1, -1))
        values: np.ndarray = total.reshape(points.shape[:2])
        if not slopes:
            return values, None
        shares = np.exp(logs - total[:, None])
        gradient: np.ndarray = -(shares[..., None] * (u @ self.whitening)).sum(axis=1)
        return values, gradient.reshape(points.shape)
