"""Posteriors written in torch, and their evidence by importance sampling from a mixture that covers them.

`TensorPosterior` is a log joint of parameters (L, D), differentiated by autodiff; `reference` draws from the
mixture and weighs the draws, whose mean weight is the evidence; `known` makes a `Problem` of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.special import logsumexp

from bqvi.importance import Proposal, covering
from experiments.problems.known_posteriors import Problem, unbounded
from experiments.problems.laplace import laplace

__all__ = ["TensorPosterior", "known", "reference"]

_Array = np.ndarray
_ROUNDS, _DRAWS = 3, 4096
"""Rounds of a covering by Gaussians at draws of the last, and the draws of each."""


@dataclass(frozen=True, eq=False)
class TensorPosterior:
    """A posterior.

    Attributes
    ----------
    start : (D,), from where a mode is found: the parameters with which the data were simulated.
    log_joint : a function of parameters (L, D), tensors, that returns log joint densities (L,).
    """

    start: _Array
    log_joint: Callable[[torch.Tensor], torch.Tensor]

    def log_density(self, points: _Array) -> _Array:
        """The log joint density (n,) at points (n, D)."""
        with torch.no_grad():
            parts = np.split(points, range(32, len(points), 32))
            return np.concatenate([self.log_joint(torch.tensor(part)).numpy() for part in parts])

    def gradient(self, points: _Array) -> _Array:
        """Its gradient (n, D) at points (n, D)."""
        theta = torch.tensor(points, requires_grad=True)
        (found,) = torch.autograd.grad(self.log_joint(theta).sum(), theta)
        return found.numpy()


def reference(model: TensorPosterior, power: int, seed: int) -> tuple[_Array, _Array]:
    """Points (2^power, D) and log weights (2^power,) of an importance sample; their mean is the evidence.

    The proposal is a mixture that begins with wide Gaussians at Laplace's approximation and covers posteriors
    that are curved ridges (`bqvi.importance.covering`).
    """
    around = laplace(model.log_joint, model.start).heavy_tailed((1.0, 4.0, 12.0))
    g = Proposal(around.weights, around.means, around.factors)
    for step in range(_ROUNDS):
        g = covering(g, g.draws(_DRAWS, seed + 1 + step), model.log_density, _DRAWS, seed)
    points = g.draws(2**power, seed)
    return points, model.log_density(points) - g.density.log_density(points)


def known(
    name: str,
    model: TensorPosterior,
    plausible: tuple[_Array, _Array],
    log_evidence: float,
    moments: tuple[_Array, _Array],
) -> Problem:
    """The problem of a posterior without bounds whose ``log_evidence``, mean and covariance are known.

    Draws are those of `reference` with 2^13 points, by their weights.

    Parameters
    ----------
    name : of the problem. model : the log joint in D dimensions. plausible : the ends of its box, (D,) each.
    log_evidence : nats. moments : mean (D,) and covariance (D, D).
    """

    @cache
    def pool() -> tuple[_Array, _Array]:
        points, logs = reference(model, 13, 0)
        return points, np.exp(logs - logsumexp(logs))

    def draws(n: int, rng: np.random.Generator) -> _Array:
        points, share = pool()
        return points[rng.choice(len(points), n, p=share)]

    return Problem(
        name, model.log_density, model.gradient, *unbounded(len(model.start)), *plausible, log_evidence,
        *moments, draws,
    )  # fmt: skip
