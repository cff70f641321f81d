"""Checks of a claim from results over seeds.

Each run is first summarised in one row (`runs`): its final values, its cost until it stays near the truth,
and the largest rise above its least value. Cases are then compared seed by seed, on the same data: a
statement about two cases is true if it holds on at least `_SHARE` of the seeds, and on more than tosses of a
coin would give with probability `CHANCE`; it is false if it holds on fewer seeds than a share `_SHARE` would
give with that probability. Otherwise it is undecided; with four seeds or fewer it cannot be true. Where the
size of a difference counts, its mean over seeds is compared with a margin by its 95 % interval (`not_lower`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import binom
from scipy.stats import t as student

from experiments.harness.bands import quantile
from experiments.harness.claims import Check

__all__ = [
    "CHANCE", "LEVEL", "at_level", "better", "mean_interval", "not_lower", "runs",
    "share_within", "stays_below", "with_gap", "with_lag",
]  # fmt: skip

_SHARE = 0.8
CHANCE = 0.06
"""Eight of ten tosses of a coin have probability 0.055, five of five 0.031."""
LEVEL = 50.0
"""Log-likelihood error, nats, below which a run counts as near the truth: 0.07 nats a datum at N = 700. A
local optimum in which two of the thesis' clusters share a component costs 100 nats or more."""


def with_gap(results: pd.DataFrame, by: Sequence[str] = ("seed",)) -> pd.DataFrame:
    """Return `results` with `elbo_gap`: the best final ELBO of a run of the same problem, less this one.

    Parameters
    ----------
    results : DataFrame
        With the columns `elbo` and `by`.
    by : sequence of str
        The columns that define a problem: ELBOs of different data or models cannot be compared.
    """
    last = results.groupby(["case", "seed"], sort=False).tail(1)
    best = last.groupby(list(by))["elbo"].max()
    return results.assign(elbo_gap=_looked_up(best, results, by) - results["elbo"])


def with_lag(results: pd.DataFrame, reference: pd.Series, by: Sequence[str] = ("seed",)) -> pd.DataFrame:
    """Return `results` with `behind`: the ELBO at which the reference run ends, less this one.

    Parameters
    ----------
    results : DataFrame
    reference : Series of bool
        The rows of the runs to compare with, one run for each value of `by`.
    by : sequence of str
        What shares a reference: the same problem from the same start.
    """
    ends = results[reference].groupby(list(by))["elbo"].last()
    return results.assign(behind=_looked_up(ends, results, by) - results["elbo"])


def _looked_up(values: pd.Series, results: pd.DataFrame, by: Sequence[str]) -> np.ndarray:
    """The value of each row's group."""
    joined = results[list(by)].join(values.rename("value"), on=list(by))
    return joined["value"].to_numpy(dtype=float)


def runs(
    results: pd.DataFrame, y: str = "log_likelihood_error", level: float = LEVEL, keep: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row for each run.

    Parameters
    ----------
    results : DataFrame
        With `case`, `seed`, `iteration`, `seconds`, `evaluations` and `y`, which is better the lower.
    y : str
    level : float
        What counts as near.
    keep : sequence of str
        Further columns whose last value is kept.

    Returns
    -------
    DataFrame
        `case`, `seed`; `y` and `keep` as they ended; ``iterations_to``, ``seconds_to``, ``evaluations_to``:
        the cost at the first record from which y stays at or below the level until the end, infinite
        if there is none; `ms_per_iteration`; `rise`: how far y ever rose above the lowest it had been.
    """
    table = []
    for (case, seed), run in results.groupby(["case", "seed"], sort=False):
        value = run[y].to_numpy(dtype=float)
        first = stays_below(value, level)
        costs = {
            f"{name}_to": float(run[column].iloc[first]) if first is not None else np.inf
            for name, column in _COSTS.items()
        }
        last = run.iloc[-1]
        steps = max(int(last["iteration"]), 1)
        table.append(
            {"case": case, "seed": seed, y: value[-1], **{name: last[name] for name in keep}, **costs}
            | {"ms_per_iteration": 1e3 * float(last["seconds"]) / steps, "rise": _rise(value)}
        )
    return pd.DataFrame(table)


_COSTS = {"iterations": "iteration", "seconds": "seconds", "evaluations": "evaluations"}


def stays_below(values: np.ndarray, level: float) -> int | None:
    """The first row from which on all values (n,) are at most ``level``; None where there is none."""
    above = np.flatnonzero(~(values <= level))
    first = 0 if above.size == 0 else int(above[-1]) + 1
    return first if first < len(values) else None


def _rise(values: np.ndarray) -> float:
    """max over t of y_t - min over u <= t of y_u; infinite for a run that diverged."""
    if np.isinf(values).any():
        return np.inf
    return float((values - np.minimum.accumulate(values)).max())


def better(
    table: pd.DataFrame,
    a: str,
    b: str | Sequence[str],
    column: str,
    setting: str,
    *,
    higher: bool = False,
    factor: float = 1.0,
    margin: float = 0.0,
    shown: str | None = None,
) -> Check:
    """Check that `column` is lower, or ``higher``, in case `a` than in `b` (or in each of several) by seed.

    True on a seed where a + margin < factor * b, or a > factor * b + margin. A seed where both are infinite
    (neither got there) decides nothing. Against each case of `b` at least half of the seeds have to decide;
    the rest as in the module's docstring. One case of `b` against which it is false makes it false.

    Parameters
    ----------
    table : a row for each case and seed. a : a case. b : a case, or several. column : what is compared.
    setting : the setting of the check, in words. factor, margin : the second in the units of the column.
    shown : the name of the column in words, or None.
    """
    others = (b,) if isinstance(b, str) else tuple(b)
    wide = table.pivot(index="seed", columns="case", values=column)[[a, *others]].dropna()
    beyond = {o: factor * wide[o] - wide[a] if not higher else wide[a] - factor * wide[o] for o in others}
    wins = {o: int((beyond[o] > margin).sum()) for o in others}
    deciding = {o: len(wide) - int((np.isposinf(wide[a]) & np.isposinf(wide[o])).sum()) for o in others}
    scarce = [o for o in others if deciding[o] < max(1.0, 0.5 * len(wide))]
    answers = {o: _decided(wins[o], deciding[o]) for o in others if o not in scarce}
    false = any(true is False for true in answers.values())
    reasons = [_undecided(a, o, len(wide) - deciding[o], len(wide)) for o in scarce]
    reasons += [_few(wins[o], deciding[o]) for o, true in answers.items() if true is None]
    against = ", ".join(f"{_median(wide[o])} for {o} ({wins[o]}/{deciding[o]})" for o in others)
    numbers = f"{shown or column} {_median(wide[a])} for {a}, against {against}"
    true = not reasons and not false
    least = min(others, key=lambda o: wins[o] / deciding[o] if deciding[o] else 1.0)
    return Check(setting, true, numbers, "" if false else "; ".join(reasons), wins[least], deciding[least])


def _decided(wins: int, seeds: int) -> bool | None:
    """Whether a statement that held on ``wins`` of ``seeds`` is true; None where it is undecided."""
    if wins >= _SHARE * seeds:
        return True if float(binom.sf(wins - 1, seeds, 0.5)) <= CHANCE else None
    return False if float(binom.cdf(wins, seeds, _SHARE)) <= CHANCE else None


def _few(wins: int, seeds: int) -> str:
    return f"true on {wins} of {seeds} seeds, which does not decide"


def _undecided(a: str, b: str, neither: int, seeds: int) -> str:
    if seeds == 0:
        return f"{a} and {b} have no seed in common"
    return f"neither {a} nor {b} gets there on {neither} of {seeds} seeds"


def _check(setting: str, wins: int, seeds: int, numbers: str) -> Check:
    """A check that held on so many seeds."""
    true = _decided(wins, seeds)
    reason = _few(wins, seeds) if true is None else ""
    return Check(setting, bool(true), f"{numbers} ({wins}/{seeds})", reason, wins, seeds)


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean of ``values`` (n,) and half its 95 % interval by Student's t; infinite for one value."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return float(values.mean()), np.inf
    error = float(values.std(ddof=1)) / float(np.sqrt(len(values)))
    return float(values.mean()), float(student.ppf(0.975, len(values) - 1)) * error


def share_within(values: np.ndarray, setting: str, low: float, high: float) -> Check:
    """Check that the mean of shares lies between ``low`` and ``high``, by its 95 % interval.

    Parameters
    ----------
    values : a share for each seed, or for each integrand. setting : the setting of the check, in words.
    low, high : the range.
    """
    mean, half = mean_interval(values)
    least, most = mean - half, mean + half
    if half == 0.0:  # shares that are all alike have no spread: Clopper and Pearson's, a trial for each
        alike = Check(setting, False, "", wins=round(float(np.sum(values))), seeds=len(values))
        least, most = alike.interval or (least, most)
    inside, outside = low < least and most < high, most < low or least > high
    measured = f"{mean:.3f} ({least:.3f} to {most:.3f}), n = {len(values)}"
    return Check(
        setting, inside, measured, "" if inside or outside else "the interval holds an end of the range"
    )


def not_lower(table: pd.DataFrame, a: str, b: str, column: str, setting: str, *, margin: float) -> Check:
    """Check that `column` in case `a` is on average over seeds no lower than in `b` by `margin`.

    True where the 95 % interval of the mean difference lies above -margin, false where it lies below, and
    undecided where it holds -margin.

    Parameters
    ----------
    table : a row for each case and seed. a, b : cases. column : what is compared. setting : the setting of
        the check, in words. margin : in the units of the column.
    """
    wide = table.pivot(index="seed", columns="case", values=column)[[a, b]].dropna()
    if wide.empty:
        return Check(setting, False, "no seeds", _undecided(a, b, 0, 0))
    mean, half = mean_interval((wide[a] - wide[b]).to_numpy())
    measured = f"{column} of {a} less that of {b}: {mean:+.3f} ± {half:.3f} over {len(wide)} seeds"
    decided = abs(mean + margin) > half
    return Check(
        setting, mean + margin > half, measured, "" if decided else f"the interval holds {-margin:g}"
    )


def at_level(
    table: pd.DataFrame,
    a: str,
    column: str,
    level: float,
    setting: str,
    *,
    higher: bool = False,
    shown: str | None = None,
) -> Check:
    """Check that `column` in case `a` is at most `level`, or at least where ``higher``, on enough seeds.

    Parameters
    ----------
    table : a row for each case and seed. a : a case. column : what is compared. level : in its units.
    setting : of the check, in words. shown : the name of the column in words, or None.
    """
    values = table.loc[table["case"] == a, column].to_numpy(dtype=float)
    wins = int(np.sum(values >= level if higher else values <= level))
    return _check(setting, wins, len(values), f"{shown or column} {_median(values)} for {a}")


def _median(values: pd.Series | np.ndarray) -> str:
    found = float(quantile(np.asarray(values, dtype=float)[:, None], 0.5)[0]) if len(values) else np.nan
    return "∞" if found == np.inf else f"{found:.3g}"
