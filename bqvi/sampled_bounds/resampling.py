"""Weights of particles: their mean, how much one temperature changes them, and systematic resampling.

Systematic resampling takes L positions, one apart, with one uniform offset, in the cumulated weights L w of
the particles, which stand in random order. The expected number of offspring of a particle is L w, so that
estimates of the evidence stay unbiased.

Where a particle is *retained* (conditional sequential Monte Carlo; Andrieu, Doucet and Holenstein 2010) it
keeps its place. It stands first in the cumulated weights, and the density of the offset is proportional to
the number of its offspring, as where systematic resampling makes it the parent of a particle chosen at
random (Chopin and Singh 2015).
"""

from __future__ import annotations

import numpy as np

from bqvi.arrays import logsumexp
from bqvi.importance import normalised

__all__ = ["conditional_ess", "log_mean", "systematic"]


def log_mean(log_weights: np.ndarray) -> np.ndarray:
    """ln of the mean weight of L particles, (...); -inf where none has a weight."""
    found: np.ndarray = logsumexp(log_weights) - np.log(log_weights.shape[-1])
    return found


def conditional_ess(log_weights: np.ndarray, increments: np.ndarray) -> np.ndarray:
    """The conditional effective sample size over L, (...), in [0, 1] (Zhou, Johansen and Aston 2016).

    Parameters
    ----------
    log_weights : (..., L), of the particles before their next weights.
    increments : (..., L), logarithms of the next weights.

    Returns
    -------
    (sum w v)^2 / sum w v^2, with w the normalised weights and v the next ones: 1 where these are equal.
    """
    top = increments.max(axis=-1, keepdims=True)
    v = np.exp(increments - np.where(np.isfinite(top), top, 0.0))
    w = normalised(log_weights)
    second = (w * v**2).sum(axis=-1)
    found: np.ndarray = np.divide(
        (w * v).sum(axis=-1) ** 2, second, out=np.zeros_like(second), where=second > 0.0
    )
    return found


def systematic(weights: np.ndarray, rng: np.random.Generator, retained: bool = False) -> np.ndarray:
    """Parents (L,) of the next particles.

    Parameters
    ----------
    weights : (L,), of sum 1.
    rng : where the order and the offset come from.
    retained : whether particle 0 is retained, and is then its own parent.
    """
    count = len(weights)
    order = rng.permutation(count)
    uniform = rng.random(2)
    offset = float(uniform[0])
    if retained:
        order = np.concatenate([[0], order[order != 0]])
        offset = _offset_of_a_parent(count * float(weights[0]), uniform)
    edges = np.cumsum(weights[order])
    teeth = (offset + np.arange(count)) * (edges[-1] / count)
    places = np.minimum(np.searchsorted(edges, teeth, side="right"), count - 1)
    parents: np.ndarray = order[places]
    if retained:
        parents[0] = 0  # the first place is below the first edge, except by rounding
    return parents


def _offset_of_a_parent(expected: float, uniform: np.ndarray) -> float:
    """An offset in [0, 1) of density proportional to the positions below ``expected``, L w_0 > 0."""
    whole = np.floor(expected)
    rest = expected - whole
    if uniform[1] * expected < rest * (whole + 1.0):
        return float(uniform[0] * rest)
    return float(rest + uniform[0] * (1.0 - rest))
