"""Quadrature: relative error against evaluations, on twelve integrands of D = 1 to 10.

Integrals that are known in closed form (`experiments.problems.integrands`), against a Gaussian. Recorded are
the relative error |estimate - truth| / |truth| after n evaluations, and its ratio to the error of a scrambled
Sobol sequence of the same n, which is the median over `_SCRAMBLINGS` scramblings. The ratio is averaged over
problems by its geometric mean, in which halving one error offsets doubling another.

Five seeds decide claims. `bqvi run quadrature-error --seeds 20` narrows the bands
(five minutes on two cores); other integrands of `experiments.problems.integrands` are added by name in
`_PROBLEMS`, and D = 10 with n = 160 in `_BUDGETS`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.quadrature.runs import (
    BASELINE,
    LABELS,
    LINE_STYLES,
    against_truth,
    estimates,
    known,
    method_cases,
)

__all__ = ["draw", "experiment", "run"]

_PROBLEMS = (
    "bump 1",
    "bump, full covariance 2",
    "Genz oscillatory 2",
    "Genz discontinuous 2",
    "banana 2",
    "cosine 3",
    "narrow likelihood 3",
    "exponential 4",
    "probit 5",
    "logistic ELBO 5",
    "bump 10",
    "logistic ELBO 10",
)
_QUICK_PROBLEMS = ("bump 1", "Genz discontinuous 2", "narrow likelihood 3")
_METHODS = tuple(LABELS)
_BUDGETS = (10, 20, 40, 80)
_SCRAMBLINGS = 40
_LEAST = 1e-15
"""Smaller errors are due to rounding and count as this: a geometric mean with an error of zero would be
zero."""


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return every method on every integrand that suits it."""
    problems, budgets = (_QUICK_PROBLEMS, _BUDGETS[:3]) if quick else (_PROBLEMS, _BUDGETS)
    return method_cases(problems, _METHODS, budgets)


@cache
def _typical_error(name: str, budgets: tuple[int, ...]) -> np.ndarray:
    """Return the median relative error of scrambled Sobol at each of ``budgets``."""
    problem = known()[name]
    errors = [
        np.abs(
            estimates(problem.function, problem.measure, BASELINE, budgets, 1000 + s)["mean"] - problem.truth
        )
        for s in range(_SCRAMBLINGS)
    ]
    return np.median(errors, axis=0) / abs(problem.truth)


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return relative errors at each n, and their ratios to that of scrambled Sobol."""
    rows = against_truth(case, seed)
    typical = _typical_error(case.settings["problem"], tuple(case.settings["budgets"]))
    relative = rows["relative"].clip(lower=_LEAST)
    return rows.assign(relative=relative, ratio=relative / typical)


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw a panel for each integrand."""
    figure, axes, panels = drawing.panels(
        results, "problem", columns=4 if results["problem"].nunique() > 4 else 2, size=(2.7, 2.2), sharex=True
    )
    for ax, rows in panels:
        drawing.curves(
            ax, rows, "n", "relative", by="method", lines=LINE_STYLES, steps=False,
            x_scale="log", y_scale="log", x_label="", y_label="",
        )  # fmt: skip
        drawing.label_budgets(ax, results["n"])
    for ax in axes[:, 0]:
        ax.set_ylabel("relative error")
    for ax in axes[-1]:
        ax.set_xlabel("evaluations")
    drawing.legend_below(figure, axes, columns=6 if axes.shape[1] > 2 else 3)
    caption = (
        "Relative error of the integral; the number in the name is the dimension. "
        f"{drawing.band_caption(results)} WSABI is for integrands that are nowhere negative."
    )
    return [Drawing("error", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate ratios to scrambled Sobol at the last n."""
    last = results[results["n"] == results["n"].max()]
    typical = last.groupby(["method", "problem", "kind", "dimension"], sort=False)["ratio"].median()
    ratios = typical.reset_index()
    n = int(last["n"].max())
    each = ratios.pivot(index="problem", columns="method", values="ratio")
    each = each.reindex(index=ratios["problem"].unique(), columns=ratios["method"].unique())
    what = f"error / (median error of scrambled Sobol), n = {n}, median over seeds"
    return [
        Table("geometric-means", _geometric_means(ratios), f"Geometric mean of {what}; and the largest."),
        Table("ratios", each.map("{:.2g}".format).replace("nan", "").reset_index(), f"{what}."),
    ]


def _geometric_means(ratios: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for method, group in ratios.groupby("method", sort=False):
        smooth = group[group["kind"].isin(["smooth", "peaky"]) & (group["dimension"] <= 5)]
        worst = group.iloc[int(group["ratio"].argmax())]
        rows.append(
            {
                "method": method,
                "problems": len(group),
                "all": f"{_geometric_mean(group['ratio']):.2g}",
                "smooth and peaky, D <= 5": f"{_geometric_mean(smooth['ratio']):.2g}",
                "largest": f"{worst['ratio']:.2g} ({worst['problem']})",
            }
        )
    return pd.DataFrame(rows)


def _geometric_mean(values: pd.Series[float]) -> float:
    return float(np.exp(np.log(values).mean())) if len(values) else float("nan")


def _last(results: pd.DataFrame) -> pd.DataFrame:
    return results[results["n"] == results["n"].max()]


_CLAIMS = (
    Statement("7.2.2",
              "Bayesian quadrature integrates more accurately than simple Monte Carlo and Sobol points.",
              "its error at the last n is smaller", "relative",
              {LABELS["bq"]: [LABELS["monte-carlo"], LABELS[BASELINE]]}, rows=_last),
    Statement("7.2.2", "Warping by a square root represents likelihoods better.",
              "WSABI-L has a smaller error than Bayesian quadrature", "relative",
              {LABELS["wsabi-l"]: [LABELS["bq"]]}, rows=_last),
)  # fmt: skip


experiment = Experiment(
    name="quadrature-error",
    title="Quadrature: error against evaluations",
    summary="""How many evaluations does an integral take by simple Monte Carlo, scrambled Sobol points,
        Bayesian quadrature and WSABI? The integrals are known.""",
    cases=_cases,
    run=run,
    draw=draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="method", each="problem"),
    seeds=5,
    quick_seeds=1,
)
