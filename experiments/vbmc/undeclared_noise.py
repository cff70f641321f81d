"""VBMC on values with noise that was not declared: whether a run reports it, and its evidence.

A row for each run:

    n           evaluations
    repeated    how many of them were at nearly the same point as another
    reported    whether the result has a warning of noise
    error, sd   log evidence - ln Z and its stated sd, nats
    converged   whether the run has converged
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import bqvi
from bqvi.variational_bmc.stopping import repeated
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, grid
from experiments.harness.summaries import Column, of_all, summary
from experiments.problems import hard_posteriors, known_posteriors
from experiments.problems.known_posteriors import Problem
from experiments.vbmc.runs import SIZE, WITHIN, covered

__all__ = ["experiment"]

_NAMES = ("Gaussian 2", "Gaussian 4", "Rosenbrock 2", "logistic 5", "lumpy 4")
_SDS = (0.0, 0.1, 0.3, 1.0)
_BUDGETS = (40, 80)
_SHARE = 0.95
_LEAST = 1e-4


def _problem(name: str, seed: int) -> Problem:
    kind, dimension = name.split()
    if kind == "Gaussian":
        return hard_posteriors.gaussian(int(dimension), seed)
    if kind == "lumpy":
        return known_posteriors.lumpy(int(dimension), seed)
    return known_posteriors.rosenbrock(2) if kind == "Rosenbrock" else known_posteriors.logistic()


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each posterior with each noise and budget."""
    if quick:
        return [Case("Gaussian 2, sd 0.3", {"problem": "Gaussian 2", "noise": 0.3, "budget": 40})]
    return grid("{problem}, sd {noise:g}, {budget}", problem=_NAMES, noise=_SDS, budget=_BUDGETS)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return how one run ended."""
    settings = case.settings
    problem = _problem(settings["problem"], seed)
    log_joint = problem.noisy(settings["noise"], seed) if settings["noise"] else problem.log_joint
    found = bqvi.vbmc(log_joint, **problem.bounds(), budget=settings["budget"], seed=seed)
    row = {
        "n": found.n_evaluations,
        "repeated": len(repeated(found.evaluations.points)),
        "reported": any("give noise_sd" in warning for warning in found.warnings),
        "error": found.log_evidence - problem.log_evidence,
        "sd": found.log_evidence_sd,
        "converged": bool(found.converged),
    }
    return pd.DataFrame([row])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error of each run against the noise, by what the run reported."""
    problems = list(results["problem"].unique())
    figure, axes = drawing.figure(1, len(problems), size=(2.2, 2.2), sharex=True, sharey=True)
    places = {noise: place for place, noise in enumerate(sorted(results["noise"].unique()))}
    for ax, problem in zip(axes[0], problems, strict=True):
        rows = results[results["problem"] == problem]
        for reported, mark, label in ((True, "o", "reported"), (False, "x", "not reported")):
            some = rows[rows["reported"].astype(bool) == reported]
            at = some["noise"].map(places) + np.linspace(-0.2, 0.2, max(len(some), 2))[: len(some)]
            size = some["error"].abs().clip(lower=_LEAST)
            ax.plot(at, size, mark, ms=3, color="C0" if reported else "C1", label=label)
        ax.set(title=problem, yscale="log", xlabel="sd of the noise (nats)")
        ax.set_xticks(list(places.values()), [f"{noise:g}" for noise in places])
    axes[0, 0].set_ylabel("|error of ln Z| (nats)")
    drawing.legend_below(figure, axes)
    caption = "A mark is a run: whether its result has a warning of noise, and the error of its log evidence."
    return [Drawing("errors", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate for each posterior and noise how many runs reported it, and the errors."""
    columns: dict[str, Column] = {
        "reported": ("reported", of_all, ""), "second evaluation": ("again", of_all, ""),
        **SIZE, **WITHIN,
    }  # fmt: skip
    by = {"problem": "problem", "noise": "sd of the noise"}
    caption = f"Runs of {' and '.join(str(n) for n in sorted(results['budget'].unique()))} evaluations."
    return [
        Table(
            "reports", summary(covered(results).assign(again=results["repeated"] > 0), by, columns), caption
        )
    ]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Count the noisy runs that reported it, and the exact ones that did not."""
    noisy, reported = results["noise"] > 0.0, results["reported"].astype(bool)
    within = results["error"].abs() <= 3.0 * results["sd"]
    asked = (
        ("Noise that was not declared is reported.", "reported", reported[noisy]),
        ("Values that are exact are not called noisy.", "not reported", ~reported[~noisy]),
        ("With such noise the evidence is within three stated sds.", "within 3 sd", within[noisy]),
    )
    return [_counted(statement, what, right) for statement, what, right in asked if len(right)]


def _counted(statement: str, what: str, right: pd.Series) -> Claim:
    wins, runs = int(right.sum()), len(right)
    check = Check(
        "all posteriors", wins >= _SHARE * runs, f"{what} in {wins} of {runs}", wins=wins, seeds=runs
    )
    return Claim("bqvi", statement, f"in {_SHARE:.0%} of the runs", [check])


experiment = Experiment(
    name="vbmc-undeclared-noise",
    title="VBMC on values with noise that was not declared",
    summary="""Does a run report that values which were declared exact are noisy, and is its evidence right?
        Gaussians, a curved, a logistic and a lumpy posterior with noise of sd .1 to 1, and without.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
    seeds=10,
    quick_seeds=1,
)
