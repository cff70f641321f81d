"""Inference with a surrogate: ELBO gap against evaluations and against seconds, beside tuned gradients.

`runs` describes the methods and their tuning: Bayesian quadrature is untuned; natural gradients and Adam have
the best step size and number of samples for each budget and target. They are run once for each budget, and
end there. Targets: `experiments.problems.gradient_targets`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from bqvi.gradients import BayesianQuadrature
from experiments.gradients.references import problem, target_named
from experiments.gradients.runs import (
    BUDGETS,
    STEPPED,
    at_budgets,
    budget_cases,
    run_to_budgets,
    surrogate_run,
    without_gradient,
)
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles

__all__ = ["CLAIMS", "LEAST", "SURROGATES", "experiment", "gap_panels", "gaps", "within_budgets"]

_NAMES = ("banana", "logistic", "mixture", "wine", "schools-centred", "schools-noncentred")
SURROGATES = {"BQ, 2 nodes": 2, "BQ, 10 nodes": 10, "BQ, values only": 2}
_LINE_STYLES = drawing.line_styles((*SURROGATES, *STEPPED))
LEAST = 1e-5
"""The least gap that is drawn, which is the resolution of the quasi-random points."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method on each target."""
    names, budgets = (("banana",), (20, 50)) if quick else (_NAMES, BUDGETS)
    methods = (*SURROGATES, *STEPPED)
    return [case for name in names for case in budget_cases(name, name, methods, budgets, target=name)]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gap, evaluations and seconds at each budget."""
    name, method, budgets = (case.settings[key] for key in ("target", "method", "budgets"))
    if method in STEPPED:
        return run_to_budgets(problem(name), seed, case, SURROGATES)
    values = method == "BQ, values only"
    model = without_gradient(target_named(name)) if values else None
    # from values the budget ends at 200: beyond it the figure does not change, and the runs take long
    last = min(budgets[-1], 200) if values else budgets[-1]
    records = sorted({*range(10, 50, 10), *(b for b in budgets if b < last)})
    estimator = BayesianQuadrature(SURROGATES[method])
    found = surrogate_run(problem(name), seed, last, estimator, model=model, records=records)
    return at_budgets(found, [b for b in budgets if b <= last])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap against evaluations and against seconds."""
    return [
        Drawing(
            cost,
            gap_panels(results, _LINE_STYLES, cost, label, sharey=True),
            f"Gap to the best Gaussian against {label}; recording is not in the time. Natural gradients and "
            f"Adam are tuned for each budget, a point each. Gaps below {LEAST:g} are drawn as that. "
            f"{drawing.band_caption(results)}",
        )
        for cost, label in (("evaluations", "evaluations of the log joint"), ("seconds", "time (s)"))
    ]


def gap_panels(
    results: pd.DataFrame,
    line_styles: Mapping[Hashable, drawing.LineStyle],
    cost: str = "evaluations",
    label: str = "evaluations",
    *,
    worst: float | None = None,
    **panels: Any,
) -> Figure:
    """Draw gaps of `LEAST` nats and more against a cost, a panel for each target.

    Parameters
    ----------
    results : the records of runs. line_styles : a line style for each method. cost : the column of the
        horizontal axis. label : its name. worst : the largest gap that is drawn, nats, or None.
    panels : further arguments of `drawing.panels`.
    """
    shown = results.assign(elbo_gap=results["elbo_gap"].clip(LEAST, worst))
    figure, axes, targets = drawing.panels(shown, **panels)
    for ax, rows in targets:
        drawing.curves(
            ax, rows, cost, "elbo_gap", by="method", lines=line_styles, steps=False,
            x_scale="log", y_scale="log", x_label=label, y_label="",
        )  # fmt: skip
        if cost == "evaluations":
            drawing.label_budgets(ax, shown["budget"].dropna().astype(int))
    for ax in axes[:, 0]:
        ax.set_ylabel("ELBO gap (nats)")
    drawing.mark_ends(axes.flat, LEAST, worst)
    drawing.legend_below(figure, axes, columns=3)
    return figure


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the gaps."""
    return [gaps(results)]


def gaps(results: pd.DataFrame) -> Table:
    """The gap at each budget, and the worst seed."""
    rows = results.dropna(subset=["budget"]).assign(budget=lambda t: t["budget"].astype(int))
    by = ("target", "method", "budget")
    frame = quartiles(rows, {"elbo_gap": "ELBO gap (nats)", "seconds": "seconds"}, by=by, digits=2)
    worst = rows.groupby(list(by), sort=False)["elbo_gap"].max().reset_index(drop=True)
    frame["worst seed"] = worst.map("{:.2g}".format)
    return Table("gaps", frame, "Median [quartiles] over seeds at each budget, and the worst seed's gap.")


def within_budgets(results: pd.DataFrame) -> pd.DataFrame:
    """The records of at most 50 and at most 200 evaluations, of which the last counts.

    Parameters
    ----------
    results : the records of runs; those of `at_budgets` may be beyond a budget.
    """
    return pd.concat([results[results["evaluations"] <= b].assign(budget=b) for b in (50, 200)])


CLAIMS = (
    Statement("7.3.2", "A process on the evaluations of all steps saves evaluations of the log joint.",
              "untuned it has a smaller gap after at most 50 or 200 evaluations than natural gradients and "
              "Adam, tuned for as many",
              "elbo_gap", {"BQ, 2 nodes": list(STEPPED)}, shown="gap", rows=within_budgets),
)  # fmt: skip
"""By method, for each target and budget."""

experiment = Experiment(
    name="bq-inference",
    title="Inference with a surrogate",
    summary="""Which ELBO gap does Bayesian quadrature with memory reach, untuned? Natural gradients and
    Adam have the best step size and number of samples for each budget and target.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(CLAIMS, by="method", each=("target", "budget")),
)
