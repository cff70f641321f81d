"""Records of a run, by rows or by columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bqvi import notebook


@dataclass(frozen=True)
class Trace(Sequence[Any]):
    """Records in the order in which they were made; ``trace["seconds"]`` is a column.

    Attributes
    ----------
    rows : R records of one dataclass. Its fields are the columns; where a field is a mapping, as of a
        caller's own metrics, its entries are columns, after the others.
    """

    rows: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Trace({len(self.rows)} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        """The last record as a table, for notebooks."""
        rows = {"records": str(len(self.rows))}
        for column, x in self.as_dict().items():
            if x.ndim == 1 and x.dtype.kind in "fiub":
                rows[column] = f"{float(x[-1]):.4g}"
        return notebook.table(rows)

    def __getitem__(self, key: Any) -> Any:
        """A row, rows, or a column (R, ...) by name; KeyError if there is none of that name."""
        if not isinstance(key, str):
            return self.rows[key]
        if self.rows and key not in self.columns:
            raise KeyError(f"no column {key!r}; there are {', '.join(self.columns)}")
        return np.array([_value(row, key) for row in self.rows])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; without rows there are none."""
        if not self.rows:
            return ()
        values = {field.name: getattr(self.rows[0], field.name) for field in fields(self.rows[0])}
        plain = [name for name, value in values.items() if not isinstance(value, Mapping)]
        nested = [name for value in values.values() if isinstance(value, Mapping) for name in value]
        return (*plain, *nested)

    def as_dict(self) -> dict[str, np.ndarray]:
        """Column -> array; ``pandas.DataFrame(trace.as_dict())`` makes a table."""
        return {column: self[column] for column in self.columns}


def _value(row: Any, column: str) -> Any:
    if hasattr(row, column):
        return getattr(row, column)
    return next(
        value[column]
        for value in (getattr(row, field.name) for field in fields(row))
        if isinstance(value, Mapping) and column in value
    )
