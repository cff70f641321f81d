"""The schedules of the study of mini-batches: the best of a grid for each strategy and problem.

The seeds are not reported. What is compared is what is reported: evaluations until the ELBO gap stays at or
below each of the problem's levels, where the gap is to the best end of any run of the seed, of any
strategy and schedule. A run that never gets there counts as twice its budget; between runs that never do,
the smaller gap at the end wins.

    python -m experiments.minibatch_tuning [PROBLEM...]

fills `minibatch_tuned.json`, in some minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments import minibatch_expensive, minibatch_runs
from experiments.minibatch_problems import PROBLEMS, strategy
from experiments.minibatch_runs import BUDGETS, NAMES, SLOW, TUNED, Schedule

SEEDS = (1000, 1001, 1002)
GRID: tuple[Schedule, ...] = tuple(
    (rho, tau, kappa) for rho in (1.0, 0.3) for tau, kappa in ((10.0, 0.7), (10.0, 1.0), (3.0, 1.0))
)
"""(rho_0, tau, kappa): steps that stay large, and steps that fall as 10, 3 and 1 over t."""
GOALS = {
    **BUDGETS,
    "drug": (minibatch_expensive.SIZE, minibatch_expensive.BUDGET, minibatch_expensive.GAPS),
}


def strategies(problem: str) -> list[str]:
    """Those that the study runs on a problem."""
    if problem == "drug":
        return list(minibatch_expensive.NAMES)
    return [name for name in NAMES if problem in SLOW.get(name, (problem,))]


def curves(problem: str) -> pd.DataFrame:
    """The runs of all strategies with all schedules; ``strategy`` and ``schedule`` say which."""
    size, budget, _ = GOALS[problem]
    found = []
    for seed in SEEDS:
        setting = PROBLEMS[problem](seed)
        for name in strategies(problem):
            made = strategy(name, size, setting)
            for place, schedule in enumerate(GRID):
                run = minibatch_runs.way(setting, made, budget, schedule, seed, warm=False)
                labels = {"problem": problem, "seed": seed, "schedule": place}
                found.append(run.assign(strategy=name, case=f"{name}, {place}", **labels))
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
    found = scores(curves(problem), levels, budget)
    return {
        name: GRID[int(np.argmin([found[f"{name}, {place}"] for place in range(len(GRID))]))]
        for name in strategies(problem)
    }


def main(problems: Sequence[str]) -> None:
    """Tune each of ``problems`` and write the table."""
    for problem in problems or GOALS:
        table = {**minibatch_runs.tuned(), problem: tune(problem)}
        TUNED.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        minibatch_runs.tuned.cache_clear()


if __name__ == "__main__":
    main(sys.argv[1:])
