"""Mini-batches: runs to the optimum, in evaluations and in seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from acquisition.minibatch import Strategy
from experiments import fitting
from experiments.harness import drawing, evidence
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.minibatch.problems import (
    PROBLEMS,
    UNBIASED,
    Setting,
    strategy,
)

__all__ = [
    "BUDGETS",
    "NAMES",
    "REFERENCE",
    "SLOW",
    "SLOW_AS",
    "SMALLEST",
    "TUNED",
    "UNTUNED",
    "Goal",
    "Schedule",
    "arrivals",
    "case",
    "compared",
    "crossings",
    "experiment",
    "gaps",
    "panels",
    "run",
    "schedule_of",
    "tuned",
    "way",
]  # fmt: skip

NAMES = (
    "reshuffled", "balanced", "SAGA", "SVRG", "GP control variate",
    "GP control variate, balanced", "sequential BQ",
)  # fmt: skip
REFERENCE = "all data"
SLOW = {"sequential BQ": ("mixture",)}
"""Problems on which a strategy that takes milliseconds a step is run; others are run on all."""
SLOW_AS = "balanced"
"""The strategy whose schedule a slow strategy takes, as it is not tuned itself."""

BUDGETS: Mapping[str, tuple[int, int, tuple[float, ...]]] = {
    "mixture": (10, 25_000, (10.0,)),
    "logistic": (10, 12_000, (1.0, 0.1)),
    "digits": (10, 10_000, (150.0,)),
    "mixture-20k": (50, 160_000, (300.0,)),
}
"""S, evaluations, and the ELBO gaps whose cost is reported."""

_RECORDS = 80
"""The approximate number of records of a run, at even distances on a logarithmic axis."""
SMALLEST = 1e-3
"""Nats; no smaller gap is drawn."""
_HIGHEST = 300.0
"""The largest gap that is drawn, as a multiple of the largest gap of the tables."""

Schedule = tuple[float, float, float]
UNTUNED: Schedule = (1.0, 10.0, 0.7)
"""(rho_0, tau, kappa) of rho_t = rho_0 (1 + t / tau)^-kappa where the table of tuned ones has no entry."""
TUNED = Path(__file__).with_name("tuned.json")
"""By problem and strategy, from `tuning`."""


@cache
def tuned() -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Schedules by problem and strategy: the best of a grid on seeds that are not reported."""
    return dict(json.loads(TUNED.read_text(encoding="utf-8"))) if TUNED.exists() else {}


def schedule_of(problem: str, name: str) -> Schedule:
    """The schedule of a strategy on a problem."""
    chosen = tuned().get(problem, {})
    rho, tau, kappa = chosen.get(SLOW_AS if name in SLOW else name, UNTUNED)
    return rho, tau, kappa


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each strategy on each problem, and coordinate ascent for the optimum."""
    problems = ("mixture",) if quick else tuple(BUDGETS)
    names = ("reshuffled", "balanced", "GP control variate") if quick else NAMES
    found = []
    for problem in problems:
        size, budget = BUDGETS[problem][:2]
        budget = 2000 if quick else budget
        found.append(
            Case(f"{REFERENCE}: {problem}", {"problem": problem, "strategy": REFERENCE, "budget": budget})
        )
        found.extend(
            case(problem, name, size, budget, schedule_of(problem, name))
            for name in names
            if problem in SLOW.get(name, (problem,))
        )
    return found


def case(problem: str, name: str, size: int, budget: int, schedule: Schedule) -> Case:
    """One strategy on one problem.

    Parameters
    ----------
    problem, name : the problem and the strategy. size : S. budget : data evaluations. schedule : of the
        steps.
    """
    settings = {"problem": problem, "strategy": name, "size": size, "budget": budget, "rho": list(schedule)}
    return Case(f"{name}: {problem}", settings)


def run(case: Case, seed: int) -> pd.DataFrame:
    """One run; ``with_setup`` is its time with what the strategy did before the first step."""
    chosen = case.settings
    setting = PROBLEMS[chosen["problem"]](seed)
    if chosen["strategy"] == REFERENCE:
        return _reference(setting, chosen["problem"])
    made = strategy(chosen["strategy"], chosen["size"], setting)
    return way(setting, made, chosen["budget"], chosen["rho"], seed)


def way(
    setting: Setting,
    made: Strategy,
    budget: int,
    schedule: Sequence[float],
    seed: int,
    *,
    records: int = _RECORDS,
) -> pd.DataFrame:
    """One run of stochastic natural gradients with the strategy ``made``.

    Parameters
    ----------
    setting : model, data and start. made : the strategy. budget : data evaluations. schedule : rho, tau and
        kappa of the steps.
    seed : of the run. records : how many.
    """
    rho, tau, kappa = schedule
    steps = budget // made.size
    # a warm-up, as imports and buffers are not the method's time; not with the strategy itself, whose set-up
    # is to be timed
    bqvi.fit(setting.model, setting.data, "sngd", minibatch=made.size, start_from=setting.start, steps=2)
    found = fitting.frame(
        setting.model,
        setting.data,
        "sngd",
        metrics={},
        keep=fitting.STRATEGY,
        minibatch=made,
        schedule=bqvi.RobbinsMonro(kappa, tau, rho * tau**kappa),
        start_from=setting.start,
        steps=steps,
        record=fitting.spread_records(steps, records),
        seed=seed,
        warm=False,
    )
    found = found[found["evaluations"] <= max(budget, made.size)]  # a step of this size may draw all the data
    return found.assign(with_setup=found["seconds"] + found["setup_seconds"])


def _reference(setting: Any, problem: str) -> pd.DataFrame:
    """The optimum that the exact method finds from the same start, as a run of one record."""
    method = "ngd" if problem == "logistic" else "cavi"
    fit = bqvi.fit(setting.model, setting.data, method, start_from=setting.start, steps=300, tolerance=1e-6)
    last = {name: column[-1:] for name, column in fitting.columns_of(fit.trace, fitting.KEPT).items()}
    setup = {"setup_seconds": 0.0, "minibatch_seconds": 0.0}
    return pd.DataFrame({**last, **setup, "with_setup": last["seconds"]})


def gaps(results: pd.DataFrame) -> pd.DataFrame:
    """Results of the strategies with ``elbo_gap``: to the best end of any run on a problem and seed."""
    measured = evidence.with_gap(results, ("problem", "seed"))
    return measured[measured["strategy"] != REFERENCE]


def crossings(results: pd.DataFrame, level: float) -> pd.DataFrame:
    """The cost of each run until the gap stayed at or below ``level``; infinite if it did not."""
    rows = []
    for (problem, name, seed), part in results.groupby(["problem", "strategy", "seed"], sort=False):
        below = ~(part["elbo_gap"].to_numpy() <= level)
        above = np.flatnonzero(below)
        first = 0 if above.size == 0 else int(above[-1]) + 1
        arrived = first < len(part)
        costs = {
            f"{cost}_to": float(part[cost].iloc[first]) if arrived else np.inf
            for cost in ("evaluations", "seconds", "with_setup")
        }
        rows.append({"problem": problem, "strategy": name, "seed": seed, "arrived": arrived, **costs})
    return pd.DataFrame(rows)


def arrivals(results: pd.DataFrame, problem: str, level: float, baseline: str = "reshuffled") -> pd.DataFrame:
    """Return the table of costs to a gap: medians over seeds, and how many of them arrived.

    Parameters
    ----------
    results : the records of runs. problem : which of them. level : the gap, nats a datum. baseline : the
        strategy to compare with.
    """
    part = results[results["problem"] == problem]
    found = crossings(part, level)
    final = part.groupby(["strategy", "seed"], sort=False).tail(1)
    steps = final.assign(overhead=1e6 * final["minibatch_seconds"] / final["iteration"].clip(lower=1))
    median = found.groupby("strategy", sort=False)[["evaluations_to", "seconds_to", "with_setup_to"]].median()
    base = median["evaluations_to"].get(baseline, np.nan)
    return pd.DataFrame(
        {
            "strategy": list(median.index),
            "unbiased": ["yes" if name in UNBIASED else "no" for name in median.index],
            "arrived": [
                f"{int(g['arrived'].sum())} of {len(g)}" for _, g in found.groupby("strategy", sort=False)
            ],
            "evaluations": [f"{v:.5g}" for v in median["evaluations_to"]],
            f"{baseline} / this": [
                f"{base / v:.2g}" if np.isfinite(base + v) else "-" for v in median["evaluations_to"]
            ],
            "seconds": [f"{v:.3g}" for v in median["seconds_to"]],
            "seconds with set-up": [f"{v:.3g}" for v in median["with_setup_to"]],
            "set-up (s)": [
                f"{v:.3g}" for v in final.groupby("strategy", sort=False)["setup_seconds"].median()
            ],
            "strategy's microseconds a step": [
                f"{v:.3g}" for v in steps.groupby("strategy", sort=False)["overhead"].median()
            ],
            "final gap": [f"{v:.3g}" for v in final.groupby("strategy", sort=False)["elbo_gap"].median()],
        }
    )


def panels(results: pd.DataFrame, problem: str, name: str, levels: Sequence[float]) -> Drawing:
    """Draw the gap of all strategies against evaluations and seconds, with lines at ``levels``.

    Parameters
    ----------
    results : the records of runs. problem : which of them. name : of the drawing. levels : gaps, nats a
        datum.
    """
    part = results[results["problem"] == problem]
    shown = part[part["iteration"] > 0].assign(elbo_gap=part["elbo_gap"].clip(lower=SMALLEST))
    made, axes = drawing.figure(1, 3, sharey=True)
    lines = drawing.line_styles(shown["strategy"])
    labels = {"evaluations": None, "seconds": "time without set-up (s)", "with_setup": "time with set-up (s)"}
    for ax, (cost, label) in zip(axes.flat, labels.items(), strict=True):
        drawing.curves(
            ax, shown, cost, "elbo_gap", "strategy", x_scale="log", y_scale="log",
            x_label=label, y_label="ELBO gap (nats)" if ax is axes.flat[0] else "", lines=lines,
        )  # fmt: skip
        for level in levels:
            ax.axhline(level, color="#000000", linewidth=0.5, linestyle=":")
    low, high = axes.flat[0].get_ylim()
    axes.flat[0].set_ylim(low, min(high, _HIGHEST * max(levels)))
    drawing.mark_ends(axes.flat, SMALLEST)
    drawing.legend_below(made, axes)
    size = int(part["size"].iloc[0])
    caption = (
        f"{problem}, S = {size}: ELBO gap to the best end of any run of the same seed, from the first step; "
        f"gaps below {SMALLEST:g} nats are drawn there. Dotted: the gaps of the tables. "
        f"{drawing.band_caption(part, 'strategy')}"
    )
    return Drawing(name, made, caption)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw a figure for each problem."""
    measured = gaps(results)
    return [
        panels(measured, problem, f"gap-{problem}", BUDGETS[problem][2])
        for problem in dict.fromkeys(measured["problem"])
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the costs to the gaps of each problem."""
    measured = gaps(results)
    return [
        Table(
            f"cost-{problem}-{level:g}".replace(".", "-"),
            arrivals(measured, problem, level),
            f"{problem}, S = {BUDGETS[problem][0]}: cost until the ELBO gap stays at or below {level:g} "
            "nats; medians over seeds, inf: never. A run that diverges never arrives.",
        )
        for problem in dict.fromkeys(measured["problem"])
        for level in BUDGETS[problem][2]
    ]


Goal = tuple[str, float]
"""A problem and an ELBO gap."""


def compared(
    results: pd.DataFrame,
    goals: Sequence[Goal],
    pairs: Sequence[tuple[str, str]],
    cost: str,
    shown: str,
    factor: float = 1.0,
) -> list[Check]:
    """Check that a strategy's cost to each gap is below ``factor`` times another's, for each (one, other).

    Parameters
    ----------
    results : DataFrame
        From `gaps`.
    goals : sequence of (str, float)
    pairs : sequence of (str, str)
        Pairs that were not run are left out.
    cost : "evaluations" | "seconds" | "with_setup"
    shown : str
        The name of the cost in the check.
    factor : float
    """
    checks = []
    for problem, level in goals:
        costs = crossings(results[results["problem"] == problem], level)
        if costs.empty:
            continue
        table = costs.assign(case=costs["strategy"])
        checks += [
            evidence.less(table, one, other, f"{cost}_to", f"{one}, {problem}, gap {level:g}",
                          factor=factor, shown=f"{shown} to a gap of {level:g}")
            for one, other in pairs if {one, other} <= set(table["case"])
        ]  # fmt: skip
    return checks


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check by which factor choosing the mini-batch saves evaluations and seconds."""
    measured = gaps(results)
    goals = [(problem, level) for problem, (_, _, levels) in BUDGETS.items() for level in levels]
    choices = [(name, "reshuffled") for name in ("balanced", "GP control variate, balanced")]
    against_balanced = [(name, "balanced") for name in ("GP control variate", "GP control variate, balanced")]
    proposed = (
        (
            "7.3.4",
            "A process over the data chooses mini-batches that need fewer evaluations.",
            "it stays within the gap after at most two thirds of the evaluations of random reshuffling",
            compared(measured, goals, choices, "evaluations", "evaluations", 2.0 / 3.0),
        ),
        (
            "7.3.4",
            "Balanced mini-batches never need many more evaluations than random reshuffling.",
            "a balanced partition stays within the gap after less than 1.1 times the evaluations of random "
            "reshuffling",
            compared(measured, goals, choices[:1], "evaluations", "evaluations", 1.1),
        ),
        (
            "7.3.4",
            "Choosing mini-batches saves time, with the set-up before the first step counted.",
            "it stays within the gap in fewer seconds than random reshuffling",
            compared(measured, goals, choices, "with_setup", "seconds"),
        ),
        (
            "7.3.2",
            "Gradients of earlier steps lower the number of evaluations that later steps need.",
            "a process as running control variate stays within the gap after fewer evaluations than a "
            "balanced partition, which keeps no gradients",
            compared(measured, goals, against_balanced, "evaluations", "evaluations"),
        ),
    )
    # a claim without a check is left out: its cases were not all run
    return [Claim(*parts) for parts in proposed if parts[-1]]


experiment = Experiment(
    name="minibatch-runs",
    title="Mini-batches: runs to the optimum",
    summary="""Which mini-batch strategy takes the fewest evaluations and seconds? Stochastic natural
    gradients are run with every strategy, each with the schedule that was best for it on seeds that are not
    shown here (rho_t = rho_0 (1 + t / tau)^-kappa, a grid of `tuning`). The gap is to the best end of any run
    of the seed, so that a run in a poorer local optimum does not reach a gap; a gap counts as reached only if
    it is kept to the end.

    Mixtures have many local optima, and in which of them a run ends is random, whatever the error of the
    gradient. The tables therefore have first how many seeds reached the gap, then the cost of those that did.
    The claims decide, from the runs shown here, whether choosing saves evaluations, whether it saves seconds
    where a datum takes microseconds, and whether it is anywhere much worse than random sampling. A goal that
    neither of two strategies reaches on half of the seeds leaves a claim undecided.""",
    cases=_cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
    seeds=10,
)
