"""A posterior in torch, from one in NumPy or torch, without factorising again."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import torch

from gp.embeddings.registry import in_kind_of
from gp.integrals import Integrals
from gp.linalg import Factor
from gp.observations import Functional, Gradients, Observations, Values
from gp.posterior import Posterior


def as_tensors(posterior: Posterior) -> Posterior:
    """Return the posterior in torch, its data cut off from any autodiff graph.

    NumPy arrays come to lie on the CPU, in their dtype; tensors stay where they are.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"posterior is a {type(posterior).__name__}: give a gp.Posterior or MarginalPosterior"
        )
    blocks = tuple(_block(block, posterior) for block in posterior.observations.blocks)
    noise = posterior.noise
    return replace(
        posterior,
        observations=Observations(blocks),
        y=_tensor(posterior.y),
        noise=float(noise) if getattr(noise, "ndim", 0) == 0 else _tensor(noise),
        factor=Factor(_tensor(posterior.factor.lower), posterior.factor.jitter),
        whitened=_tensor(posterior.whitened),
    )


def _tensor(values: Any) -> torch.Tensor:
    return torch.as_tensor(values).detach()


@singledispatch
def _block(block: Functional, posterior: Posterior) -> Functional:
    raise TypeError(
        f"the posterior has observations of kind {type(block).__name__}; BoTorch can be given one "
        "with Values, Gradients and Integrals"
    )


@_block.register
def _(block: Values, posterior: Posterior) -> Functional:
    return replace(block, x=_tensor(block.x))


@_block.register
def _(block: Gradients, posterior: Posterior) -> Functional:
    return replace(block, x=_tensor(block.x))


@_block.register
def _(block: Integrals, posterior: Posterior) -> Functional:
    like = _tensor(posterior.y)
    return replace(block, measures=tuple(in_kind_of(measure, like) for measure in block.measures))
