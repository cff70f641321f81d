"""Control variates for mini-batches of another strategy: SAGA, SVRG, and a Gaussian process of the gradients.

*SAGA* has the last gradient of each datum as its control variate (Defazio, Bach and Lacoste-Julien 2014).

    estimate = sum_n t_n + sum_i w_i (g_i - t_i),      then t_i <- g_i for the data of the mini-batch

t is used once N data have been drawn; until then the estimate is sum_i w_i g_i. Data that have not been drawn
by then get the mean of the others.

The estimate is unbiased over the draw, given the past, where that of ``base`` is (`Uniform` at each step,
`Reshuffled` marginally). As the gradients approach those in the table, the error tends to zero.
Cost O(S P) a step and O(N P) an epoch, which recomputes the sum. Memory N x P: for models with few
parameters or few data.

*SVRG* has a snapshot of all gradients as control variate (Johnson and Zhang 2013).

    estimate = sum_n a_n + sum_i w_i (g_i - a_i),      a_n the gradient of datum n at the snapshot

At a snapshot the mini-batch is *all* the data: that step has the exact gradient, and its N gradients are
kept, so the steps that follow cost S evaluations and not 2 S. There is a new snapshot every ``epochs``
epochs.

The estimate is unbiased over the draw of ``base``, given the past. Cost N evaluations for each snapshot, and
O(S P) a step beyond the gradients. Memory N x P.

*A Gaussian process of the gradients* is updated from step to step.

Gradients of earlier mini-batches enter the current estimate (the last question of the thesis' Section
7.3.2). The per-datum gradient is modelled as a linear function of features, B^T f(x), by a Kalman
filter (`features`); its integral over the data is known, so

    estimate = N mean(f)^T B + sum_i w_i (g_i - B^T f_i),

with B from the steps *before* this one.

The estimate is unbiased over the draw, given the past, where the mini-batches of ``base`` do not depend on
the past: with `Uniform`, and with `Balanced` and ``replacement=True``. With `Reshuffled` and `Balanced` by
epochs the estimate is *biased*: the remaining data are those to which B was not fitted. Where the features
explain most of the gradient that bias is small, and the errors of a partition's batches cancel. Cost O(M^2 S
+ M P S) a step beyond the gradients; O(N M^2) once for the features. Memory N x M and P x M, whatever N.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from acquisition.minibatch.features import Coefficients, Features, design, mean_design, require_features
from acquisition.minibatch.settings import LEARNING
from acquisition.minibatch.strategy import (
    Correcting,
    Selection,
    Strategy,
    require_base,
    require_between,
    require_rows,
)


@dataclass(frozen=True)
class SagaState:
    """The table and its sum."""

    below: Any
    """State of the strategy that draws."""
    table: GradientTable
    total: np.ndarray = field(metadata={"grows": True})
    """sum_n t_n, (P,); empty while the estimate has no correction."""
    drawn: int = 0
    """Data drawn since the sum was last computed anew."""

    def fork(self) -> SagaState:
        """A state that shares nothing with this one."""
        return replace(self, table=self.table.fork())


@dataclass(frozen=True)
class Saga(Correcting):
    """A table of all gradients corrects the estimate of another strategy's mini-batch.

    Parameters
    ----------
    base : the strategy that draws, such as ``Uniform(10)`` or ``Reshuffled(10)``
    """

    base: Strategy

    def __post_init__(self) -> None:
        require_base(self.base)

    def start(self, n: int, rng: np.random.Generator) -> SagaState:
        return SagaState(self.base.start(n, rng), GradientTable.empty(n), np.zeros(0))

    def draw(self, state: SagaState, rng: np.random.Generator) -> tuple[Selection, SagaState]:
        n = len(state.table.known)
        if state.drawn >= n:
            state = replace(state, total=_completed(state.table), drawn=0)
        selection, below = self.base.draw(state.below, rng)
        return selection, replace(state, below=below, drawn=state.drawn + len(selection.indices))

    def estimate(self, state: SagaState, selection: Selection, gradients: np.ndarray) -> np.ndarray:
        if len(state.total) == 0:
            return np.asarray(selection.weights @ gradients)
        gap = gradients - state.table.at(selection.indices)
        return np.asarray(state.total + selection.weights @ gap)

    def observe(self, state: SagaState, selection: Selection, gradients: np.ndarray) -> SagaState:
        indices, rows = distinct(selection.indices, gradients)
        total = state.total
        if len(total):
            total = total + (rows - state.table.at(indices)).sum(axis=0)
        return replace(state, table=state.table.with_rows(indices, rows), total=total)


def _completed(table: GradientTable) -> np.ndarray:
    """The sum of the table, whose unseen rows have become the mean of the others."""
    rows = table.all()
    if not table.known.all():
        rows[~table.known] = rows[table.known].mean(axis=0)
        table.known[:] = True
    return np.asarray(rows.sum(axis=0))


@dataclass(frozen=True)
class GradientTable:
    """The last gradient of every datum, N x P numbers, too many to copy at each step.

    The table is written to in place, one step late: the rows of the latest observation are *pending* and are
    written with the next one. The latest table therefore remains valid when a step fails in between (writing
    the same rows twice changes nothing). Earlier tables do not; `fork` makes a copy that shares no memory.
    """

    known: np.ndarray
    """(N,) whether a datum has been seen."""
    values: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(N P,) row by row; empty before the first observation."""
    indices: np.ndarray = field(default_factory=lambda: np.zeros(0, int), metadata={"grows": True})
    """(S,) data that are pending."""
    pending: np.ndarray = field(default_factory=lambda: np.zeros(0), metadata={"grows": True})
    """(S P,) the rows of the pending data."""

    @classmethod
    def empty(cls, n: int) -> GradientTable:
        """A table of ``n`` data before any observation."""
        return cls(np.zeros(n, bool))

    def fork(self) -> GradientTable:
        """A table that shares nothing with this one."""
        return replace(self, known=self.known.copy(), values=self.values.copy())

    @property
    def started(self) -> bool:
        """Whether any datum has been seen."""
        return len(self.values) > 0

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Rows of the data ``indices`` (S,), (S, P); zeros for data not yet seen."""
        rows: np.ndarray = self._rows[indices]
        match = self.indices[:, None] == indices[None, :]
        late, place = np.nonzero(match)
        rows[place] = self._pending[late]
        return rows

    def all(self) -> np.ndarray:
        """All rows (N, P), zeros for data not yet seen; not to be written to."""
        self._flush()
        return self._rows

    def with_rows(self, indices: np.ndarray, rows: np.ndarray) -> GradientTable:
        """The table after ``rows`` (S, P) of distinct data ``indices`` were seen."""
        values = self.values if self.started else np.zeros(len(self.known) * rows.shape[1])
        current = replace(self, values=values)
        current._flush()
        return GradientTable(self.known, values, indices, np.ascontiguousarray(rows, dtype=float).ravel())

    @property
    def _rows(self) -> np.ndarray:
        return np.reshape(self.values, (len(self.known), -1))

    @property
    def _pending(self) -> np.ndarray:
        return self.pending.reshape(len(self.indices), -1) if len(self.indices) else self._rows[:0]

    def _flush(self) -> None:
        if len(self.indices):
            self._rows[self.indices] = self._pending
            self.known[self.indices] = True


def distinct(indices: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The data and rows without repetitions, where a strategy has drawn a datum twice."""
    kept, first = np.unique(indices, return_index=True)
    return (indices, rows) if len(kept) == len(indices) else (kept, rows[first])


@dataclass(frozen=True)
class SvrgState:
    """A snapshot, and the number of data drawn since it was made."""

    below: Any
    """State of the strategy that draws."""
    n: int
    snapshot: np.ndarray = field(metadata={"grows": True})
    """(N P,) row by row."""
    total: np.ndarray = field(metadata={"grows": True})
    """(P,) its sum."""
    drawn: int = -1
    """Data drawn since the snapshot; -1 before the first snapshot."""


@dataclass(frozen=True)
class Svrg(Correcting):
    """A snapshot of all gradients corrects the estimate of another strategy's mini-batch.

    Parameters
    ----------
    base : the strategy that draws, such as ``Reshuffled(10)``
    epochs : the number of epochs between two snapshots, > 0
    """

    base: Strategy
    epochs: float = 2.0

    def __post_init__(self) -> None:
        require_base(self.base)
        require_between("epochs", self.epochs, np.finfo(float).tiny, np.inf)

    def start(self, n: int, rng: np.random.Generator) -> SvrgState:
        return SvrgState(self.base.start(n, rng), n, np.zeros(0), np.zeros(0))

    def next_size(self, state: SvrgState) -> int:
        """The number of data of the next draw after ``state``: S, or N at a snapshot."""
        return state.n if state.drawn < 0 or state.drawn >= self.epochs * state.n else self.size

    def draw(self, state: SvrgState, rng: np.random.Generator) -> tuple[Selection, SvrgState]:
        if state.drawn < 0 or state.drawn >= self.epochs * state.n:
            return Selection(np.arange(state.n), np.ones(state.n)), replace(state, drawn=-1)
        selection, below = self.base.draw(state.below, rng)
        return selection, replace(state, below=below, drawn=state.drawn + len(selection.indices))

    def estimate(self, state: SvrgState, selection: Selection, gradients: np.ndarray) -> np.ndarray:
        """The corrected sum; at a snapshot the exact sum."""
        if state.drawn < 0:
            return np.asarray(gradients.sum(axis=0))
        anchors = state.snapshot.reshape(state.n, -1)[selection.indices]
        return np.asarray(state.total + selection.weights @ (gradients - anchors))

    def observe(self, state: SvrgState, selection: Selection, gradients: np.ndarray) -> SvrgState:
        if state.drawn >= 0:
            return state
        return replace(state, snapshot=gradients.ravel(), total=gradients.sum(axis=0), drawn=0)


@dataclass(frozen=True)
class GPControlVariateState:
    """The coefficients, and the state of the strategy ``base``, which draws."""

    below: Any
    coefficients: Coefficients


@dataclass(frozen=True)
class GPControlVariate(Correcting):
    """A Gaussian process of the gradients, as control variate for another strategy's mini-batches.

    Parameters
    ----------
    base : the strategy that draws, such as ``Balanced(10, features, replacement=True)`` or ``Uniform(10)``
    features : features of the data
    noise : s^2 > 0, variance that the features do not explain, in units of the kernel's variance
    drift : rho in [0, 1], the drift of the coefficients between steps
    """

    base: Strategy
    features: Features
    noise: float = LEARNING.noise
    drift: float = LEARNING.drift

    def __post_init__(self) -> None:
        require_base(self.base)
        require_features(self.features)
        require_between("noise", self.noise, np.finfo(float).tiny, np.inf)
        require_between("drift", self.drift, 0.0, 1.0)

    @property
    def setup_seconds(self) -> float:
        """Seconds for the features, and for those of ``base`` where they are others."""
        below = getattr(self.base, "features", None)
        own = 0.0 if below is self.features else self.features.seconds
        return own + super().setup_seconds

    def start(self, n: int, rng: np.random.Generator) -> GPControlVariateState:
        require_rows("features", len(self.features), n)
        return GPControlVariateState(self.base.start(n, rng), Coefficients.prior(self.features))

    def draw(
        self, state: GPControlVariateState, rng: np.random.Generator
    ) -> tuple[Selection, GPControlVariateState]:
        selection, below = self.base.draw(state.below, rng)
        return selection, replace(state, below=below)

    def estimate(
        self, state: GPControlVariateState, selection: Selection, gradients: np.ndarray
    ) -> np.ndarray:
        if not state.coefficients.known:
            return np.asarray(selection.weights @ gradients)
        table, weights = state.coefficients.table, selection.weights
        missing = len(self.features) * mean_design(self.features) - weights @ design(
            self.features, selection.indices
        )
        return np.asarray(weights @ gradients + table @ missing)

    def observe(
        self, state: GPControlVariateState, selection: Selection, gradients: np.ndarray
    ) -> GPControlVariateState:
        at = selection.indices
        noise = self.features.residual[at] + self.noise
        coefficients = state.coefficients.observed(design(self.features, at), gradients, noise, self.drift)
        return replace(state, coefficients=coefficients)
