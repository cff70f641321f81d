"""Brackets around the evidence of reference posteriors, from a folder given by `--posteriors DIR`.

The posteriors are those of `experiments.problems.reference`, in their unconstrained coordinates; its module
`experiments.problems.reference.folder` describes the layout of the folder. The proposal is an equal mixture
of Laplace's approximation with wider ones of the same shape: of four times its covariance, or of four and
sixteen times, as Student's t is a mixture of infinitely many. The one of the two with the larger effective
sample size of 500 draws is taken, and these draws count in the budget. Where a search from the reference's
mean finds no mode, a Gaussian with the reference's moments takes its place. Ten of the reference's draws
start the chains backwards.

A bracket is `EvidenceBounds.interval`: the lower bound less and the upper one plus so many standard errors
that ln Z lies between with 99 %, were the means over replicates Student-t distributed. The bounds without
their errors hold in expectation only; how often they hold ln Z is tabulated beside it.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import torch

import bqvi
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import Column, of_all, summary
from experiments.problems.laplace import Laplace, NoModeError, laplace
from experiments.problems.reference import MODELS, Reference, load_reference
from experiments.problems.reference.unconstrained import unconstrained
from gp.measures import Gaussian, GaussianMixture

__all__ = ["experiment"]

_BUDGET, _QUICK_BUDGET = 40_000, 4_000
_SLOW = {"lotka_volterra": 4_000}
"""The budgets of densities that take milliseconds for each point."""
_SCALES = ((1.0, 4.0), (1.0, 4.0, 16.0))
"""The multiples of the covariance in each proposal that is tried."""
_TRIED = 500
"""The number of draws of each."""
_DRAWS = 10
_QUICK = ("gp_regr",)
_NARROW = 0.1
"""The width in nats below which a bracket is narrow."""
_TICKS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
"""The distances from 0 in nats that the axis of the picture shows, up to the longest bracket."""
_SECONDS, _LEAST, _COVERAGE = 10.0, 5, 0.95
"""The CPU seconds for a narrow bracket; the number of posteriors; the share that should contain ln Z."""


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each posterior."""
    return [
        Case(
            name,
            {"problem": name, "budget": _QUICK_BUDGET if quick else _SLOW.get(name, _BUDGET)},
            resources.posteriors,
        )
        for name in (_QUICK if quick else MODELS)
    ]


def _proposal(reference: Reference, rng: np.random.Generator) -> GaussianMixture:
    """The proposal: the better of the mixtures, by ``_TRIED`` draws of each."""
    try:
        around = laplace(reference.target.log_density, reference.mean)
    except NoModeError:
        around = Laplace(Gaussian(reference.mean, reference.covariance), 0.0, 0)
    tried = [around.heavy_tailed(scales) for scales in _SCALES]
    return max(tried, key=lambda q: _effective(reference, q, rng))


def _effective(reference: Reference, q: GaussianMixture, rng: np.random.Generator) -> float:
    """Effective sample size of importance sampling from ``q``."""
    points = q.sample(_TRIED, rng)
    logs = reference.target.log_density(torch.as_tensor(points)).numpy() - q.log_density(points)
    weights = np.exp(logs - np.nanmax(logs))
    weights[np.isnan(weights)] = 0.0
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the bracket less ln Z, its width, and the seconds of proposal and run together."""
    assert case.folder is not None  # `needs` requires the folder
    reference = load_reference(case.folder, case.settings["problem"])
    rng = np.random.default_rng([seed, 1])
    chosen = rng.choice(len(reference.draws), _DRAWS, replace=False)
    draws = unconstrained(reference, reference.draws[chosen])
    began = time.process_time()
    start = _proposal(reference, rng)
    tried = _TRIED * len(_SCALES)
    found = bqvi.evidence_bounds(
        reference.target.log_density,
        start,
        case.settings["budget"] - tried,
        posterior=draws,
        gradient="autodiff",
        seed=seed,
    )
    low, high = found.interval - reference.log_evidence
    slack = 3.0 * reference.log_evidence_se
    row = {
        "dimension": reference.target.dimension,
        "lower": found.lower - reference.log_evidence,
        "upper": found.upper - reference.log_evidence,
        "low": low,
        "high": high,
        "width": high - low,
        "held": bool(low < slack and high > -slack),
        "held_alone": bool(found.lower - slack < reference.log_evidence < found.upper + slack),
        "converged": bool(found.converged),
        "temperatures": len(found.effective_sample_sizes),
        "scales": len(start.weights),
        "n": found.n_evaluations + tried,
        "seconds": time.process_time() - began,
    }
    return pd.DataFrame([row])


def _draw(results: pd.DataFrame) -> list[Drawing]:
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
    ax.set_xscale("symlog", linthresh=_NARROW)
    reach = float(np.abs(results[["low", "high"]].to_numpy(dtype=float)).max())
    shown = [side * tick for side in (-1.0, 1.0) for tick in _TICKS if tick < reach]
    ax.set_xticks([0.0, *shown], [f"{tick:g}" for tick in (0.0, *shown)])
    ax.set_yticks(range(len(problems)), problems)
    ax.set_xlabel("99 % interval less ln Z (nats)")
    return [
        Drawing(
            "intervals",
            figure,
            "A line is a run; in the second colour it does not hold ln Z. Linear between -.1 and .1.",
        )
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the brackets."""
    columns: dict[str, Column] = {
        "D": ("dimension", "min", ".0f"),
        "scales": ("scales", lambda values: "/".join(map(str, sorted(set(values)))), ""),
        "temperatures": ("temperatures", "median", ".0f"), "evaluations": ("n", "median", ".0f"),
        "seconds": ("seconds", "median", ".1f"), "lower less ln Z": ("lower", "median", ".3f"),
        "upper less ln Z": ("upper", "median", ".3f"), "width": ("width", "median", ".3f"),
        "holds ln Z": ("held", of_all, ""), "bounds alone": ("held_alone", of_all, ""),
        "converged": ("converged", of_all, ""),
    }  # fmt: skip
    caption = (
        "Medians over seeds; seconds of the processor, for the proposal and the run. An interval holds ln Z "
        "up to three standard errors of the reference."
    )
    return [Table("brackets", summary(results, {"problem": "posterior"}, columns), caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check how many brackets are narrow, and that they hold ln Z."""
    medians = results.groupby("problem")[["width", "seconds"]].median()
    narrow = medians[(medians["width"] < _NARROW) & (medians["seconds"] <= _SECONDS)]
    held, runs = int(results["held"].sum()), len(results)
    coverage = Check(
        "all posteriors",
        held >= _COVERAGE * runs,
        f"{held} of {runs} runs hold ln Z",
        wins=held,
        seeds=runs,
    )
    measured = f"{len(narrow)} of {len(medians)} posteriors: {', '.join(narrow.index)}"
    return [
        Claim(
            "002",
            "Annealing forwards and backwards brackets the evidence of reference posteriors narrowly.",
            f"median width below {_NARROW:g} nats within {_SECONDS:g} seconds on {_LEAST} posteriors",
            [Check("medians over seeds", len(narrow) >= _LEAST, measured)],
        ),
        Claim(
            "002",
            "Brackets between annealing forwards and backwards hold the evidence in "
            f"{_COVERAGE:.0%} of runs.",
            f"at least {_COVERAGE:.0%} of the 99 % intervals hold ln Z",
            [coverage],
        ),
    ]


experiment = Experiment(
    name="bounds-posteriors",
    title="Bounds on the evidence: reference posteriors",
    summary="""How wide is the bracket around ln Z of ten reference posteriors after 40,000 evaluations
        (4,000 of one with differential equations), and how often does it hold ln Z?""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
    seeds=5,
    quick_seeds=1,
    needs=("posteriors",),
)
