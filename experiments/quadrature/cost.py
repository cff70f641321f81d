"""Quadrature: seconds against evaluations, the integrand's own time left out.

Each number of evaluations is a run of its own, from the initial design to the final standard deviation
with hyperparameters marginalised. The integrand takes microseconds, so what is seen is the time of the
method: a method pays where an evaluation of the integrand takes longer than its seconds per evaluation.

`bqvi run quadrature-cost --jobs 1` measures without a second process on the machine. Longer runs: add
to `BUDGETS` (n = 400 takes ten seconds).
"""

from __future__ import annotations

import pandas as pd

from experiments.harness import drawing, summaries
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.quadrature.runs import (
    BUDGETS,
    STATING_SD,
    STROKES,
    against_truth,
    method_cases,
)

PROBLEMS = ("probit 5",)


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return every method on an integrand of D = 5."""
    return method_cases(PROBLEMS, STATING_SD, BUDGETS[:2] if quick else BUDGETS)


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the seconds of a run to each budget."""
    _one(case, seed, case.settings["budgets"][0])  # not timed: loads and compiles what is needed at first use
    return pd.concat([_one(case, seed, n) for n in case.settings["budgets"]], ignore_index=True)


def _one(case: Case, seed: int, n: int) -> pd.DataFrame:
    rows = against_truth(Case(case.name, {**case.settings, "budgets": [n]}), seed)
    return rows.assign(per_evaluation=1e3 * rows["seconds"] / rows["n"])


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw a panel for each integrand."""
    names = list(results["problem"].unique())
    figure, axes = drawing.figure(1, len(names), size=(4.2, 3.2), sharey=True)
    for ax, name in zip(axes.flat, names, strict=True):
        drawing.curves(
            ax, results[results["problem"] == name], "n", "seconds", by="method", lines=STROKES, steps=False,
            x_scale="log", y_scale="log", x_label="evaluations", y_label="" if ax is not axes[0, 0] else None,
        )  # fmt: skip
        drawing.label_budgets(ax, results["n"])
        ax.set_title(name)
    drawing.legend_below(figure, axes, columns=2)
    caption = f"Time of a whole run to n evaluations, on one thread. {drawing.band_caption(results)}"
    return [Drawing("cost", figure, caption)]


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate seconds, and milliseconds per evaluation, at the last n."""
    last = summaries.last_records(results)
    columns = {"seconds": "run (s)", "per_evaluation": "per evaluation (ms)"}
    frame = summaries.quartiles(last, columns, by=("problem", "method"))
    return [Table("cost", frame, f"Runs to n = {int(last['n'].max())}: median [quartiles] over seeds.")]


experiment = Experiment(
    name="quadrature-cost",
    title="Quadrature: cost",
    summary="How much time does a quadrature take besides the evaluations of the integrand?",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
    seeds=2,
    quick_seeds=1,
)
