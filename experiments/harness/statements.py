"""Claims as tables: a line for each statement of a source, with the column of the results that decides it.

    claims(results, [
        Statement("7.2.2", "Quadrature needs fewer evaluations than Sobol points.",
                  "its error at n = 40 is smaller", "error", {"BQ": ["Sobol points"]}),
    ], by="method", each="problem")

checks ``error`` of the rows with method BQ against those with Sobol points, seed by seed, on each problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from experiments.harness import evidence
from experiments.harness.claims import Check, Claim

__all__ = ["Statement", "claims", "of", "only"]


def _all(results: pd.DataFrame) -> pd.DataFrame:
    return results


@dataclass(frozen=True)
class Statement:
    """What a source says of one column.

    Attributes
    ----------
    source, statement, criterion : as of a `Claim`.
    column : what is compared; the last row of each run counts.
    of : the names, in the column ``by``, that are checked; a mapping has for each those than which its column
        is lower. Names without results are left out; without any, all names are checked.
    level : where nothing is compared: the largest value.
    between : in the place of ``level``: the range of the mean over seeds.
    factor : by which the others' values are multiplied before they are compared.
    margin : by which a value has to be beyond the others', in the units of the column; if it is negative, the
        value may fall behind by as much.
    higher : whether higher is better: the column is above the others', or at least ``level``.
    setting : words before the name in the setting of each check.
    shown : the name of the column in words; its own by default.
    rows : the part of the results that decides, or a summary of them.
    statistic : "mean" or "median" where that of all rows decides, as where results do not depend on a seed,
        or shares of runs; otherwise seeds are counted.
    """

    source: str
    statement: str
    criterion: str
    column: str
    of: Mapping[str, Sequence[str]] | Sequence[str] = ()
    level: float = 0.0
    between: tuple[float, float] | None = None
    factor: float = 1.0
    margin: float = 0.0
    higher: bool = False
    setting: str = ""
    shown: str = ""
    rows: Callable[[pd.DataFrame], pd.DataFrame] = _all
    statistic: Literal["", "mean", "median"] = ""


def only(column: str, *values: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that keeps the rows with one of ``values`` in ``column``."""
    return lambda results: results[results[column].isin(values)]


def claims(
    results: pd.DataFrame, statements: Sequence[Statement], by: str = "case", each: str | Sequence[str] = ()
) -> list[Claim]:
    """Return the claims that the results have rows for; statements in the same words are one claim.

    Parameters
    ----------
    results : the rows of all runs. statements : the table. by : the column of the names that are checked or
        compared. each : the columns for each of whose values there are checks.
    """
    places = [each] if isinstance(each, str) else list(each)
    found: dict[tuple[str, str], tuple[str, list[Check]]] = {}
    for one in statements:
        if checks := list(_checks(one, one.rows(results), by, places)):
            found.setdefault((one.source, one.statement), (one.criterion, []))[1].extend(checks)
    return [Claim(*words, criterion, checks) for words, (criterion, checks) in found.items()]


def of(
    statements: Sequence[Statement], by: str = "case", each: str | Sequence[str] = ()
) -> Callable[[pd.DataFrame], list[Claim]]:
    """Return the ``claims`` of an `Experiment`: of its results, those of these statements.

    Parameters
    ----------
    statements : the table. by, each : as of `claims`.
    """
    return lambda results: claims(results, statements, by, each)


def _checks(one: Statement, rows: pd.DataFrame, by: str, places: Sequence[str]) -> Iterator[Check]:
    rows = rows.groupby([*dict.fromkeys([*places, by, "seed"])], sort=False).tail(1)
    for place, part in rows.groupby(list(places), sort=False) if places else [((), rows)]:
        table = part.assign(case=part[by].astype(str))
        where = [f"{value:g}" if isinstance(value, float) else str(value) for value in place]
        where += [one.setting] * bool(one.setting)
        names = list(table["case"].unique())
        for name in [name for name in one.of or names if name in names]:
            setting = ", ".join(where if where and len(one.of) == 1 else [*where, name])
            if not isinstance(one.of, Mapping):
                yield _check(one, table, name, (), setting)
            elif others := [other for other in one.of[name] if other in names]:
                yield _check(one, table, name, others, setting)


def _check(one: Statement, table: pd.DataFrame, name: str, others: Sequence[str], setting: str) -> Check:
    shown = one.shown or one.column
    if one.statistic:
        return _of_all(one, table, name, others, setting)
    higher = one.higher
    if others:
        return evidence.better(
            table, name, others, one.column, setting, higher=higher, factor=one.factor, margin=one.margin,
            shown=shown,
        )  # fmt: skip
    if one.between is not None:
        values = table.loc[table["case"] == name, one.column].to_numpy(float)
        return evidence.share_within(values, setting, *one.between)
    return evidence.at_level(table, name, one.column, one.level, setting, higher=higher, shown=shown)


def _of_all(one: Statement, table: pd.DataFrame, name: str, others: Sequence[str], setting: str) -> Check:
    """By the statistic over all rows of a name, beside that of the others, or the level."""
    found = table[one.column].astype(float).groupby(table["case"]).agg(one.statistic)
    beside = [float(found[other]) for other in others] or [one.level]
    value, size = float(found[name]), one.shown or one.column
    if one.higher:
        least = one.factor * max(beside) + one.margin
        return Check(setting, value >= least, f"{size} {value:.3g}, at least {least:.3g}")
    most = one.factor * min(beside) - one.margin
    return Check(setting, value <= most, f"{size} {value:.3g}, at most {most:.3g}")
