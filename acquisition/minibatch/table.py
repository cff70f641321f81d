"""The last gradient of every datum, N x P numbers, too many to copy at each step.

The table is written to in place, one step late: the rows of the latest observation are *pending* and are
written with the next one. The latest table therefore remains valid when a step fails in between (writing the
same rows twice changes nothing). Earlier tables do not, and `fork` makes a copy that shares no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class GradientTable:
    """Rows by datum."""

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
