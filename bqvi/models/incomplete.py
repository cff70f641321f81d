"""Passes over data with missing values (NaN), which are integrated out for all rows with the same columns.

For rows in which the columns o are observed the expected log joint is affine in T(x_o), as it is affine in
T(x) for whole rows. Each pattern of columns therefore takes one pass of `mixture`, and K inverses of the
missing columns' precision; the expectations of the missing columns are then added to the statistics
(`covariances`), or left out (`known_covariance`). The bound remains exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arrays import Values, add
from bqvi.families.family import FamilyOrPoint
from bqvi.models.data import patterns
from bqvi.models.mixture import AffineLogJoint, lifted, mixture_pass
from gp.arrays import Array, to_numpy


@runtime_checkable
class MarginalComponents(Protocol):
    """Components whose missing columns can be integrated out."""

    def expectations(self, q: FamilyOrPoint) -> tuple[Array, ...]:
        """The terms of the expected log density under q, (K, ...)."""

    def expectations_at(self, theta: Array, n_components: int) -> tuple[Array, ...]:
        """The same at a point ``theta`` of K = ``n_components``."""

    def affine_of(
        self, expected: Any, log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        """rho of rows with the columns ``shown`` (D,), with ``expected`` and ``log_weights`` (K,)."""

    def completed(
        self, expected: Any, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray, shift: np.ndarray | None
    ) -> Values:
        """The natural parameters added by N_k (K,) and sums of T(x - shift) of the columns ``shown``."""


@dataclass(frozen=True)
class IncompletePass:
    """Gaussian components whose data have missing values."""

    components: MarginalComponents
    expected: Any
    """Of the K components, and of a tied tail behind them."""
    log_weights: np.ndarray
    """E ln pi, as many."""

    def summed(
        self, rows: np.ndarray, weights: Array | None, n_components: int
    ) -> tuple[np.ndarray, Values, float]:
        """N_k, the rows' contribution to the natural parameters of the K components, and the bound."""
        k = n_components
        part = np.ones(len(rows)) if weights is None else to_numpy(weights)
        own = type(self.expected)(*(x[:k] for x in self.expected))
        counts, bound = np.zeros(len(self.log_weights)), 0.0
        total: Values | None = None
        for index, block, shown in patterns(rows):
            affine = self._affine(shown)
            sums = mixture_pass(np.ascontiguousarray(block[:, shown]), affine, part[index])
            found = self.components.completed(own, shown, sums.counts[:k], sums.sums[:k], affine.shift)
            total = found if total is None else add(total, found)
            counts += sums.counts
            bound += sums.log_normaliser
        return counts, _of_some_rows(total), bound

    def statistics(self, rows: np.ndarray, r: np.ndarray) -> Values:
        """The natural parameters added by ``rows`` (N, D) with responsibilities ``r`` (N, K)."""
        total: Values | None = None
        for index, block, shown in patterns(rows):
            affine, part, columns = self._affine(shown), r[index], block[:, shown]
            table = lifted(columns if affine.shift is None else columns - affine.shift, affine.lift)
            found = self.components.completed(self.expected, shown, part.sum(0), part.T @ table, affine.shift)
            total = found if total is None else add(total, found)
        return _of_some_rows(total)

    def rho(self, rows: np.ndarray) -> np.ndarray:
        """Expected log joint of each row and component, less ln h, (N, K)."""
        out = np.empty((len(rows), len(self.log_weights)))
        for index, block, shown in patterns(rows):
            out[index] = self._affine(shown).rho(block[:, shown])
        return out

    def _affine(self, shown: np.ndarray) -> AffineLogJoint:
        return self.components.affine_of(self.expected, self.log_weights, shown)


def _of_some_rows(total: Values | None) -> Values:
    if total is None:
        raise ValueError("rows is empty; a local step needs at least one row")
    return total
