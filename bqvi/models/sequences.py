"""Sequences of different lengths, cut into *pieces* of about the same length, which are computed together.

Arrays are (c, K, C), with time within a piece on the first axis and pieces on the last, longest first, so
that the pieces at least as long as a given time are a prefix. The initial state of a piece is found by
iteration (`forward_backward`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.models.data import as_numbers
from gp.arrays import to_numpy

_PIECES = 500
"""The number of pieces where sequences are long enough; 300, 500 and 1,000 were compared at 100,000 values, K
= 5 and 8."""
_SHORTEST = 128
"""The length up to which a sequence is not cut: the end of shorter pieces depends on the initial state."""


@dataclass(frozen=True)
class SequenceLayout:
    """Pieces of sequences; C of them, the longest of length c."""

    index: np.ndarray
    """(c, C), the index of each entry among all values; 0 where there is none."""
    shown: np.ndarray
    """(c, C)."""
    lengths: np.ndarray
    """(C,), falling."""
    running: np.ndarray
    """(c + 1,), the number of pieces longer than t."""
    previous: np.ndarray
    """(C,), the piece before in the same sequence; -1 for a first piece."""
    following: np.ndarray
    """(C,), the piece after; -1 for a last piece."""
    sequence: np.ndarray
    """(C,), the sequence of each piece."""

    @classmethod
    def of(cls, lengths: np.ndarray, longest: int) -> SequenceLayout:
        """Of sequences of ``lengths`` (N,), cut evenly into pieces of at most ``longest``."""
        cuts = -(-lengths // longest)
        sequence = np.repeat(np.arange(len(lengths)), cuts)
        place = np.arange(len(sequence)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
        total, parts = lengths[sequence], cuts[sequence]
        starts = place * total // parts
        sizes = (place + 1) * total // parts - starts
        starts = starts + (np.cumsum(lengths) - lengths)[sequence]
        order = np.argsort(-sizes, kind="stable")
        rank = np.empty(len(order), np.intp)
        rank[order] = np.arange(len(order))
        before = np.where(place > 0, rank[np.arange(len(order)) - 1], -1)
        after = np.where(place < parts - 1, rank[(np.arange(len(order)) + 1) % len(order)], -1)
        time = np.arange(sizes.max())
        shown = time[:, None] < sizes[order]
        return cls(
            index=np.where(shown, starts[order] + time[:, None], 0),
            shown=shown,
            lengths=sizes[order],
            running=np.append(shown.sum(axis=1), 0),
            previous=before[order],
            following=after[order],
            sequence=sequence[order],
        )

    def in_time(self, table: np.ndarray) -> np.ndarray:
        """(K, T) in the order of the values, from (c, K, C)."""
        out = np.empty((table.shape[1], int(self.lengths.sum())), table.dtype)
        out[:, self.index[self.shown]] = table.transpose(1, 0, 2)[:, self.shown]
        return out


@dataclass(frozen=True, eq=False)
class Sequences:
    """N sequences, one after the other.

    Parameters
    ----------
    values : (T,) symbols or counts, or (T, D), of all sequences; NaN where nothing was observed
    lengths : (N,), positive, summing to T; default one sequence
    """

    values: np.ndarray
    lengths: Any = None

    def __post_init__(self) -> None:
        values = to_numpy(as_numbers("values", self.values))
        if values.ndim not in (1, 2) or len(values) < 1:
            raise ValueError(f"values has shape {values.shape}; it must be (T,) or (T, D) with T >= 1")
        lengths = np.asarray([len(values)] if self.lengths is None else self.lengths)
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
            raise ValueError(f"lengths is {self.lengths!r}; it must be positive integers, one a sequence")
        if lengths.sum() != len(values):
            raise ValueError(f"lengths sum to {lengths.sum()}, but there are {len(values)} values")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "lengths", lengths.astype(np.intp))

    @classmethod
    def from_list(cls, sequences: Sequence[Any]) -> Sequences:
        """Of arrays (T_n,) or (T_n, D)."""
        if not len(sequences):
            raise ValueError("data is an empty list; it must have at least one sequence")
        tables = [to_numpy(as_numbers("data", sequence)) for sequence in sequences]
        shapes = {table.shape[1:] for table in tables}
        if len(shapes) > 1 or min(table.ndim for table in tables) < 1:
            raise ValueError(f"data has sequences of shapes {[t.shape for t in tables]}, not all (T_n, D)")
        empty = [n for n, table in enumerate(tables) if len(table) == 0]
        if empty:
            raise ValueError(f"data has no observation in sequence {empty[0]}; leave it out")
        return cls(np.concatenate(tables), np.array([len(table) for table in tables]))

    @property
    def shape(self) -> tuple[int, ...]:
        """(N,)."""
        return (len(self.lengths),)

    @property
    def ndim(self) -> int:
        """1."""
        return 1

    def __len__(self) -> int:
        return len(self.lengths)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All values, one sequence after the other."""
        return self.values.astype(dtype) if dtype is not None else self.values

    def __getitem__(self, indices: Any) -> Sequences:
        """The sequences ``indices``."""
        chosen = np.arange(len(self))[indices]
        chosen = np.atleast_1d(chosen)
        lengths = self.lengths[chosen]
        shift = np.repeat(self.starts[chosen] - (np.cumsum(lengths) - lengths), lengths)
        return Sequences(self.values[np.arange(lengths.sum()) + shift], lengths)

    @cached_property
    def starts(self) -> np.ndarray:
        """(N,), where each begins."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    @cached_property
    def layout(self) -> SequenceLayout:
        """Cut into pieces."""
        return SequenceLayout.of(self.lengths, max(_SHORTEST, -(-len(self.values) // _PIECES)))

    @cached_property
    def scratch(self) -> dict[str, Any]:
        """Memory and tables that are kept from one pass over the data to the next."""
        return {}

    @cached_property
    def whole(self) -> SequenceLayout:
        """Not cut."""
        return SequenceLayout.of(self.lengths, int(self.lengths.max()))

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """``rows`` (T, ...), one for each value, as a list with an array for each sequence."""
        return np.split(rows, np.cumsum(self.lengths)[:-1])
