"""Brackets around the evidence of reference posteriors, from a folder given by `--posteriors DIR`.

The posteriors are those of `experiments.problems.reference`, in their unconstrained coordinates; its module
`experiments.problems.reference.folder` tells the layout of the folder. The proposal is an equal mixture of
Laplace's approximation with one of four times its covariance; where a search from the reference's mean finds
no mode, a Gaussian with the reference's moments takes its place. Ten of the reference's draws start the
chains backwards.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.quadrature.laplace import Laplace, NoModeError, laplace
from experiments.harness import drawing
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.problems.reference import MODELS, Reference, load_reference
from experiments.problems.reference.unconstrained import unconstrained
from gp.measures import Gaussian

BUDGET, QUICK_BUDGET = 40_000, 4_000
DRAWS = 10
QUICK = ("gp_regr",)
NARROW = 0.1
"""Nats: a bracket that is narrower is a good one."""


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each posterior."""
    return [
        Case(name, {"problem": name, "budget": QUICK_BUDGET if quick else BUDGET}, resources.posteriors)
        for name in (QUICK if quick else MODELS)
    ]


def proposal(reference: Reference) -> Any:
    """What particles begin from."""
    try:
        around = laplace(reference.target.log_density, reference.mean)
    except NoModeError:
        around = Laplace(Gaussian(reference.mean, reference.covariance), 0.0, 0)
    return around.heavy_tailed()


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the bracket less ln Z, its width, and the seconds of proposal and run together."""
    assert case.folder is not None  # `needs` says so
    reference = load_reference(case.folder, case.settings["problem"])
    rng = np.random.default_rng([seed, 1])
    chosen = rng.choice(len(reference.draws), DRAWS, replace=False)
    draws = unconstrained(reference, reference.draws[chosen])
    began = time.process_time()
    found = bqvi.evidence_bounds(
        reference.target.log_density,
        proposal(reference),
        case.settings["budget"],
        posterior=draws,
        gradient="autodiff",
        seed=seed,
    )
    low, high = found.interval - reference.log_evidence
    slack = 3.0 * reference.log_evidence_se
    return pd.DataFrame(
        [
            {
                "dimension": reference.target.dimension,
                "lower": found.lower - reference.log_evidence,
                "upper": found.upper - reference.log_evidence,
                "low": low,
                "high": high,
                "width": high - low,
                "held": bool(low < slack and high > -slack),
                "credible": bool(found.credible),
                "temperatures": len(found.ess),
                "n": found.n_evaluations,
                "seconds": time.process_time() - began,
            }
        ]
    )


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the intervals less ln Z, run by run."""
    problems = list(results["problem"].unique())
    figure, axes = drawing.figure(1, 1, size=(6.4, 0.35 * len(problems) + 1.4))
    ax = axes[0, 0]
    seeds = results["seed"].nunique()
    for problem, group in results.groupby("problem", sort=False):
        rows = problems.index(problem) + np.linspace(-0.3, 0.3, seeds)[: len(group)]
        for held, colour in ((True, drawing.COLOURS[0]), (False, drawing.COLOURS[1])):
            those = (group["held"] == held).to_numpy()
            ax.hlines(rows[those], group["low"][those], group["high"][those], color=colour, lw=2)
    ax.axvline(0.0, color="black", lw=1, ls="--")
    ax.set_xscale("symlog", linthresh=NARROW)
    ax.set_yticks(range(len(problems)), problems)
    ax.set_xlabel("95 % interval less ln Z (nats)")
    return [Drawing("intervals", figure, "A line is a run; in the second colour it does not hold ln Z.")]


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the brackets."""
    rows = [
        {
            "posterior": problem,
            "D": int(group["dimension"].iloc[0]),
            "temperatures": f"{group['temperatures'].median():.0f}",
            "evaluations": f"{group['n'].median():.0f}",
            "seconds": f"{group['seconds'].median():.1f}",
            "lower less ln Z": f"{group['lower'].median():.3f}",
            "upper less ln Z": f"{group['upper'].median():.3f}",
            "width": f"{group['width'].median():.3f}",
            "holds ln Z": f"{int(group['held'].sum())} of {len(group)}",
            "credible": f"{int(group['credible'].sum())} of {len(group)}",
        }
        for problem, group in results.groupby("problem", sort=False)
    ]
    caption = (
        "Medians over seeds; seconds of the processor, for the proposal and the run. An interval holds ln Z "
        "up to three standard errors of the reference."
    )
    return [Table("brackets", pd.DataFrame(rows), caption)]


experiment = Experiment(
    name="bounds-posteriors",
    title="Bounds on the evidence: reference posteriors",
    summary=(
        "How wide the bracket around ln Z of reference posteriors is after 40,000 evaluations, and how often "
        "it holds ln Z."
    ),
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
    seeds=5,
    quick_seeds=1,
    needs=("posteriors",),
)
