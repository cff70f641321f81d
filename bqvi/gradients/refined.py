"""The exact natural gradient of a model whose local step has several optima; the ELBO never decreases.

For most conjugate models q(z) given q(theta) is in closed form. Where it is the end of an ascent (the
proportions of a document's topics), that ascent starts anew at each step and may end in a lower optimum than
the last one, so that the ELBO decreases although every update ascends. Here the local parameters of the step
before are kept. Where the ELBO would decrease, the local step continues from those instead, and

    ELBO(q_t, z refined from z_t-1) >= ELBO(q_t, z_t-1) >= ELBO(q_t-1, z_t-1).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arrays import subtract
from bqvi.families.family import Distribution, ExponentialFamily, FamilyOrPoint
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.models.conjugate import LocalStep, update_target
from bqvi.models.data import Data

__all__ = ["LocalMemory", "RefinableModel", "RefinedConjugate"]


@runtime_checkable
class RefinableModel(Protocol):
    """A conjugate model whose local step can be continued from an earlier one, ``LocalStep.local``."""

    def refined_step(self, q: FamilyOrPoint, rows: Data, local: np.ndarray) -> LocalStep:
        """A local step whose bound is not below that of ``local`` at q."""


@dataclass(frozen=True)
class LocalMemory:
    """Local parameters and ELBO of the step before."""

    local: np.ndarray = field(metadata={"grows": True})
    """Local parameters, (N, ...); (0, ...) before the first step."""
    elbo: float
    """The ELBO less ln h of the data, nats."""


@dataclass(frozen=True)
class RefinedConjugate:
    """eta* - eta of all the data, its local step refined where the ELBO would fall; no samples."""

    samples: int = 0
    gives_surrogate = False

    def start(self, model: Any, q: Distribution) -> LocalMemory:
        """The memory before a run of ``model`` from ``q``, without local parameters."""
        return LocalMemory(np.empty((0, model.local_size)), -np.inf)

    def __call__(
        self,
        model: Any,
        q: ExponentialFamily,
        batch: Batch,
        rng: np.random.Generator,
        memory: LocalMemory | None = None,
    ) -> Gradient:
        """The natural gradient at q."""
        local = model.local_step(q, batch.rows, batch.weights)
        divergence = float(q.kl(model.prior))
        if memory is not None and len(memory.local) and local.bound - divergence < memory.elbo:
            local = model.refined_step(q, batch.rows, memory.local)
        kept = LocalMemory(local.local, local.bound - divergence)
        values = subtract(update_target(model, local), q.natural)
        everything = replace(local, local=None)
        return Gradient(values, natural=True, n_evaluations=batch.size, local=everything, memory=kept)
