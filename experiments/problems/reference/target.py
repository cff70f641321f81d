"""A posterior density over R^D whose moments and evidence are known.

Parameters with bounds are mapped to the real line (logarithms, logits) and the log Jacobian of the map is
in the density, so that its integral is the evidence. Every named factor is a full, normalised density;
a prior cut off by a bound is not renormalised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bqvi.models.log_joint import LogJoint

__all__ = ["Target", "indexed"]

_Tensor = torch.Tensor


@dataclass(frozen=True)
class Target:
    """A log joint density and the names of its parameters."""

    name: str
    """The name of the model in a folder of references."""
    parameters: tuple[str, ...]
    """Names of the D unconstrained coordinates."""
    log_density: Callable[[_Tensor], _Tensor]
    """(L, D) -> (L,), float64."""
    constrain: Callable[[_Tensor], _Tensor]
    """(L, D) -> (L, P): the parameters as the model states them."""

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.parameters)

    def log_joint(self) -> LogJoint:
        """As a model that `bqvi.fit` takes."""
        return LogJoint(self.log_density, self.dimension)


def indexed(name: str, count: int) -> tuple[str, ...]:
    """name[1], ..., name[count]."""
    return tuple(f"{name}[{i}]" for i in range(1, count + 1))
