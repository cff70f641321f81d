"""What a model is, by one or two methods of its contract.

A check of a whole protocol (`isinstance`) takes longer than a step of some loops; these do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from bqvi.models.amortised import AmortisedModel

__all__ = ["is_amortised", "is_conjugate", "is_moving"]


def is_conjugate(model: object) -> bool:
    """Whether ``model`` is a `bqvi.models.conjugate.ConjugateModel`, with a local step."""
    return hasattr(model, "local_step") and hasattr(model, "log_base_measure")


def is_moving(model: object) -> bool:
    """Whether ``model`` is a `bqvi.models.log_joint.MovingLogJoint`."""
    return callable(getattr(model, "at", None))


def is_amortised(model: object) -> TypeGuard[AmortisedModel]:
    """Whether ``model`` is a `bqvi.models.amortised.AmortisedModel`."""
    return hasattr(model, "local_posterior")
