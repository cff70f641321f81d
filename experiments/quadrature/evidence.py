"""Quadrature: two evidences, of a regression on diabetes data and of a Gaussian process on the Nile.

    Z = int e^l(theta) d theta,      l the log joint density,

is the integral of e^l / q against any proposal q; the logarithm of the integrand is given, so that ln Z is
computed where Z itself underflows. Three proposals are compared:

    prior           q = p(theta), so that the integrand is the likelihood
    Laplace         q = N(mode, 1.5 H^-1): Laplace's approximation, with 1.5 times its covariance
    heavy tails     q = the equal mixture of N(mode, H^-1) and N(mode, 4 H^-1)

With 1.5 the quotient decreases outwards where the tails of the posterior are Gaussian, and e^l / q is almost
constant near the mode. The search for the mode costs 12 to 32 evaluations with gradients, which are not
counted in n.

The targets and their truths, by brute force, are in `experiments.problems.evidence_targets`. The standard
deviation of the likelihood of 442 patients is a twentieth of the prior's in each of four dimensions, so that
it is hard to integrate against the prior, but easy against a Gaussian around the mode. For the other evidence
this is not so: the length scale of the Nile's trend is weakly determined, and its posterior has heavier tails
than Laplace's approximation. `experiments.quadrature.posteriors` has the same methods on those of a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, ResourceName, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import Column, of_all, summary
from experiments.problems.evidence_targets import TARGETS
from experiments.problems.laplace import laplace
from experiments.quadrature.runs import LABELS, LINE_STYLES, estimates
from gp.measures import Measure

__all__ = [
    "GAUSSIAN", "HEAVY", "evidence_cases", "evidence_experiment", "experiment", "log_evidences", "proposals",
]  # fmt: skip

_WIDTH = 1.5
_PRIOR, GAUSSIAN, HEAVY = "prior", "Laplace", "heavy tails"
_LEAST = 1e-7
"""nats; smaller errors are drawn there."""


def proposals(
    log_joint: Callable[[torch.Tensor], torch.Tensor], start: Any
) -> tuple[Mapping[str, Measure], float]:
    """Return the two proposals around the mode reached from ``start``, and Laplace's own ln Z."""
    found = laplace(log_joint, start)
    return {GAUSSIAN: found.widened(_WIDTH), HEAVY: found.heavy_tailed()}, found.log_evidence


def evidence_cases(
    problems: Sequence[str],
    proposed: Sequence[str],
    methods: Sequence[str],
    budgets: Sequence[int],
    **more: Any,
) -> list[Case]:
    """Return a case for each problem, proposal and method.

    Parameters
    ----------
    problems, proposed, methods : their names. budgets : numbers of evaluations. more : further settings of
        each case.
    """
    return [
        Case(
            f"{problem}, {proposal}: {LABELS[method]}",
            {
                "problem": problem,
                "proposal": proposal,
                "method": LABELS[method],
                "key": method,
                "budgets": list(budgets),
                **more,
            },
        )
        for problem in problems
        for proposal in proposed
        for method in methods
    ]  # fmt: skip


def log_evidences(
    log_joint: Callable[[torch.Tensor], torch.Tensor], measure: Measure, case: Case, seed: int, truth: float
) -> pd.DataFrame:
    """Return the estimates of ln Z with their errors, in nats.

    Parameters
    ----------
    log_joint : a function of points (n, D) that returns (n,). measure : the proposal. case : with method and
        budget.
    seed : of the run. truth : ln Z.
    """

    def quotient(theta: Any) -> Any:
        with torch.no_grad():
            return log_joint(torch.as_tensor(theta)).numpy() - measure.log_density(theta)

    settings = case.settings
    rows = estimates(quotient, measure, settings["key"], settings["budgets"], seed, log=True)
    error = rows["log_mean"] - truth
    return rows.drop(columns=["mean", "sd"]).assign(
        truth=truth, error=error, size=error.abs().clip(lower=_LEAST)
    )


def _draw(results: pd.DataFrame, caption: str) -> list[Drawing]:
    """Draw |error of ln Z| against n: a row of panels for each problem, a panel for each proposal."""
    problems, proposed = results["problem"].unique(), results["proposal"].unique()
    figure, axes = drawing.figure(len(problems), len(proposed), size=(3.0, 2.4), sharex=True, sharey="row")
    for i, problem in enumerate(problems):
        for j, proposal in enumerate(proposed):
            ax = axes[i, j]
            rows = results[(results["problem"] == problem) & (results["proposal"] == proposal)]
            drawing.curves(
                ax, rows, "n", "size", by="method", lines=LINE_STYLES, steps=False,
                x_scale="log", y_scale="log", x_label="evaluations" if i == len(problems) - 1 else "",
                y_label="|error of ln Z| (nats)" if j == 0 else "",
            )  # fmt: skip
            ax.axhline(
                abs(rows["laplace"].iloc[0] - rows["truth"].iloc[0]),
                color="0.5",
                lw=1,
                ls=":",
                label="Laplace alone",
            )
            ax.set_title(f"{problem}:\n{proposal}")
            drawing.label_budgets(ax, results["n"])
    drawing.legend_below(figure, axes, columns=2 * len(proposed))
    return [Drawing("error", figure, f"{caption} {drawing.band_caption(results)}")]


def _table(results: pd.DataFrame, note: str) -> Table:
    """Tabulate ln Z at the last n, with its standard deviation and the truth."""
    n = results["n"].max()
    rows = results[results["n"] == n]
    rows = rows.assign(within=((rows["error"] / rows["log_sd"]).abs() <= 2.0).where(rows["log_sd"].notna()))
    columns: dict[str, Column] = {
        "ln Z": ("log_mean", "median", ".4f"), "truth": ("truth", "min", ".4f"),
        "Laplace alone": ("laplace", "min", ".4f"),
        "|error|": ("error", lambda values: values.abs().median(), ".2g"),
        "stated sd": ("log_sd", "median", ".2g"),
        "within 2 sd": ("within", lambda values: of_all(values) if values.notna().any() else "", ""),
        "converged": ("converged", of_all, ""),
    }  # fmt: skip
    by = {name: name for name in ("problem", "proposal", "method")}
    caption = f"ln Z in nats at n = {int(n)}: medians over seeds. {note}"
    return Table("estimates", summary(rows, by, columns), caption)


def _last(results: pd.DataFrame) -> pd.DataFrame:
    """The estimates at the last n, and what is wrong with what they state."""
    rows = results[results["n"] == results["n"].max()]
    beyond = rows["size"] > 3.0 * rows["log_sd"]
    wrong = beyond & (rows["size"] > 0.1) & rows["converged"].astype(bool)
    return rows.assign(beyond=beyond * 1.0, wrong=wrong * 1.0)


_BY_QUADRATURE = [LABELS[key] for key in ("bq", "wsabi-l")]
_CLAIMS = (
    Statement("7.2.2", "Quadrature finds an evidence from fewer evaluations than quasi-random points.",
              "its error at the last n is smaller than that of Sobol points",
              "size", dict.fromkeys(_BY_QUADRATURE, (LABELS["sobol"],)), shown="error of ln Z", rows=_last),
    Statement("7.2.2", "Quadrature states its error.",
              "at the last n it is beyond three stated sds in at most 5 % of the runs",
              "beyond", _BY_QUADRATURE, level=0.05, shown="share of runs", rows=_last, statistic="mean"),
    Statement("bqvi", "An evidence that converged is right.",
              "at the last n none that converged errs by .1 nats and three stated sds",
              "wrong", _BY_QUADRATURE, shown="share of runs", rows=_last, statistic="mean"),
)  # fmt: skip


def evidence_experiment(
    name: str,
    title: str,
    summary: str,
    cases: Callable[[bool, Resources], list[Case]],
    run: Callable[[Case, int], pd.DataFrame],
    caption: str,
    note: Callable[[pd.DataFrame], str],
    needs: Sequence[ResourceName] = (),
) -> Experiment:
    """Return an experiment that compares the evidences of `log_evidences`.

    Parameters
    ----------
    name, title, summary, cases, run, needs : of the `Experiment`; runs have a column ``laplace`` with
        Laplace's ln Z. caption : of the figure. note : the sentence on the references below the table.
    """
    return Experiment(
        name,
        title,
        summary,
        cases,
        run,
        partial(_draw, caption=caption),
        tables=lambda results: [_table(results, note(results))],
        claims=statements.of(_CLAIMS, by="method", each=("problem", "proposal")),
        quick_seeds=1,
        needs=needs,
    )


_METHODS = ("monte-carlo", "sobol", "bq", "wsabi-l")
_BUDGETS = (20, 40, 80)


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each method with each proposal on both targets."""
    if quick:
        return evidence_cases(tuple(TARGETS), (_PRIOR, GAUSSIAN), ("sobol", "wsabi-l"), _BUDGETS[:2])
    return evidence_cases(tuple(TARGETS), (_PRIOR, GAUSSIAN, HEAVY), _METHODS, _BUDGETS)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return ln Z at each n with its error."""
    target = TARGETS[case.settings["problem"]]()
    around_mode, log_evidence = proposals(target.log_joint, np.zeros(target.prior.dimension))
    measure = {_PRIOR: target.prior, **around_mode}[case.settings["proposal"]]
    return log_evidences(target.log_joint, measure, case, seed, target.log_evidence).assign(
        laplace=log_evidence
    )


experiment = evidence_experiment(
    "quadrature-evidence",
    "Quadrature: evidence of a regression and of a Gaussian process",
    """How accurate is the evidence of a Bayesian linear regression (diabetes data, three
        coefficients and the noise) and of a Gaussian process (the Nile's flow, three hyperparameters)?
        The references are sums over fine grids.""",
    _cases,
    _run,
    "Error of the log evidence; columns: the proposal. Dotted: Laplace's approximation by itself.",
    lambda _: "Truth: brute force.",
)
