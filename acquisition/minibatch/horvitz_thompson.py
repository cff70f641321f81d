"""Unequal inclusion probabilities, with weights for an unbiased estimate (Horvitz and Thompson 1952).

A datum is drawn with probability pi_i = min(1, c b_i), sum_i pi_i = S, and has the weight 1 / pi_i. The
variance is smallest for b_i the norm of its gradient. b is either given, a bound on the norm for every q (the
norm of x_i for a logistic regression), or estimated: a running average of the norms seen, mixed with their
mean so that no probability is zero.

S places at even distances over the cumulated pi with a random start give exactly S data (systematic
sampling, Madow 1949), none twice. The order of the data is random too, once a run: over orders and starts the
variance of a sum is that of Hartley and Rao (1962), which standard errors estimate. With one order, whose
neighbours never come together, it may be half or twice of that, and no mini-batch shows it.

Unbiased over the random start, given what was observed before. Cost O(S log N) a step and O(N) once; with
learnt norms O(N) every ``refresh`` steps. Memory 2 N numbers, 4 N with learnt norms.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from acquisition.minibatch.strategy import (
    Probable,
    Selection,
    Unlearning,
    require_rows,
    require_size,
)


@dataclass(frozen=True)
class Probabilities:
    """Inclusion probabilities in a random order."""

    order: np.ndarray
    """(N,) rows."""
    cumulated: np.ndarray
    """(N,) sums of pi in that order, up to S."""

    @classmethod
    def of(cls, bound: np.ndarray, size: int, rng: np.random.Generator) -> Probabilities:
        """Probabilities proportional to ``bound`` > 0, those that would exceed 1 set to 1."""
        order = rng.permutation(len(bound))
        cumulated = np.cumsum(inclusion(bound, size)[order])
        return cls(order, cumulated * (size / cumulated[-1]))

    def draw(self, size: int, rng: np.random.Generator) -> Selection:
        """``size`` places with one random start."""
        places = np.searchsorted(self.cumulated, rng.random() + np.arange(size), side="right")
        places = np.minimum(places, len(self.order) - 1)
        below = np.where(places > 0, self.cumulated[places - 1], 0.0)
        return Selection(self.order[places], 1.0 / (self.cumulated[places] - below))


def inclusion(bound: np.ndarray, size: int) -> np.ndarray:
    """pi_i = min(1, c b_i) with sum S, (N,)."""
    if size == len(bound):
        return np.ones(len(bound))
    certain = np.zeros(len(bound), bool)
    while True:  # at most S rounds, as each makes one more datum certain
        rest = bound[~certain].sum()
        pi = np.where(certain, 1.0, bound * ((size - certain.sum()) / rest))
        over = pi > 1.0
        if not over.any():
            return pi
        certain |= over


@dataclass(frozen=True, repr=False)
class HorvitzThompson(Probable, Unlearning):
    """Probabilities proportional to a given bound.

    Parameters
    ----------
    size : S, between 1 and N
    bound : (N,), > 0: to which the norms of the per-datum gradients are proportional, or by which bounded

    Raises
    ------
    ValueError
        An entry of the bound is not positive: a datum with probability 0 has no weight.
    """

    size: int
    bound: np.ndarray

    def __post_init__(self) -> None:
        bound = np.asarray(self.bound, float)
        if bound.ndim != 1 or not (np.isfinite(bound) & (bound > 0.0)).all():
            raise ValueError(
                "bound must be (N,), positive and finite: a datum with bound 0 would never come, and its "
                "weight 1 / pi would not exist"
            )

    def __repr__(self) -> str:
        mark = zlib.crc32(np.asarray(self.bound, float).tobytes())
        return f"HorvitzThompson(size={self.size}, bound: N={len(self.bound)}, checksum={mark:08x})"

    def start(self, n: int, rng: np.random.Generator) -> Probabilities:
        require_size(self.size, n)
        require_rows("bound", len(self.bound), n)
        return Probabilities.of(np.asarray(self.bound, float), self.size, rng)

    def draw(self, state: Probabilities, rng: np.random.Generator) -> tuple[Selection, Probabilities]:
        return state.draw(self.size, rng), state
