"""Tables that several experiments show in the same form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.harness.bands import quantile

__all__ = ["Column", "last_records", "of_all", "quartiles", "summary"]

Column = tuple[str, str | Callable[["pd.Series[float]"], float | str], str]
"""A column of the results, its statistic (such as "median", or a function of the column), and its format."""


def last_records(results: pd.DataFrame, by: Sequence[str] = ("case",)) -> pd.DataFrame:
    """Return the last row of each run, in the order of `results`."""
    return results.groupby([*by, "seed"], sort=False).tail(1).reset_index(drop=True)


def quartiles(
    rows: pd.DataFrame,
    columns: Mapping[str, str],
    by: Sequence[str] = ("case",),
    digits: int = 3,
) -> pd.DataFrame:
    """Return "median [lower quartile, upper quartile]" over the rows of each group.

    Parameters
    ----------
    rows : DataFrame
        One row for each run, such as `last_records` returns.
    columns : mapping
        Heading, with the unit, by column. A group with a NaN in a column shows nothing there.
    by : sequence of str
    digits : int
        Significant digits.

    Returns
    -------
    DataFrame
        Columns: `by`, "seeds", and the headings; one row for each group, in order of appearance.
    """
    table: list[dict[str, object]] = []
    for names, group in rows.groupby(list(by), sort=False):
        line: dict[str, object] = dict(zip(by, names, strict=True))
        line["seeds"] = group["seed"].nunique()
        for column, heading in columns.items():
            line[heading] = _spread(group[column].to_numpy(dtype=float), digits)
        table.append(line)
    return pd.DataFrame(table)


def summary(rows: pd.DataFrame, by: Mapping[str, str], columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return one statistic of each column over the rows of each group.

    Parameters
    ----------
    rows : DataFrame
        One row for each run.
    by : mapping
        Heading by column that makes the groups.
    columns : mapping
        By heading what it shows.

    Returns
    -------
    DataFrame
        A row for each group, in order of appearance; nothing where a statistic is NaN.
    """
    table = []
    for names, group in rows.groupby(list(by), sort=False):
        line: dict[str, object] = dict(zip(by.values(), names, strict=True))
        for heading, (column, statistic, form) in columns.items():
            values = group[column]
            found: Any = statistic(values) if callable(statistic) else values.astype(float).agg(statistic)
            line[heading] = "" if str(found) == "nan" else f"{found:{form}}"
        table.append(line)
    return pd.DataFrame(table)


def of_all(values: pd.Series[float]) -> str:
    """Return how many values are true, "3 of 5"."""
    return f"{int(values.sum())} of {len(values)}"


def _spread(values: np.ndarray[tuple[int], np.dtype[np.float64]], digits: int) -> str:
    lower, median, upper = (float(quantile(values[:, None], q)[0]) for q in (0.25, 0.5, 0.75))
    if np.isnan(median):
        return ""
    if lower == upper:
        return _number(median, digits)
    return f"{_number(median, digits)} [{_number(lower, digits)}, {_number(upper, digits)}]"


def _number(value: float, digits: int) -> str:
    """A number for a table: "0.0123", "1,840", "2.1e+09", "∞".

    Parameters
    ----------
    value : float
    digits : int
        Significant digits.
    """
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    short = f"{value:.{digits}g}"
    return f"{float(short):,.0f}" if "e" in short and 1 <= abs(value) < 1e7 else short
