"""VBMC: a hundred runs from badly chosen plausible boxes.

The seed makes the box three times too wide or too narrow, and moves it by a width of the good one, up or down
along each axis. Each run should end with finite numbers, and report `converged` only where its evidence is
right.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

import bqvi
from bqvi.variational_bmc.diagnostics import gskl
from experiments.harness import drawing, statements
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.harness.statements import Statement
from experiments.problems.known_posteriors import Problem
from experiments.vbmc.runs import covered, problem_named

__all__ = ["badly_scaled", "experiment"]

_NAMES: Sequence[str] = ("Rosenbrock 2", "bounded banana", "lumpy 4", "logistic 5")
_FACTOR = 3.0
_WRONG = 1.0
"""nats; a run with such an error must not be `converged`."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the targets."""
    return [
        Case(name, {"problem": name, "budget": 20 if quick else 150})
        for name in _NAMES[: 2 if quick else None]
    ]


def badly_scaled(problem: Problem, seed: int) -> tuple[Problem, float]:
    """The problem in a bad box, and the factor by which the box is too wide."""
    rng = np.random.default_rng(seed)
    width = _FACTOR if rng.random() < 0.5 else 1.0 / _FACTOR
    return problem.rescaled(width, rng.choice([-1.0, 1.0], problem.dimension)), width


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the end of one run; a run that raised has said so."""
    problem, width = badly_scaled(problem_named(case.settings["problem"]), seed)
    began = time.perf_counter()
    row: dict[str, object] = {"width": width, "crashed": ""}
    try:
        found = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=case.settings["budget"], seed=seed)
    except Exception as failure:
        row["crashed"] = f"{type(failure).__name__}: {failure}"
        return pd.DataFrame([{**row, "seconds": time.perf_counter() - began}])
    posterior = found.posterior
    divergence = gskl(posterior.mean, posterior.covariance, problem.mean, problem.covariance)
    return pd.DataFrame(
        [
            {
                **row,
                "seconds": time.perf_counter() - began,
                "n": found.n_evaluations,
                "error": found.log_evidence - problem.log_evidence,
                "sd": found.log_evidence_sd,
                "gskl": divergence,
                "converged": bool(found.converged),
            }
        ]
    )


def _ended(results: pd.DataFrame) -> pd.DataFrame:
    return results[results["crashed"].fillna("") == ""]


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error of each run against its reported standard deviation."""
    ended = _ended(results)
    problems = list(results["problem"].unique())
    figure, axes = drawing.figure(1, len(problems), size=(2.7, 2.7), sharex=True, sharey=True)
    for ax, problem in zip(axes[0], problems, strict=True):
        rows = ended[ended["problem"] == problem]
        for converged, mark in ((True, "o"), (False, "x")):
            some = rows[rows["converged"].astype(bool) == converged]
            label = "converged" if converged else "not converged"
            ax.plot(some["sd"], some["error"].abs().clip(lower=1e-4), mark, ms=4, color="C0", label=label)
        line = np.array([1e-4, 1e2])
        for k in (1.0, 3.0):
            ax.plot(line, k * line, color="0.6", lw=0.8)
        ax.set(xscale="log", yscale="log", title=problem, xlabel="stated sd (nats)")
    axes[0, 0].set_ylabel("|error of ln Z| (nats)")
    drawing.legend_below(figure, axes)
    return [Drawing("errors", figure, "Each mark is a run; lines: the error is one and three stated sds.")]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Count what went wrong."""
    rows = []
    for problem, group in results.groupby("problem", sort=False):
        ended = _ended(group)
        numbers = ended[["error", "sd", "gskl"]].astype(float)
        converged = ended["converged"].astype(bool)
        rows.append(
            {
                "problem": problem,
                "runs": len(group),
                "raised": len(group) - len(ended),
                "not finite": int((~np.isfinite(numbers)).any(axis=1).sum()),
                "converged": int(converged.sum()),
                "converged and wrong": int((converged & (numbers["error"].abs() > _WRONG)).sum()),
                "|error|": f"{numbers['error'].abs().median():.2g}",
                "largest |error|": f"{numbers['error'].abs().max():.2g}",
                "gsKL": f"{numbers['gskl'].median():.2g}",
                "evaluations": f"{ended['n'].median():.0f}",
                **covered(ended),
            }
        )
    caption = f"Badly scaled runs. Wrong: the error of ln Z is above {_WRONG:g} nat."
    return [Table("runs", pd.DataFrame(rows), caption)]


def _counted(results: pd.DataFrame) -> pd.DataFrame:
    """What goes wrong in each run; a run that raised has no error."""
    error = results["error"].abs() if "error" in results else pd.Series(np.nan, results.index)
    return results.assign(
        raised=(results["crashed"].fillna("") != "") * 1.0,
        wrong=(results["converged"].eq(True) & (error > _WRONG)) * 1.0,
        beyond=(error > 3.0 * results["sd"]) * 1.0,
    )


_CLAIMS = tuple(
    Statement("bqvi", statement, criterion, column, level=level, shown="share of runs",
              rows=_counted, counted=False)
    for statement, criterion, column, level in (
        ("A badly chosen box makes no run fail.", "no run raises", "raised", 0.0),
        ("A run that has converged is right, whatever its box.", f"no converged run errs by {_WRONG:g} nat",
         "wrong", 0.0),
        ("The stated error holds in a badly chosen box.",
         "it is beyond three stated sds in at most 5 % of the runs",
         "beyond", 0.05),
    )
)  # fmt: skip


experiment = Experiment(
    name="vbmc-robustness",
    title="VBMC: badly chosen plausible boxes",
    summary="""Is the evidence right from plausible boxes three times too wide or too narrow and off by a
        width? A hundred runs.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=partial(statements.claims, statements=_CLAIMS, by="problem"),
    seeds=25,
    quick_seeds=1,
)
