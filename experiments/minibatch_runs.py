"""Mini-batches: the way to the optimum, in evaluations and in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from experiments import drawing, evidence, fitting
from experiments.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.minibatch_problems import PROBLEMS, UNBIASED, strategy

NAMES = (
    "reshuffled", "kernel strata", "balanced", "balanced gradients", "SAGA", "SVRG", "GP control variate",
    "GP control variate, balanced", "sequential BQ",
)  # fmt: skip
REFERENCE = "all data"

BUDGETS: Mapping[str, tuple[int, int, tuple[float, ...]]] = {
    "mixture": (10, 25_000, (10.0,)),
    "logistic": (10, 12_000, (1.0, 0.1)),
    "digits": (10, 25_000, (150.0,)),
    "mixture-20k": (50, 40_000, (300.0,)),
}
"""S, evaluations, and the ELBO gaps whose cost is reported."""

Schedule = tuple[float, float, float]
SCHEDULES: Mapping[str, Schedule] = {
    "mixture": (1.0, 10.0, 0.7),
    "logistic": (0.3, 10.0, 1.0),
    "digits": (1.0, 10.0, 0.7),
    "mixture-20k": (1.0, 10.0, 0.7),
    "drug": (0.3, 10.0, 1.0),
}
"""(rho_0, tau, kappa) of rho_t = rho_0 (1 + t / tau)^-kappa, one for all strategies of a problem. Those of
``mixture`` and ``drug`` were the best of some for reshuffling, on seeds 100 to 102, which are not reported;
the others are set to one of these two, untried."""


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each strategy on each problem, and coordinate ascent for the optimum."""
    del resources
    problems = ("mixture",) if quick else tuple(BUDGETS)
    names = ("reshuffled", "balanced", "GP control variate") if quick else NAMES
    found = []
    for problem in problems:
        size, budget, _ = BUDGETS[problem]
        budget = 2000 if quick else budget
        found.append(
            Case(f"{REFERENCE}: {problem}", {"problem": problem, "strategy": REFERENCE, "budget": budget})
        )
        found.extend(case(problem, name, size, budget, SCHEDULES[problem]) for name in names)
    return found


def case(problem: str, name: str, size: int, budget: int, schedule: Schedule) -> Case:
    """One strategy on one problem."""
    settings = {"problem": problem, "strategy": name, "size": size, "budget": budget, "rho": list(schedule)}
    return Case(f"{name}: {problem}", settings)


def run(case: Case, seed: int) -> pd.DataFrame:
    """One run; ``with_setup`` is its time with what the strategy did before the first step."""
    chosen = case.settings
    setting = PROBLEMS[chosen["problem"]](seed)
    if chosen["strategy"] == REFERENCE:
        return _reference(setting, chosen["problem"])
    rho, tau, kappa = chosen["rho"]
    steps = chosen["budget"] // chosen["size"]
    made = strategy(chosen["strategy"], chosen["size"], setting)
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
        max_evaluations=chosen["budget"],
        record=fitting.spread_records(steps, 120),
        seed=seed,
    )
    return found.assign(with_setup=found["seconds"] + found["setup_seconds"])


def _reference(setting: Any, problem: str) -> pd.DataFrame:
    """The optimum that the exact method finds from the same start, as a run of one record."""
    method = "ngd" if problem == "logistic" else "cavi"
    fit = bqvi.fit(setting.model, setting.data, method, start_from=setting.start, steps=300, tolerance=1e-6)
    last = {name: fit.trace[name][-1:] for name in fitting.KEPT}
    setup = {"setup_seconds": 0.0, "minibatch_seconds": 0.0}
    return pd.DataFrame({**last, **setup, "with_setup": last["seconds"]})


def gaps(results: pd.DataFrame) -> pd.DataFrame:
    """Results of the strategies with ``elbo_gap``: to the best end of any run on a problem and seed."""
    measured = evidence.with_gap(results, ("problem", "seed"))
    return measured[measured["strategy"] != REFERENCE]


def crossings(results: pd.DataFrame, level: float) -> pd.DataFrame:
    """For each run what it cost until the gap stayed at or below ``level``; infinite if it did not."""
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
    """Return the table of costs to a gap: medians over seeds, and how many of them arrived."""
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


def panels(results: pd.DataFrame, problem: str, name: str) -> Drawing:
    """Draw the gap of all strategies on a problem against evaluations and seconds."""
    part = results[results["problem"] == problem]
    shown = part.assign(elbo_gap=part["elbo_gap"].clip(lower=1e-3))
    made, axes = drawing.figure(1, 3, sharey=True)
    lines = drawing.strokes(shown["strategy"])
    labels = {"evaluations": None, "seconds": None, "with_setup": "time with set-up (s)"}
    for ax, (cost, label) in zip(axes.flat, labels.items(), strict=True):
        drawing.curves(
            ax, shown[shown[cost] > 0], cost, "elbo_gap", "strategy", x_scale="log", y_scale="log",
            x_label=label, y_label="ELBO gap (nats)" if ax is axes.flat[0] else "", lines=lines,
        )  # fmt: skip
    drawing.legend_below(made, axes)
    return Drawing(
        name,
        made,
        f"{problem}: ELBO gap to the best run of each seed. {drawing.band_caption(part, 'strategy')}",
    )


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw a figure for each problem."""
    measured = gaps(results)
    return [panels(measured, problem, f"gap-{problem}") for problem in dict.fromkeys(measured["problem"])]


def tables(results: pd.DataFrame) -> list[Table]:
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


experiment = Experiment(
    name="minibatch-runs",
    title="Mini-batches: the way to the optimum",
    summary="""Stochastic natural gradients with every strategy, all with the same schedule on a problem: what
    a strategy could gain by a schedule of its own is not in these figures. The gap is to the best end of any
    run of the seed, so that a run in a poorer local optimum never arrives; a crossing counts only if it is
    kept to the end.

    Answer: balanced partitions need about half the evaluations of random reshuffling on mixtures and as
    many on the logistic regression, and nothing has to be tuned. What earlier gradients taught, carried
    along by the GP control variate, takes a further quarter off and lowers the error of a step more than
    anything else, but it does not reach the best optimum more often. In seconds it does not pay here, as
    a datum costs a microsecond; the partition, made once, can.""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
)
