"""A model of weighted rows: data are (X, w), and row n counts as w_n copies.

Weights enter the statistics and the bound, the parameters of a prior that depend on the data, and the start,
which is drawn from the distinct rows with probabilities proportional to their weights, in an order that does
not depend on that of the rows. Whole weights therefore give the results of repeated rows, to rounding, for up
to `settings.CENTRES.rows` rows; from more rows a sample is drawn, which then differs.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any, Self

import numpy as np

from bqvi.families.family import FamilyOrPoint
from bqvi.models.contracts import LocalStep
from bqvi.models.data import Data, as_numbers, is_sparse, n_rows, take
from bqvi.models.sequences import Sequences
from bqvi.models.settings import CENTRES
from gp.arrays import Array, to_numpy
from gp.checks import require_finite, require_shape

_SORTED_BY = 8
"""The number of values of a row by which rows are ordered for a start; other ties are broken arbitrarily."""


class Weighted:
    """A model of weighted rows; its data are a tuple (X, w), w (N,) nonnegative. Made by `weighted`.

    Parameters
    ----------
    model : the model of X: a conjugate model whose ``initial`` takes weights of rows, and with
        ``log_base_measures`` (N,), such as mixtures, topics and hidden Markov models (a row is a sequence)
    name : what messages call w
    """

    def __init__(self, model: Any, name: str = "weights") -> None:
        self.model = model
        self.name = name

    @property
    def prior(self) -> Any:
        return self.model.prior

    def for_data(self, data: Data) -> Self:
        """The model with a prior settled by the weighted rows."""
        other = copy.copy(self)
        if hasattr(self.model, "for_data"):
            other.model = self.model.for_data(*self.check(data))
        return other

    def check(self, data: Data) -> tuple[Data, np.ndarray]:
        """X as the model takes it, and w (N,): finite, nonnegative, some of it positive."""
        x, weights = data
        x = self.model.check(x)
        weights = to_numpy(as_numbers(self.name, weights)).astype(float, copy=False)
        require_shape(self.name, weights, (n_rows(x),))
        require_finite(self.name, weights)
        if weights.min() < 0.0 or not weights.any():
            given = f"has {weights.min():g}" if weights.any() else "is zero throughout"
            raise ValueError(f"{self.name} {given}; weights must not be negative, and not all of them zero")
        return x, weights

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Any:
        x, weights = data
        counted = np.flatnonzero(weights > 0.0)
        rows, own = take(x, counted), weights[counted]
        if len(counted) <= CENTRES.rows:
            rows, own = _distinct(rows, own)
        return self.model.initial(rows, how, rng, own)

    def local_step(self, q: FamilyOrPoint, rows: Data, weights: Array | None = None) -> LocalStep:
        x, own = rows
        return self.model.local_step(q, x, own if weights is None else own * weights)

    def log_base_measure(self, data: Data) -> float:
        x, weights = data
        return float(weights @ self.model.log_base_measures(x))

    def log_likelihood(self, data: Data, theta: Array) -> float:
        """ln p(X | theta) of the rows X of ``data``, without their weights."""
        return float(self.model.log_likelihood(data[0], theta))


class WeightedRefinable(Weighted):
    """The weighted form of a model whose local step is an ascent that continues (`gradients.conjugate`)."""

    @property
    def local_size(self) -> int:
        """The model's."""
        return int(self.model.local_size)

    def refined_step(self, q: FamilyOrPoint, rows: Data, local: np.ndarray) -> LocalStep:
        """The model's."""
        x, own = rows
        return self.model.refined_step(q, x, local, own)

    def own_step(self, q: FamilyOrPoint, rows: Data, weights: Array | None = None) -> LocalStep:
        """The model's, with both weights."""
        x, own = rows
        return self.model.own_step(q, x, own if weights is None else own * weights)

    def shared_step(self, q: FamilyOrPoint, statistics: Any) -> LocalStep:
        """The model's."""
        return self.model.shared_step(q, statistics)


def weighted(model: Any, name: str = "weights") -> Weighted:
    """The ``model`` of weighted rows, with weights that messages call ``name``."""
    return WeightedRefinable(model, name) if hasattr(model, "refined_step") else Weighted(model, name)


def _distinct(x: Data, weights: np.ndarray) -> tuple[Data, np.ndarray]:
    """The distinct rows of ``x`` in an order determined by their values, and their weights.

    The order is that of the first values, which does not change where all are shifted or scaled in the same
    way.
    """
    keys = np.array([hashlib.blake2b(row, digest_size=16).hexdigest() for row in _as_bytes(x)])
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    total = np.bincount(which, weights)
    if not is_sparse(x):
        order = np.lexsort(_first_values(x)[first].T[::-1])
        first, total = first[order], total[order]
    return take(x, first), total


def _first_values(x: Data) -> np.ndarray:
    """(N, at most `_SORTED_BY`) of each row; of a sequence those of its first time."""
    values = to_numpy(x.values if isinstance(x, Sequences) else x)
    rows: np.ndarray = values.reshape(len(values), -1)[:, :_SORTED_BY]
    if isinstance(x, Sequences):
        rows = rows[np.cumsum(x.lengths) - x.lengths]
    return rows


def _as_bytes(x: Data) -> list[bytes]:
    """Of each row, the same whatever the type of its numbers."""
    if isinstance(x, Sequences):
        return [part.tobytes() for part in x.split(np.ascontiguousarray(x.values, float))]
    if not is_sparse(x):
        return [row.tobytes() for row in np.ascontiguousarray(to_numpy(x), float)]
    ends = zip(x.indptr[:-1], x.indptr[1:], strict=True)
    indices, numbers = x.indices.astype(np.int64), x.data.astype(float)
    return [indices[a:b].tobytes() + numbers[a:b].tobytes() for a, b in ends]
