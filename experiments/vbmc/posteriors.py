"""VBMC: evidence and posterior of reference posteriors, from a folder given by `--posteriors DIR`.

The posteriors are those of `experiments.problems.reference`, in their unconstrained coordinates; its module
`experiments.problems.reference.folder` describes the layout of the folder. The plausible box is eight
posterior standard deviations wide, with its middle up to one of them from the mean in each coordinate, drawn
from the seed. Runs end when they have converged, at the latest after 50 (D + 2) evaluations.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

import bqvi
from bqvi.variational_bmc.diagnostics import gskl, mmtv
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, grid
from experiments.harness.statements import Statement
from experiments.harness.summaries import Column, of_all, summary
from experiments.problems.reference import MODELS, Reference, load_reference
from experiments.vbmc.runs import GRADIENTS, SIZE, VALUES, WITHIN, covered

__all__ = ["WIDTH", "box", "experiment"]

_DRAWS = 20_000
WIDTH, _SHIFT = 4.0, 1.0
"""Half the width of the plausible box, and the largest offset of its middle, in standard deviations."""
_LEVEL = 0.1
"""An evidence is good whose error is below this and three standard errors of the reference."""
_QUICK = ("gp_regr",)


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each posterior from values and from values with gradients."""
    names, shared = _QUICK if quick else MODELS, {"per_dimension": 6 if quick else 50}
    return grid(
        "{problem}: {method}", shared, resources.posteriors, problem=names, method=(VALUES, GRADIENTS)
    )


def box(reference: Reference, seed: int) -> dict[str, Any]:
    """The plausible bounds (D,) of this seed."""
    sd = np.sqrt(np.diag(reference.covariance))
    middle = reference.mean + _SHIFT * sd * np.random.default_rng(seed).uniform(-1, 1, len(sd))
    return {"plausible_lower": middle - WIDTH * sd, "plausible_upper": middle + WIDTH * sd}


def _log_joint(reference: Reference, gradients: bool) -> Callable[[Any], Any]:
    """Of one vector: a float, or for autodiff a tensor."""
    density = reference.target.log_density
    if gradients:
        return lambda theta: density(theta[None])[0]

    def value(theta: np.ndarray) -> float:
        with torch.no_grad():
            return float(density(torch.as_tensor(theta)[None])[0])

    return value


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return where the run ended."""
    assert case.folder is not None  # `needs` requires the folder
    reference = load_reference(case.folder, case.settings["problem"])
    gradients = case.settings["method"] == GRADIENTS
    dimension = reference.target.dimension
    began = time.perf_counter()
    found = bqvi.vbmc(
        _log_joint(reference, gradients), **box(reference, seed), gradient="autodiff" if gradients else None,
        budget=case.settings["per_dimension"] * (dimension + 2), seed=seed,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    draws = found.posterior.sample(_DRAWS, 0)
    stated = reference.target.constrain(torch.as_tensor(draws)).numpy()
    error = found.log_evidence - reference.log_evidence
    row = {
        "dimension": dimension,
        "n": found.n_evaluations,
        "seconds": seconds,
        "error": error,
        "size": max(abs(error), 1e-5),
        "sd": found.log_evidence_sd,
        "reference_se": reference.log_evidence_se,
        "good": abs(error) < _LEVEL + 3 * reference.log_evidence_se,
        "mmtv": mmtv(stated, reference.draws),
        "gskl": gskl(found.posterior.mean, found.posterior.covariance, reference.mean, reference.covariance),
        "converged": bool(found.converged),
    }
    return pd.DataFrame([row])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw errors and their stated standard deviations, run by run."""
    problems = list(results["problem"].unique())
    figure, axes = drawing.figure(1, 2, size=(4.4, 0.35 * len(problems) + 1.4), sharey=True)
    lines = drawing.line_styles(results["method"])
    for (problem, method), group in results.groupby(["problem", "method"], sort=False):
        row = problems.index(problem) + (0.15 if method == GRADIENTS else -0.15)
        for ax, column in zip(axes[0], ("size", "mmtv"), strict=True):
            label = str(method) if row < 0.5 else None
            ax.plot(
                group[column], np.full(len(group), row), "o", ms=4, color=lines[method].colour, label=label
            )
    for ax, label, level in zip(axes[0], ("|error of ln Z| (nats)", "MMTV"), (_LEVEL, 0.1), strict=True):
        ax.axvline(level, color="0.5", ls=":", lw=1)
        ax.set_xscale("log")
        ax.set_xlabel(label)
    axes[0, 0].set_yticks(range(len(problems)), problems)
    drawing.legend_below(figure, axes)
    return [Drawing("errors", figure, "Each dot is a run; dotted: .1.")]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate where the runs ended."""
    columns: dict[str, Column] = {
        "D": ("dimension", "min", ".0f"), "evaluations": ("n", "median", ".0f"),
        "seconds": ("seconds", "median", ".1f"), **SIZE, "sd": ("sd", "median", ".2g"),
        "good": ("good", of_all, ""), "MMTV": ("mmtv", "median", ".2g"), "gsKL": ("gskl", "median", ".2g"),
        "converged": ("converged", of_all, ""), "converged and wrong": ("far", "sum", ".0f"), **WITHIN,
    }  # fmt: skip
    rows = covered(results).assign(far=results["converged"] & (results["error"].abs() > 1.0))
    caption = (
        "Medians over seeds. Good: the error of ln Z is below .1 and three standard errors of the reference. "
        "Wrong: it is above 1. MMTV against 1,000 draws, whose own MMTV from the posterior is .03."
    )
    return [Table("ends", summary(rows, {"problem": "posterior", "method": "method"}, columns), caption)]


def _beyond(results: pd.DataFrame) -> pd.DataFrame:
    error, wrong = results["error"].abs(), np.maximum(_LEVEL, 3.0 * results["sd"])
    noise = 3.0 * results["reference_se"]
    return results.assign(
        bad=1.0 - results["good"].astype(float),
        beyond=(error > 3.0 * results["sd"] + noise) * 1.0,
        wrong=(results["converged"].astype(bool) & (error > wrong + noise)) * 1.0,
    )


_CLAIMS = tuple(
    Statement("7.3.1", statement, criterion, column, level=level, shown="share of runs",
              rows=_beyond, statistic="mean")
    for statement, criterion, column, level in (
        ("VBMC finds the evidence of reference posteriors.",
         "the error is below .1 and three standard errors of the reference in nine of ten runs", "bad", 0.1),
        ("VBMC states its error.",
         "it is beyond three stated sds in at most 3 % of the runs", "beyond", 0.03),
        ("A run that has converged is right.", "no converged run errs by .1 and three sds", "wrong", 0.0),
    )
)  # fmt: skip


experiment = Experiment(
    name="vbmc-posteriors",
    title="VBMC: reference posteriors",
    summary="""How accurate are evidence and posterior on the reference posteriors of a folder, within 50
        (D + 2) evaluations? From values and from values with gradients.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="method"),
    seeds=3,
    quick_seeds=1,
    needs=("posteriors",),
)
