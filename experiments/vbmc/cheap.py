"""VBMC with a cheap approximate model: the evaluations of the log joint that it saves.

The cheap models are distortions of the log joint f, in units of the posterior's mean m and standard
deviations s, one by one; c is a constant:

    close        .9 f(m + 1.05 (theta - m) + .15 s) + c
    rough        .6 f(m + 1.25 (theta - m) + .6 s) + c
    misleading   a Gaussian of a third of the posterior's sds, 5 of them away in each coordinate

A row for each record of a run:

    n        evaluations of the log joint up to the record
    error    log evidence - ln Z, nats
    scale    posterior mean of the cheap model's scale, at the end of the run

An error is reached at the first record from which on all errors are below it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.variational_bmc.state import State
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import Column, summary
from experiments.problems.known_posteriors import Problem
from experiments.vbmc.runs import ERROR, draw_errors, ends, problem_named, sized

__all__ = ["experiment"]

_BUDGETS = {"Rosenbrock 2": 50, "lumpy 4": 90, "logistic 5": 70}
_ALONE, _CLOSE, _ROUGH, _MISLEADING = "none", "close", "rough", "misleading"
_SHAPES = {_CLOSE: (0.9, 1.05, 0.15), _ROUGH: (0.6, 1.25, 0.6)}
"""Factor of the log joint, stretch, shift in sds."""
_CHEAP_BUDGET = 150


def _cheap_model(problem: Problem, quality: str) -> Callable[[np.ndarray], float] | None:
    """The cheap model of that quality; None without one."""
    mean, sd = problem.mean, np.sqrt(np.diag(problem.covariance))
    if quality == _ALONE:
        return None
    if quality == _MISLEADING:
        return lambda theta: -4.5 * float(np.square((theta - mean) / sd - 5.0).sum())
    factor, stretch, shift = _SHAPES[quality]
    return lambda theta: factor * problem.log_joint(mean + stretch * (theta - mean) + shift * sd) - 7.0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each cheap model, and none, on each target."""
    budgets = {"Rosenbrock 2": 12} if quick else _BUDGETS
    return [
        Case(
            f"{problem}: {cheap}",
            {
                "problem": problem,
                "cheap": cheap,
                "budget": budgets[problem],
                "cheap_budget": 20 if quick else _CHEAP_BUDGET,
            },
        )
        for problem in budgets
        for cheap in ((_ALONE, _CLOSE) if quick else (_ALONE, _CLOSE, _ROUGH, _MISLEADING))
    ]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the records of one run."""
    settings = case.settings
    problem = problem_named(settings["problem"])
    cheap = _cheap_model(problem, settings["cheap"])
    rows: list[dict[str, float]] = []

    def look(state: Any) -> None:
        if isinstance(state, State) and state.rows:
            last = state.rows[-1]
            rows.append({"n": last.n_evaluations, "error": last.log_evidence - problem.log_evidence})

    found = bqvi.vbmc(
        problem.log_joint, **problem.bounds(), budget=settings["budget"], tolerance=None, seed=seed,
        run=bqvi.Run(callback=look),
        design=None if cheap is None else bqvi.Design(cheap=(cheap, settings["cheap_budget"])),
    )  # fmt: skip
    rows.append({"n": found.n_evaluations, "error": found.log_evidence - problem.log_evidence})
    scale = np.nan if found.cheap_scale is None else found.cheap_scale[0]
    made = pd.DataFrame(rows).drop_duplicates("n", keep="last")
    return sized(made.assign(scale=scale))


_ENDS = partial(ends, by=("problem", "cheap"), costs={"reached": "n"})


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error against evaluations of the log joint."""
    problems = list(results["problem"].unique())
    figure, axes = drawing.figure(1, len(problems), size=(3.2, 2.4), sharey=True)
    lines = drawing.line_styles(results["cheap"])
    for ax, problem in zip(axes[0], problems, strict=True):
        draw_errors(ax, results[results["problem"] == problem], "n", "cheap", lines)
        ax.set(title=problem, xlabel="evaluations of the log joint")
    axes[0, 0].set_ylabel("|error of ln Z| (nats)")
    drawing.legend_below(figure, axes)
    caption = (
        "Error of the log evidence against evaluations of the log joint, by the quality of the cheap model, "
        "whose own evaluations are not counted; a line is a run."
    )
    return [Drawing("against-evaluations", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate evaluations until the error stays below `ERROR`, and the learnt scales."""
    columns: dict[str, Column] = {
        "evaluations": ("reached", "median", ".0f"), "least": ("reached", "min", ".0f"),
        "most": ("reached", "max", ".0f"),
        "|error| at the end": ("error", lambda values: values.abs().median(), ".2g"),
        "scale": ("scale", "median", ".2f"),
    }  # fmt: skip
    caption = (
        f"Evaluations of the log joint after which the error of ln Z stays below {ERROR:g} nats (inf: it "
        "does not), medians over seeds; the posterior mean of the cheap model's scale at the end."
    )
    by = {"problem": "problem", "cheap": "cheap model"}
    return [Table("evaluations", summary(_ENDS(results), by, columns), caption)]


_CLAIMS = tuple(
    Statement("bqvi", f"A cheap model that is {quality} {what}.",
              f"fewer than {most:g} times the evaluations without it, on four fifths of the seeds",
              "reached", {quality: [_ALONE]}, factor=most, shown="evaluations", rows=_ENDS)
    for quality, most, what in (
        (_CLOSE, 0.7, "saves evaluations"), (_ROUGH, 1.05, "costs none"), (_MISLEADING, 1.5, "costs few"),
    )
)  # fmt: skip

experiment = Experiment(
    name="vbmc-cheap",
    title="VBMC with a cheap approximate model",
    summary="""How many evaluations of the log joint does a cheap model save, by its quality? Error of
        the evidence with a close, a rough and a misleading one, and with none.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="cheap", each="problem"),
    seeds=5,
    quick_seeds=1,
)
