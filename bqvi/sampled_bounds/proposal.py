"""The proposals q_1, ..., q_M of M problems: mixtures of Gaussians in the coordinates, evaluated together.

M evidences of models with the same structure, such as those of M data under one decoder, are estimated
together: particles (G, L, D) of the G systems of all problems are evaluated in one call. System s belongs to
problem s // (G / M).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.records import fingerprint
from gp.arrays import to_numpy
from gp.linear_maps import cholesky
from gp.measures import GaussianMixture
from gp.measures.mixture_density import MixtureDensity

__all__ = ["Proposals"]


@dataclass(frozen=True, eq=False)
class Proposals:
    """M mixtures of C Gaussians in D dimensions.

    Attributes
    ----------
    mixtures : the M mixtures.
    density : their densities, with the leading dimension M.
    """

    mixtures: tuple[GaussianMixture, ...]
    density: MixtureDensity

    @classmethod
    def of(cls, mixtures: Sequence[Any]) -> Proposals:
        """The proposals of M ``mixtures``, measures with weights, means and covariances.

        Raises
        ------
        ValueError
            The mixtures have different dimensions or numbers of components.
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
        weights, means, factors = (
            np.stack([getattr(q, part) for q in plain]) for part in ("weights", "means", "factors")
        )
        return cls(plain, MixtureDensity.of(weights, means, factors))

    def __len__(self) -> int:
        return len(self.mixtures)

    @property
    def dimension(self) -> int:
        """The number D of coordinates."""
        return self.mixtures[0].dimension

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of the weights, means and covariances."""
        parts = ((q.weights, q.means, q.covariances) for q in self.mixtures)
        return fingerprint(tuple(np.stack(part) for part in zip(*parts, strict=True)))

    @property
    def factors(self) -> np.ndarray:
        """The lower Cholesky factors of the covariances of the mixtures, (M, D, D)."""
        covariances = np.stack([q.covariance for q in self.mixtures])
        return cholesky("the proposal's covariance", covariances)

    def sample(self, systems: int, particles: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws (M systems, L, D), with ``systems`` for each problem, L being ``particles``."""
        drawn = [q.sample(systems * particles, rng) for q in self.mixtures]
        return np.concatenate(drawn).reshape(len(self) * systems, particles, self.dimension)

    def log_density(self, points: np.ndarray, slopes: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """The log densities (G, L) at points (G, L, D), with their gradients (G, L, D) if ``slopes``."""
        grouped = points.reshape(len(self), -1, self.dimension)
        if not slopes:
            return self.density.log_density(grouped).reshape(points.shape[:2]), None
        values, gradient = self.density.with_gradient(grouped)
        return values.reshape(points.shape[:2]), gradient.reshape(points.shape)
