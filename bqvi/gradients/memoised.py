"""Memoised mini-batches: the exact natural gradient, a batch at a time (Hughes and Sudderth 2013).

The statistics of all data are a sum over batches, S = sum_b S_b, and those of each batch are kept. A step
visits one batch, replaces its S_b by that of the present q(theta), and sets eta to eta* = eta_0 + S. This is
coordinate ascent on the local variables of one batch and theta. With H_b the entropy of batch b at its last
visit,

    ELBO(q, all q(z)) = sum_b (<S_b, E t> + H_b) + sum ln h - KL(q || p)

never decreases for a conjugate model, there is no step size, and q moves after each batch. Terms that a
model adds to S and to the bound independently of the data (for a learnt concentration) are the result of its
local step for rows of weight 0, or of its `shared_step` where they depend on S (`Sharing`), and are computed
anew at each step. A batch whose local step ends at a lower bound than its old one (an ascent that found
another optimum) keeps the old one.

For a `LocalModel` that is not conjugate, such as a logistic regression, S_b is the slope
dE[ln p(X_b | theta)] / dmu at the q of the last visit, and <S_b, E t> + H_b is a tangent in mu and no bound.
There the new slope always replaces the old one, the ELBO may fall from one step to the next, and a q that
stays the same in a pass is a stationary point of it.

Until every batch has been visited, S is that of the visited batches times the ratio of the numbers of rows.
The S_b of the first batches are then those of an early q, and remain for a pass. ``stochastic_passes``
precede the visits: steps of stochastic variational inference (Hoffman et al. 2013) along the batches, N_b
rows each,

    W <- (1 - rho_t) W + rho_t (N / N_b) S_b,   eta = eta_0 + W,   rho_t = (t + 10)^-.7,

of which only W is kept; it replaces the statistics of batches not yet visited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arguments import AtLeast, Checked
from bqvi.arrays import Values, add, flat, inner, subtract, unflat
from bqvi.families.family import FamilyOrPoint
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.settings import MEMOISED, STOCHASTIC
from bqvi.models.contracts import LocalStep, is_conjugate, update_target
from bqvi.models.data import Data, n_rows, take
from gp.arrays import Array

_ORDER = 0
"""Seed of the shuffle that makes the batches, so that a resumed run has the same."""
_LEAST = -1e30
"""The number that replaces an expected statistic of minus infinity, so that 0 times it is 0."""


@runtime_checkable
class Sharing(Protocol):
    """A model with statistics that are not a sum over rows, such as those of a learnt hyperparameter."""

    def own_step(self, q: FamilyOrPoint, rows: Data, weights: Array | None = None) -> LocalStep:
        """The local step of ``rows`` under q, with ``weights`` (S,), default 1, without `shared_step`."""

    def shared_step(self, q: FamilyOrPoint, statistics: Values) -> LocalStep:
        """The shared statistics and their term of the bound, given the sum ``statistics`` over rows."""


@dataclass(frozen=True)
class MemoisedMemory:
    """Statistics and entropy of each batch at its last visit."""

    statistics: np.ndarray = field(metadata={"grows": True})
    """(B, P), S_b as one row; (0, P) before the first step."""
    entropies: np.ndarray = field(metadata={"grows": True})
    """(B,), H_b."""
    visits: int
    """Steps taken."""
    running: np.ndarray = field(default_factory=lambda: np.empty(0), metadata={"grows": True})
    """(P,), W of the stochastic passes; (0,) without."""


@dataclass(frozen=True)
class Memoised(Checked):
    """eta* - eta of all the data, with the local step of one batch; no samples.

    Parameters
    ----------
    size : S >= 1, rows in a batch; None for a tenth of the data, at least 100
    shuffle : whether batches are drawn at random from the data (once); with False they are consecutive rows,
        which are read fastest from memory-mapped data
    stochastic_passes : passes of stochastic steps before the first visits
    """

    size: Annotated[int | None, AtLeast(1)] = None
    shuffle: bool = True
    stochastic_passes: Annotated[int, AtLeast(0)] = 0
    samples: int = 0
    gives_surrogate = False

    def batches(self, n: int) -> int:
        """The number of batches of ``n`` rows."""
        size = max(MEMOISED.least, math.ceil(n / MEMOISED.batches)) if self.size is None else self.size
        return max(1, math.ceil(n / size))

    def visited_all(self, memory: MemoisedMemory, n: int) -> bool:
        """Whether each batch of ``n`` rows has been visited; before that the bound is not of all data."""
        return len(memory.statistics) == self.batches(n)

    def rows(self, n: int, b: int) -> np.ndarray | slice:
        """The rows of batch ``b`` among ``n``; the sizes of batches differ by at most one."""
        start, stop = (n * i // self.batches(n) for i in (b, b + 1))
        if not self.shuffle:
            return slice(start, stop)
        return np.sort(np.random.default_rng(_ORDER).permutation(n)[start:stop])

    def start(self, model: Any, q: FamilyOrPoint) -> MemoisedMemory:
        """The memory before the first visit.

        Raises
        ------
        ValueError
            The statistics of the model are not a sum over batches.
        """
        if getattr(model, "full_batch", False):
            raise ValueError(
                f"method is 'memoised', but this {type(model).__name__} has parameters for each datum, whose "
                "statistics are no sum over batches; use 'cavi'"
            )
        if getattr(model, "points_only", False):
            raise ValueError(
                f"method is 'memoised', but the maximisation step of this {type(model).__name__} is one of "
                "gradient ascent, for which batches have no statistics to keep; use 'cavi' or 'sngd'"
            )
        size = sum(int(np.size(eta)) for eta in q.natural)
        return MemoisedMemory(np.empty((0, size)), np.empty(0), 0)

    def __call__(
        self,
        model: Any,
        q: FamilyOrPoint,
        batch: Batch,
        rng: np.random.Generator,
        memory: MemoisedMemory | None = None,
    ) -> Gradient:
        """The natural gradient at q once the next batch has been visited."""
        n = n_rows(batch.rows)
        known = self.start(model, q) if memory is None else memory
        b = known.visits % self.batches(n)
        index = self.rows(n, b)
        rows = take(batch.rows, index)
        expected = tuple(np.maximum(part, _LEAST) for part in q.expected_statistics)
        local, nothing = _visited(model, q, rows)
        found = local.statistics
        if known.visits < self.stochastic_passes * self.batches(n):
            return _stochastic(model, q, known, found, nothing, (n_rows(rows), n))
        prior = model.prior.natural
        found = _held(prior, found, expected)
        entropy = local.bound - float(inner(found, expected))
        held = expected if is_conjugate(model) else None
        kept = _replaced(known, b, found, entropy, held, prior)
        everything = self._of_all(model, q, kept, nothing, expected, n)
        return Gradient(
            subtract(update_target(model, everything), q.natural),
            natural=True,
            n_evaluations=n_rows(rows),
            local=everything if self.visited_all(kept, n) else None,
            memory=kept,
        )

    def _of_all(
        self,
        model: Any,
        q: FamilyOrPoint,
        kept: MemoisedMemory,
        nothing: LocalStep,
        expected: tuple[Array, ...],
        n: int,
    ) -> LocalStep:
        """The local step of all ``n`` data from the batches kept, and that of none, ``nothing``."""
        total = unflat(kept.statistics.sum(axis=0), q.natural)
        if not self.visited_all(kept, n):
            seen = sum(len(np.arange(n)[self.rows(n, i)]) for i in range(len(kept.statistics)))
            total = _completed(total, kept.running, seen / n)
        if isinstance(model, Sharing):
            nothing = model.shared_step(q, total)
        held = _held(model.prior.natural, total, expected)
        bound = nothing.bound + float(inner(held, expected)) + float(kept.entropies.sum())
        return LocalStep(add(total, nothing.statistics), bound)


def _visited(model: Any, q: FamilyOrPoint, rows: Any) -> tuple[LocalStep, LocalStep]:
    """The local step of a batch's rows less that of no data, and that of no data."""
    step = model.own_step if isinstance(model, Sharing) else model.local_step
    nothing = step(q, take(rows, slice(0, 1)), np.zeros(1))
    local = step(q, rows)
    return LocalStep(subtract(local.statistics, nothing.statistics), local.bound - nothing.bound), nothing


def _stochastic(
    model: Any,
    q: FamilyOrPoint,
    known: MemoisedMemory,
    found: Values,
    nothing: LocalStep,
    rows: tuple[int, int],
) -> Gradient:
    """A step of W towards the statistics ``found`` of a batch, scaled to all data; ``rows`` of both."""
    rho = (known.visits + STOCHASTIC.delay) ** -STOCHASTIC.power
    before = known.running if known.running.size else flat(subtract(q.natural, model.prior.natural))
    running = (1.0 - rho) * before + rho * (rows[1] / rows[0]) * flat(found)
    total = unflat(running, q.natural)
    if isinstance(model, Sharing):
        nothing = model.shared_step(q, total)
    target = update_target(model, LocalStep(add(total, nothing.statistics), 0.0))
    return Gradient(
        subtract(target, q.natural),
        natural=True,
        n_evaluations=rows[0],
        memory=replace(known, visits=known.visits + 1, running=running),
    )


def _completed(total: Values, running: np.ndarray, share: float) -> Values:
    """Statistics of all data, from the ``total`` of a ``share`` of them, and W where there is one."""
    if not running.size:
        return tuple(part / share for part in total)
    return add(total, unflat((1.0 - share) * running, total))


def _held(prior: Values, total: Values, expected: Values) -> Values:
    """``total`` with entries set to 0 that are lost to rounding in eta_0 + S where E t is minus infinity.

    In a point mass, statistics below a rounding error of eta_0 + S have a probability of 0.
    """
    return tuple(
        np.where(mean <= _LEAST, (eta + part) - eta, part)
        for eta, part, mean in zip(prior, total, expected, strict=True)
    )


def _replaced(
    known: MemoisedMemory, b: int, found: Values, entropy: float, expected: Values | None, prior: Values
) -> MemoisedMemory:
    """The memory with the new statistics of batch ``b``, unless its old ones have the higher bound.

    Without statistics ``expected`` under q, they have no bound.
    """
    row = flat(found)
    if b == len(known.statistics):  # the first visit of this batch
        statistics = np.concatenate([known.statistics, row[None]])
        entropies = np.append(known.entropies, entropy)
        return replace(known, statistics=statistics, entropies=entropies, visits=known.visits + 1)
    statistics, entropies = known.statistics.copy(), known.entropies.copy()
    if expected is not None:
        old, weights = flat(_held(prior, unflat(statistics[b], prior), expected)), flat(expected)
    if expected is None or row @ weights + entropy >= old @ weights + entropies[b]:
        statistics[b], entropies[b] = row, entropy
    return replace(known, statistics=statistics, entropies=entropies, visits=known.visits + 1)
