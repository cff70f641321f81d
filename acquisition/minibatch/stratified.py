"""Stratified sampling: one draw from each of S strata, which are clusters of the features by k-means.

A row of stratum h is drawn with probability 1 / n_h and has the weight n_h, the size of the stratum, so the
estimate is unbiased over the draw. Cost O(S) a step; once O(N M S). Memory N integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.minibatch.featured import Featured
from acquisition.minibatch.features import Features
from acquisition.minibatch.settings import STRATA
from acquisition.minibatch.strategy import Probable, Selection

__all__ = ["Stratified", "StratifiedState"]


@dataclass(frozen=True)
class StratifiedState:
    """Strata, as consecutive parts of an order of the data."""

    order: np.ndarray
    """(N,) rows, stratum by stratum."""
    edges: np.ndarray
    """(S + 1,) where strata begin and end in ``order``."""


@dataclass(frozen=True)
class Stratified(Probable, Featured):
    """One datum of each of S strata.

    Parameters
    ----------
    size : S, between 1 and N
    features : of the data
    """

    size: int
    features: Features

    def start(self, n: int, rng: np.random.Generator) -> StratifiedState:
        """State before the first draw.

        Raises
        ------
        ValueError
            There are fewer distinct rows than strata, so that some stratum would be empty.
        """
        self.require_fit(n)
        labels = _labels(self.features.phi, self.size, rng)
        counts = np.bincount(labels, minlength=self.size)
        return StratifiedState(np.argsort(labels, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))

    def draw(self, state: StratifiedState, rng: np.random.Generator) -> tuple[Selection, StratifiedState]:
        """The next mini-batch."""
        counts = np.diff(state.edges)
        places = state.edges[:-1] + (rng.random(self.size) * counts).astype(int)
        return Selection(state.order[places], counts.astype(float)), state


def _labels(phi: np.ndarray, strata: int, rng: np.random.Generator) -> np.ndarray:
    """Stratum of each row, no stratum empty: the best result of the Lloyd iterations."""
    labels = _seeded(phi, strata, rng)
    best, least = labels, np.inf
    for _ in range(STRATA.sweeps):
        counts = np.bincount(labels, minlength=strata).astype(float)
        centres = np.zeros((strata, phi.shape[1]))
        np.add.at(centres, labels, phi)
        centres /= counts[:, None]
        squares = _squares(phi, centres)
        value = float(np.bincount(labels, squares[np.arange(len(phi)), labels], minlength=strata).sum())
        if value >= least:
            break
        best, least = labels, value
        labels = _without_empty(np.argmin(squares, axis=1), squares, strata)
    return best


def _squares(phi: np.ndarray, centres: np.ndarray) -> np.ndarray:
    lengths = np.einsum("nm,nm->n", phi, phi)[:, None] + np.einsum("hm,hm->h", centres, centres)
    return np.asarray(np.maximum(lengths - 2.0 * phi @ centres.T, 0.0))


def _seeded(phi: np.ndarray, strata: int, rng: np.random.Generator) -> np.ndarray:
    """Labels by the nearest of k-means++ seeds (Arthur and Vassilvitskii 2007)."""
    nearest = np.full(len(phi), np.inf)
    labels = np.zeros(len(phi), int)
    for h in range(strata):
        total = nearest.sum()
        if h and not total > 0.0:
            raise ValueError(
                f"size is {strata}, but the data have {h} distinct rows: a stratum would be empty; use at "
                f"most {h} strata, or Reshuffled"
            )
        seed = rng.choice(len(phi), p=nearest / total) if h else rng.integers(len(phi))
        gap = phi - phi[seed]
        squares = np.einsum("nm,nm->n", gap, gap, dtype=np.float64)
        squares[seed] = 0.0
        closer = squares < nearest
        labels[closer], nearest[closer] = h, squares[closer]
        labels[seed] = h
    return labels


def _without_empty(labels: np.ndarray, squares: np.ndarray, strata: int) -> np.ndarray:
    """Assign to each empty stratum the row furthest from its centre, of strata with more than one row."""
    counts = np.bincount(labels, minlength=strata)
    far = iter(np.argsort(-squares[np.arange(len(labels)), labels], kind="stable"))
    for h in np.flatnonzero(counts == 0):
        row = next(i for i in far if counts[labels[i]] > 1)
        counts[labels[row]] -= 1
        labels[row], counts[h] = h, 1
    return labels
