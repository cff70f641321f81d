"""Weights of particles: their mean, their change by one temperature, and systematic resampling.

Systematic resampling takes L positions, at distance 1 and with one uniform offset, in the cumulative weights
L w of the particles in random order. The expected number of offspring of a particle is L w, so that estimates
of the evidence remain unbiased.

A *retained* particle (conditional sequential Monte Carlo; Andrieu, Doucet and Holenstein 2010) keeps its
index. It is the first in the cumulative weights, and the density of the offset is proportional to the number
of its offspring: this is the law of the offset given that the retained particle is the parent of a particle
chosen at random (Chopin and Singh 2015).
"""

from __future__ import annotations

import numpy as np

from bqvi.arrays import logsumexp
from bqvi.importance import normalised, systematic


def log_mean(log_weights: np.ndarray) -> np.ndarray:
    """The logarithm of the mean weight of L particles, (...); -inf where all weights are zero."""
    return logsumexp(log_weights) - np.log(log_weights.shape[-1])


def conditional_ess(log_weights: np.ndarray, increments: np.ndarray) -> np.ndarray:
    """The conditional effective sample size over L, (...), in [0, 1] (Zhou, Johansen and Aston 2016).

    Parameters
    ----------
    log_weights : the log weights (..., L) of the particles before the next temperature.
    increments : the logarithms (..., L) of the weights of the next temperature.

    Returns
    -------
    (sum w v)^2 / sum w v^2, with w the normalised weights and v those of the next temperature: 1 for equal v.
    """
    top = increments.max(axis=-1, keepdims=True)
    v = np.exp(increments - np.where(np.isfinite(top), top, 0.0))
    w = normalised(log_weights)
    second = (w * v**2).sum(axis=-1)
    return np.divide((w * v).sum(axis=-1) ** 2, second, out=np.zeros_like(second), where=second > 0.0)


def parents_of(weights: np.ndarray, rng: np.random.Generator, retained: bool = False) -> np.ndarray:
    """Parents (L,) of the next particles.

    Parameters
    ----------
    weights : the weights (L,), with sum 1.
    rng : the generator of the order and the offset.
    retained : whether particle 0 is retained, so that it is its own parent.
    """
    count = len(weights)
    order = rng.permutation(count)
    uniform = rng.random(2)
    offset = float(uniform[0])
    if retained:
        order = np.concatenate([[0], order[order != 0]])
        offset = _offset_of_a_parent(count * float(weights[0]), uniform)
    parents: np.ndarray = order[systematic(weights[order], count, offset)]
    if retained:
        parents[0] = 0  # the first position is below the first edge, except by rounding
    return parents


def _offset_of_a_parent(expected: float, uniform: np.ndarray) -> float:
    """An offset in [0, 1) with density proportional to the number of positions below ``expected`` = L w_0."""
    whole = np.floor(expected)
    rest = expected - whole
    if uniform[1] * expected < rest * (whole + 1.0):
        return float(uniform[0] * rest)
    return float(rest + uniform[0] * (1.0 - rest))
