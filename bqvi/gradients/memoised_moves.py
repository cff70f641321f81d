"""Births and merges of a mixture's components inside the memoised loop (after Hughes and Sudderth 2013).

With statistics S = sum_b S_b and entropies H = sum_b H_b of the batches, the bound at the optimal q(theta) is
computed without a pass over data,

    F(S, H) = <S, E_q t> + H - KL(q || p),   q at eta_0 + S,

so that the effect of a change of the batches' q(z) is known exactly; a change is made where F increases:

    merge   components j and k of all batches: S_j <- S_j + S_k, S_k <- 0, and H changes by the sum over data
            of r_j ln r_j + r_k ln r_k - (r_j + r_k) ln(r_j + r_k), which is negative. Only pairs for which F
            would increase without that change are candidates; their changes of H are kept for each batch over
            the next pass.
    birth   the rows of component j in one batch are divided by k-means, components without data are assigned
            the parts, and the other batches take a local step under the resulting q(theta), N rows with the
            batch itself.

A move changes the statistics that are kept, and q one step later, so that the bound of a run never decreases.
A run with births needs a small tolerance. Coordinate ascent alone does not divide a component in two where
intermediate states have a lower bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import xlogy

from bqvi.arrays import Values, add, flat, inner, subtract, unflat
from bqvi.families.family import FamilyOrPoint
from bqvi.models.component_mixture import Mixture
from bqvi.models.components import starting_centres, statistics_of
from bqvi.models.data import Data, take
from bqvi.models.merging import require_own_parameters
from bqvi.models.settings import MOVES

if TYPE_CHECKING:
    from bqvi.gradients.memoised import MemoisedMemory


@dataclass(frozen=True)
class Moves:
    """Numbers of births and merges that are tried; the bound is exact for all values."""

    pairs: int = 10
    """The most pairs whose merge is prepared in a pass, those of the largest gain apart from the entropy."""
    parts: tuple[int, ...] = (2, 4)
    """Numbers of parts into which a component's rows are divided; one is drawn at random."""
    passes: int = 20
    """The number of passes in each of which a birth is tried, from one batch after the other, for a component

    drawn by its size. 5, 10, 20, 40 and 80 were compared on ten data sets of 15 Gaussians: from 20 on all
    ended at the best bound, with 5 and 10 one ended 11 nats lower; without moves all ended 88 to 950 nats
    lower.
    """


def require_movable(model: Any, q: Any) -> None:
    """Raise ValueError where there are no components to move."""
    if not isinstance(model, Mixture) or not model.mixing.name:
        raise ValueError(
            f"moves were asked for, but the model is a {type(model).__name__}; they are for mixtures with "
            "weights that are learnt"
        )
    require_own_parameters(model, q)
    if model.incomplete:
        raise ValueError("moves were asked for, but data has NaN, with which no component is divided")


def losses(model: Mixture, q: Any, rows: Data, pairs: np.ndarray) -> np.ndarray:
    """Changes (M,) <= 0 of the entropy of ``rows`` by merges of ``pairs`` (M, 2).

    Parameters
    ----------
    model : the mixture. q : the present q. rows : the data of a batch. pairs : of components, (M, 2).
    """
    if not len(pairs):
        return np.zeros(0)
    r = model.responsibilities(q, rows)
    a, b = r[:, pairs[:, 0]], r[:, pairs[:, 1]]
    return np.asarray((xlogy(a, a) + xlogy(b, b) - xlogy(a + b, a + b)).sum(0))


def merged_memory(model: Mixture, q: FamilyOrPoint, memory: MemoisedMemory, moves: Moves) -> MemoisedMemory:
    """``memory`` after a whole pass: prepared merges are made where F increases, and new pairs are chosen.

    Parameters
    ----------
    model : the mixture. q : the present q. memory : the statistics of all batches. moves : the settings.
    """
    statistics, entropies = memory.statistics.copy(), memory.entropies.copy()
    total, entropy = statistics.sum(0), float(entropies.sum())
    best = _bound(model, q, total, entropy)
    changes = memory.losses.sum(0)
    merged_away: set[int] = set()
    for place, (j, k) in enumerate(memory.pairs):
        if {int(j), int(k)} & merged_away:
            continue
        joined = _joined(model, q, total, int(j), int(k))
        value = _bound(model, q, joined, entropy + float(changes[place]))
        if value > best:
            statistics = np.stack([_joined(model, q, row, int(j), int(k)) for row in statistics])
            entropies += memory.losses[:, place]
            total, entropy, best = joined, entropy + float(changes[place]), value
            merged_away |= {int(j), int(k)}
    order = np.argsort(-_counts(total, q)[: model.n_components], kind="stable")
    ordered = _permuted(model, q, total, order)
    # stick-breaking weights: components in the order of their size
    if _bound(model, q, ordered, entropy) > best:
        statistics = np.stack([_permuted(model, q, row, order) for row in statistics])
        total, best = ordered, _bound(model, q, ordered, entropy)
    pairs = _candidates(model, q, total, entropy, best, moves.pairs)
    return memory.moved(statistics, entropies, pairs)


def divided_memory(
    model: Mixture,
    q: FamilyOrPoint,
    batches: Callable[[int], Data],
    b: int,
    memory: MemoisedMemory,
    moves: Moves,
    rng: np.random.Generator,
) -> MemoisedMemory | None:
    """``memory`` after a birth from the rows of batch ``b``; None if no birth raises F.

    Parameters
    ----------
    model : a mixture of K components. q : the distribution of its parameters.
    batches : a function of b that returns the rows of batch b
    b : the number of the batch. memory : the statistics and entropies of all batches.
    moves : the parts into which rows may be divided, and other settings. rng : draws component and division.
    """
    total = memory.statistics.sum(0)
    best = _bound(model, q, total, float(memory.entropies.sum()))
    k = model.n_components
    all_counts, rows = _counts(total, q), batches(b)
    spare = np.flatnonzero(all_counts[:k] <= MOVES.least)
    r = model.responsibilities(_settled(model, q, total), rows)
    parent = int(rng.choice(k, p=all_counts[:k] / all_counts[:k].sum()))
    taken = spare[: int(rng.choice(moves.parts)) - 1]
    parted = divided(model, rows, r, parent, taken, rng) if len(taken) else None
    if parted is None:
        return None
    row = flat((*_of_counts(model, q, parted.sum(0)), *statistics_of(model.components, rows, parted[:, :k])))
    suggested = _settled(model, q, _spread(model, q, total, row, [parent, *taken]))
    found = [
        (row, -float(xlogy(parted, parted).sum())) if i == b else local_memory(model, suggested, batches(i))
        for i in range(len(memory.entropies))
    ]
    statistics, entropies = np.stack([part for part, _ in found]), np.array([h for _, h in found])
    if _bound(model, q, statistics.sum(0), float(entropies.sum())) <= best:
        return None
    # the changes of entropy of pairs hold for the earlier responsibilities, so none are kept
    return memory.moved(statistics, entropies, np.empty((0, 2), np.intp))


def _spread(
    model: Mixture, q: FamilyOrPoint, total: np.ndarray, row: np.ndarray, members: list[int]
) -> np.ndarray:
    """``total`` with the parent's data divided among ``members`` in the proportions of one batch, ``row``."""
    counts, own = _counts(total, q).copy(), _counts(row, q)
    times = counts[members[0]] / own[members].sum()
    counts[members] = times * own[members]
    parts = [part.copy() for part in unflat(total, q.natural)[1:]]
    for part, of_batch in zip(parts, unflat(row, q.natural)[1:], strict=True):
        part[members] = times * of_batch[members]
    return flat((*_of_counts(model, q, counts), *parts))


def local_memory(model: Mixture, q: Any, rows: Data) -> tuple[np.ndarray, float]:
    """S_b as one row, and H_b, of the optimal q(z) of ``rows`` under ``q``."""
    local = model.local_step(q, rows)
    weights = model.mixing.statistics(q[model.mixing.name], np.zeros(model.n_components + model.mixing.tied))
    count = len(weights)
    found = (*subtract(local.statistics[:count], weights), *local.statistics[count:])
    bound = local.bound - model.mixing.bound(q[model.mixing.name])
    return flat(found), bound - float(inner(found, q.expected_statistics))


def _of_counts(model: Mixture, q: Any, counts: np.ndarray) -> Values:
    """The term of counts in the weights' natural parameters, without that of a learnt concentration."""
    mixing, factor = model.mixing, q[model.mixing.name]
    return subtract(mixing.statistics(factor, counts), mixing.statistics(factor, np.zeros_like(counts)))


def _counts(row: np.ndarray, q: FamilyOrPoint) -> np.ndarray:
    """N_k of statistics, (K,), or (K + 1,) with a tied tail."""
    weights = unflat(row, q.natural)[0]
    return weights if weights.ndim == 1 else np.append(weights[:, 0], weights[-1:, 1])


def _joined(model: Mixture, q: FamilyOrPoint, row: np.ndarray, j: int, k: int) -> np.ndarray:
    """Statistics with those of component ``k`` added to those of ``j``."""
    counts = _counts(row, q).copy()
    counts[j] += counts[k]
    counts[k] = 0.0
    parts = [part.copy() for part in unflat(row, q.natural)[1:]]
    for part in parts:
        part[j] += part[k]
        part[k] = 0.0
    return flat((*_of_counts(model, q, counts), *parts))


def _permuted(model: Mixture, q: FamilyOrPoint, row: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Statistics with the components in another order; a tied tail stays behind them."""
    counts = _counts(row, q)
    counts = np.concatenate([counts[order], counts[len(order) :]])
    return flat((*_of_counts(model, q, counts), *(part[order] for part in unflat(row, q.natural)[1:])))


def _settled(model: Mixture, q: Any, row: np.ndarray) -> Any:
    """q(theta) at eta_0 + S."""
    weights = model.mixing.statistics(q[model.mixing.name], np.zeros(model.n_components + model.mixing.tied))
    parts = unflat(row.copy(), q.natural)
    for part, more in zip(parts, weights, strict=False):
        part += more
    return q.from_natural(add(model.prior.natural, parts))


def _bound(model: Mixture, q: FamilyOrPoint, row: np.ndarray, entropy: float) -> float:
    """F(S, H), less ln h of data; ``q`` gives the structure, and the concentration where it is learnt."""
    best = _settled(model, q, row)
    statistics = unflat(row, q.natural)
    level = model.mixing.bound(best[model.mixing.name]) + float(inner(statistics, best.expected_statistics))
    return level + entropy - float(best.kl(model.prior))


def _candidates(
    model: Mixture, q: FamilyOrPoint, row: np.ndarray, entropy: float, best: float, most: int
) -> np.ndarray:
    """Pairs (M, 2) of occupied components whose merge raises F apart from the entropy, best first."""
    alive = np.flatnonzero(_counts(row, q)[: model.n_components] > MOVES.least)
    gains = [
        (_bound(model, q, _joined(model, q, row, int(j), int(k)), entropy) - best, int(j), int(k))
        for j, k in combinations(alive, 2)
    ]
    chosen = sorted((gain for gain in gains if gain[0] > 0.0), reverse=True)[:most]
    return np.array([pair for _, *pair in chosen], dtype=np.intp).reshape(-1, 2)


def divided(
    model: Mixture, data: Data, r: np.ndarray, j: int, spare: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """The responsibilities (N, K) after dividing the rows of component ``j`` among it and ``spare`` ones.

    None where there are too few rows, or k-means leaves a part empty.

    Parameters
    ----------
    model : the mixture of K components. data : N rows. r : the responsibilities (N, K) before.
    j : the component that is divided. spare : the numbers of the components that take its rows.
    rng : starts k-means.
    """
    own, parts = np.flatnonzero(r[:, j] > MOVES.own), len(spare) + 1
    if len(own) < parts:
        return None
    # The import is here, as it takes a twentieth of the time of `import bqvi`.
    from scipy.cluster.vq import kmeans2

    points = model.components.representation(take(data, own))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # empty parts are handled below
        _, labels = kmeans2(points, starting_centres(points, parts, "k-means++", rng), minit="matrix")
    if len(np.unique(labels)) < parts:
        return None
    moved = r.copy()
    for part, k in enumerate(spare, start=1):
        rows = own[labels == part]
        moved[rows, k] += moved[rows, j]
        moved[rows, j] = 0.0
    return moved
