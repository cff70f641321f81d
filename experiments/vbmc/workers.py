"""VBMC with workers: synchronous batches, and asynchronous evaluations.

Evaluations take simulated seconds, lognormal with median 1 (`experiments.problems.simulated_workers`): the
clock is that of the simulation, on which learning takes no time. A row for each record of a run:

    clock    simulated seconds since its start
    n        evaluations that had returned at the record
    error    log evidence - ln Z, nats

An error is reached at the first record from which on all errors are below it.

Two problems, one spread of the seconds and ten seeds take some ten minutes. A third problem, a second spread
and twenty seeds, seven times as many runs, show the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

import bqvi
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import Column, summary
from experiments.problems.simulated_workers import SimulatedWorkers
from experiments.vbmc.runs import ERROR, draw_errors, ends, problem_named, sized

__all__ = ["experiment"]

_BUDGETS = {"Rosenbrock 2": 100, "lumpy 4": 150}
_BATCHES, _BUSY = "batches", "never idle"
_SPREAD = 1.0
"""Standard deviation of the logarithm of an evaluation's seconds."""
_COUNTS = (8, 16)


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return both modes with each number of workers."""
    budgets = {"Rosenbrock 2": 30} if quick else _BUDGETS
    return [
        Case(
            f"{problem}: {way}, {workers} workers",
            {"problem": problem, "way": way, "workers": workers, "spread": _SPREAD, "budget": budget},
        )
        for problem, budget in budgets.items()
        for workers in (_COUNTS[:1] if quick else _COUNTS)
        for way in (_BATCHES, _BUSY)
    ]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the records of one run."""
    settings = case.settings
    problem, count = problem_named(settings["problem"]), settings["workers"]
    workers = SimulatedWorkers(count, settings["spread"], seed)
    rows: list[dict[str, Any]] = []

    def look(state: Any) -> None:
        if state.rows and (not rows or rows[-1]["n"] != state.rows[-1].n_evaluations):
            last = state.rows[-1]
            error = last.log_evidence - problem.log_evidence
            rows.append({"clock": workers.clock, "n": last.n_evaluations, "error": error})

    way = settings["way"]
    design = bqvi.Design(batch=count, initial=max(10, count)) if way == _BATCHES else None
    bqvi.vbmc(
        problem.log_joint, **problem.bounds(), budget=settings["budget"], tolerance=None, seed=seed,
        run=bqvi.Run(executor=workers, workers=None if way == _BATCHES else count, callback=look),
        design=design,
    )  # fmt: skip
    busy = workers.busy / (workers.clock * count)
    return sized(pd.DataFrame(rows).assign(busy=busy))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error against simulated seconds."""
    problems, counts = list(results["problem"].unique()), list(results["workers"].unique())
    figure, axes = drawing.figure(len(counts), len(problems), size=(3.0, 2.1), sharex=True, sharey=True)
    lines = drawing.line_styles(results["way"])
    for i, workers in enumerate(counts):
        for j, problem in enumerate(problems):
            rows = results[(results["problem"] == problem) & (results["workers"] == workers)]
            ax = axes[i, j]
            draw_errors(ax, rows, "clock", "way", lines)
            ax.set(xscale="log", title=f"{problem}: {workers} workers")
    for ax in axes[-1]:
        ax.set_xlabel("simulated seconds")
    for ax in axes[:, 0]:
        ax.set_ylabel("|error of ln Z| (nats)")
    drawing.legend_below(figure, axes)
    caption = (
        "Error of the log evidence against simulated seconds; a line is a run. Evaluations take lognormal "
        f"seconds with a median of 1, whose logarithm has the standard deviation {_SPREAD:g}."
    )
    return [Drawing("against-seconds", figure, caption)]


_ENDS = partial(ends, by=("problem", "workers", "way"), costs={"seconds": "clock", "n": "n"})


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate seconds and evaluations until the error stays below `ERROR`."""
    columns: dict[str, Column] = {
        "seconds": ("seconds", "median", ".3g"), "evaluations": ("n", "median", ".0f"),
        "busy": ("busy", "median", ".2f"),
    }  # fmt: skip
    caption = (
        "Medians over seeds: simulated seconds and evaluations after which the error of ln Z stays below "
        f"{ERROR:g} nats, and the share of their time in which workers are busy, over the whole run."
    )
    by = {"problem": "problem", "workers": "workers", "way": "points are chosen"}
    return [Table("seconds", summary(_ENDS(results), by, columns), caption)]


_CLAIMS = (
    Statement("bqvi", "Workers that are never idle find the evidence in less time than batches.",
              f"the error stays below {ERROR:g} nats after fewer simulated seconds",
              "seconds", {_BUSY: [_BATCHES]}, rows=_ENDS),
    Statement("bqvi", "They need no more evaluations for it.",
              "they need less than 1.2 times as many",
              "n", {_BUSY: [_BATCHES]}, factor=1.2, shown="evaluations", rows=_ENDS),
)  # fmt: skip

experiment = Experiment(
    name="vbmc-workers",
    title="VBMC with asynchronous workers",
    summary="""How much time does it save to choose points while others are being evaluated, compared with
        waiting for batches? Error of the evidence against simulated seconds, with 8 and 16 workers whose
        evaluations take lognormal times.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="way", each=("problem", "workers")),
    quick_seeds=1,
)
