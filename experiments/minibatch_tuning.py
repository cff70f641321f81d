"""The schedules of the study of mini-batches: the best of a grid for each strategy and problem.

The seeds are not reported. What is compared is what is reported: evaluations until the ELBO gap stays at or
below each of the problem's levels, where the gap is to the best end of any run of the seed, of any
strategy and schedule. A run that never gets there counts as twice its budget; between runs that never do,
the smaller gap at the end wins. All schedules run on the first seed, the best three on the others.

    python -m experiments.minibatch_tuning [PROBLEM...]

fills `minibatch_tuned.json`, in some minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments import minibatch_expensive, minibatch_runs
from experiments.minibatch_problems import PROBLEMS, strategy
from experiments.minibatch_runs import BUDGETS, NAMES, SLOW, TUNED, Schedule

SEEDS = (1000, 1001, 1002)
KEPT = 3
"""Schedules of each strategy, the best on the first seed, that go on to the others."""
RECORDS = 60
"""Of a run: enough to tell costs by a tenth."""
GRID: tuple[Schedule, ...] = tuple(
    (rho, tau, kappa) for rho in (1.0, 0.3) for tau, kappa in ((10.0, 0.7), (10.0, 1.0), (3.0, 1.0))
)
"""(rho_0, tau, kappa): steps that stay large, and steps that fall as 10, 3 and 1 over t."""
GOALS = {
    **BUDGETS,
    "drug": (minibatch_expensive.SIZE, minibatch_expensive.BUDGET, minibatch_expensive.GAPS),
}


def strategies(problem: str) -> list[str]:
    """Those that are tuned on a problem; the slow ones take the schedule of `SLOW_AS`."""
    return list(minibatch_expensive.NAMES) if problem == "drug" else [n for n in NAMES if n not in SLOW]


Places = Mapping[str, Sequence[int]]
"""By strategy, places in `GRID`."""


def curves(problem: str, seeds: Sequence[int], places: Places) -> pd.DataFrame:
    """The runs of strategies with schedules; cases are called "strategy, place"."""
    size, budget, _ = GOALS[problem]
    found = []
    for seed in seeds:
        setting = PROBLEMS[problem](seed)
        for name, tried in places.items():
            made = strategy(name, size, setting)
            for place in tried:
                run = minibatch_runs.way(
                    setting, made, budget, GRID[place], seed, warm=False, records=RECORDS
                )
                labels = {"problem": problem, "seed": seed, "strategy": name, "case": f"{name}, {place}"}
                found.append(run.assign(**labels))
    return pd.concat(found, ignore_index=True)


def scores(runs: pd.DataFrame, levels: Sequence[float], budget: int) -> pd.Series:
    """Mean logarithm of what the levels cost, by strategy and schedule: the lower the better."""
    measured = minibatch_runs.gaps(runs)
    final = measured.groupby(["case", "seed"])["elbo_gap"].last().clip(minibatch_runs.SMALLEST, 1e12)
    parts = []
    for level in levels:
        costs = minibatch_runs.crossings(measured.assign(strategy=measured["case"]), level)
        cost = costs.set_index(["strategy", "seed"])["evaluations_to"].clip(1.0, 2.0 * budget)
        parts.append(np.log(cost))
    total = sum(parts) / len(parts)
    return (total + 0.05 * np.log(final.rename_axis(["strategy", "seed"]))).groupby("strategy").mean()


def tune(problem: str) -> dict[str, Schedule]:
    """The best schedule of each strategy on a problem."""
    _, budget, levels = GOALS[problem]
    every = {name: range(len(GRID)) for name in strategies(problem)}
    first = curves(problem, SEEDS[:1], every)
    kept = _best(scores(first, levels, budget), every, KEPT)
    both = pd.concat([first, curves(problem, SEEDS[1:], kept)], ignore_index=True)
    best = _best(scores(both, levels, budget), kept, 1)
    return {name: GRID[places[0]] for name, places in best.items()}


def _best(found: pd.Series, places: Places, number: int) -> dict[str, list[int]]:
    """The ``number`` places of lowest score of each strategy."""
    return {
        name: sorted(tried, key=lambda place, name=name: found[f"{name}, {place}"])[:number]  # type: ignore[misc]
        for name, tried in places.items()
    }


def main(problems: Sequence[str]) -> None:
    """Tune each of ``problems`` and write the table."""
    for problem in problems or GOALS:
        table = {**minibatch_runs.tuned(), problem: tune(problem)}
        TUNED.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        minibatch_runs.tuned.cache_clear()


if __name__ == "__main__":
    main(sys.argv[1:])
