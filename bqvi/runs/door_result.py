"""What the results of all doors have, and the records of their runs, by rows or by columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bqvi import notebook
from bqvi.records import classes_in, flattened
from gp.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


ANSWERED = (
    "Coordinates", "EstimateRow", "GaussianMixture", "ModelPosterior", "Posterior", "Row", "Trace",
    "TraceRow", "WeightedDraws",
)  # fmt: skip
"""The records that a result has without the function of its run."""


class DoorResult:
    """A result with ``n_evaluations``, ``n_failed``, ``warnings``, and the ``checkpoint`` of its run."""

    def save(self: Any, path: str | Path) -> None:
        """Write the run to an .npz file at ``path``.

        `bqvi.load` reads the result from it without the function; the door takes the path as ``resume``.
        """
        if self.checkpoint is None:
            raise ValueError("this result was put together by hand: it has no run to save")
        self.checkpoint.save(path, answer=self.answer())

    def __iter__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"one {name} is returned: found = ..., not a, b = ...; its parts are attributes: {self}"
        )

    def answer(self: Any) -> dict[str, Any]:
        """What a file has of the result: numbers, text, arrays, draws and records, by name."""
        found = {"shown": (repr(self), str(self), self._rows())}
        for name in (name for name in dir(self) if not name.startswith("_")):
            with suppress(TypeError, AttributeError):  # methods, and what the result or a file has not
                value = self.posterior.recorded() if name == "posterior" else getattr(self, name)
                if set(classes_in(value)) <= set(ANSWERED):
                    flattened(value, [])
                    found[name] = value
        return found

    def plot_trace(self, ax: Axes | None = None, *, truth: Array = None) -> Axes:
        """Draw the estimate with bands of one and two standard deviations against the evaluations.

        Of bounds the log estimates of each replicate and the interval; of several problems the intervals.

        Parameters
        ----------
        ax : axes of matplotlib to draw in; by default new ones.
        truth : the value to draw beside them, where it is known.

        Returns
        -------
        The axes.

        Raises
        ------
        ImportError
            matplotlib is not installed: ``pip install "bqvi[plot]"``.
        ValueError
            Nothing was recorded.
        """
        from bqvi.canvas import shown_figure

        return self._draw(shown_figure(6.0, 3.6).add_subplot() if ax is None else ax, truth)

    def _draw(self, ax: Axes, truth: Array) -> Axes:
        raise NotImplementedError

    def _rows(self) -> dict[str, str]:
        """The result as a table: names -> values."""
        raise NotImplementedError

    @property
    def _counted(self: Any) -> str:
        """The number of evaluations, and of those that failed if there are any."""
        return f"{self.n_evaluations} evaluations" + (f" ({self.n_failed} failed)" if self.n_failed else "")

    def _repr_html_(self: Any) -> str:
        """The result as a table, for notebooks."""
        counted = {"evaluations": self._counted.replace(" evaluations", "")}
        rows = self._rows() | counted | ({"warnings": " ".join(self.warnings)} if self.warnings else {})
        return notebook.table(rows)


class CheckedResult(DoorResult):
    """A result with ``converged``, and with ``checks``: sentences on what its checks found."""

    @property
    def state(self: Any) -> Any:
        """The state of the run, or None without one."""
        return None if self.checkpoint is None else self.checkpoint.state

    @property
    def reasons(self: Any) -> tuple[str, ...]:
        """The reasons why it has not converged."""
        return () if self.converged else self.checks

    @property
    def _remark(self: Any) -> str:
        return "" if self.converged else ", not converged"
