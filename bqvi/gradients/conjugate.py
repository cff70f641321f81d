"""The exact natural gradient of a model with a local step, eta* - eta (thesis Eq. 4.12).

On all the data a natural step of size 1 ends at eta*, which is coordinate ascent. On a weighted mini-batch
the local statistics are an unbiased estimate of the data's, and eta* - eta is one of the natural gradient
(Eqs 4.13 to 4.15); a Euclidean geometry pulls the same vector back to u (Eqs 3.41 to 3.43 and 4.1 to 4.3,
with the errata's full Fisher matrix).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.arrays import subtract
from bqvi.families.family import FamilyOrPoint
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.per_datum import local_step
from bqvi.models.conjugate import LocalModel, update_target

__all__ = ["Conjugate"]


@dataclass(frozen=True)
class Conjugate:
    """eta* - eta of the mini-batch; exact expectations, no samples."""

    samples: int = 0

    def __call__(
        self, model: LocalModel, q: FamilyOrPoint, batch: Batch, rng: np.random.Generator
    ) -> Gradient:
        """The natural gradient at q."""
        local = local_step(model, q, batch)
        values = subtract(update_target(model, local), q.natural)
        everything = local if batch.weights is None else None
        return Gradient(values, natural=True, n_evaluations=batch.size, local=everything)
