"""The exact natural gradient of a model with a local step, eta* - eta (thesis Eq. 4.12).

On all the data a natural step of size 1 ends at eta*, which is coordinate ascent. On a weighted mini-batch
the local statistics are an unbiased estimate of the data's, and eta* - eta is one of the natural gradient
(Eqs 4.13 to 4.15); a Euclidean geometry pulls the same vector back to u (Eqs 3.41 to 3.43 and 4.1 to 4.3,
with the errata's full Fisher matrix).

For most conjugate models q(z) given q(theta) is in closed form. Where it is the end of an ascent (the
proportions of a document's topics), that ascent starts anew at each step and may end in a lower optimum than
the last one, so that the ELBO decreases although every update ascends. `RefinedConjugate` keeps the local
parameters of the step before. Where the ELBO would decrease, the local step continues from those instead, and

    ELBO(q_t, z refined from z_t-1) >= ELBO(q_t, z_t-1) >= ELBO(q_t-1, z_t-1).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arrays import subtract
from bqvi.families.family import Distribution, ExponentialFamily, FamilyOrPoint
from bqvi.gradients.gradient import Batch, Gradient, local_step
from bqvi.models.contracts import LocalModel, LocalStep, update_target
from bqvi.models.data import Data


@dataclass(frozen=True)
class Conjugate:
    """eta* - eta of the mini-batch; exact expectations, no samples."""

    samples: int = 0

    def __call__(
        self, model: LocalModel, q: FamilyOrPoint, batch: Batch, rng: np.random.Generator
    ) -> Gradient:
        local = local_step(model, q, batch)
        end = update_target(model, local)
        everything = local if batch.weights is None else None
        values = subtract(end, q.natural)
        return Gradient(values, natural=True, n_evaluations=batch.size, local=everything, end=end)


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
        return LocalMemory(np.empty((0, model.local_size)), -np.inf)

    def __call__(
        self,
        model: Any,
        q: ExponentialFamily,
        batch: Batch,
        rng: np.random.Generator,
        memory: LocalMemory | None = None,
    ) -> Gradient:
        local = model.local_step(q, batch.rows, batch.weights)
        divergence = float(q.kl(model.prior))
        if memory is not None and len(memory.local) and local.bound - divergence < memory.elbo:
            local = model.refined_step(q, batch.rows, memory.local)
        kept = LocalMemory(local.local, local.bound - divergence)
        end, everything = update_target(model, local), replace(local, local=None)
        values, spent = subtract(end, q.natural), batch.size
        return Gradient(values, True, spent, local=everything, memory=kept, end=end)
