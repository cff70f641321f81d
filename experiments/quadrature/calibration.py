"""Quadrature: whether standard deviations are calibrated.

If an estimate Z with standard deviation s is calibrated, (truth - Z)/s is a standard normal
variable over problems and seeds: 95 % of truths are within two standard deviations, and

    PIT = Phi((truth - Z) / s)

is uniform on [0, 1]. The calibration curve shows the share of truths in the central interval that
should hold a share c of them, for each c. The share within two standard deviations alone does not show that
standard deviations are too large: with ones ten times too large all truths are within.

All integrands of `experiments.problems.integrands` are used except three of D = 10, which take as long as ten
others. `bqvi run quadrature-calibration --seeds 12` gives the shares to within .02 (three minutes on two
cores). WSABI-M, which has the nodes of WSABI-L and almost its estimates, can be added to `runs.STATING_SD`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import ndtr
from scipy.stats import beta

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.quadrature.runs import (
    BUDGETS,
    LABELS,
    LINE_STYLES,
    STATING_SD,
    against_truth,
    known,
    method_cases,
)

__all__ = ["experiment"]

_LEFT_OUT = ("bump 10", "additive 10", "logistic ELBO 10")
_QUICK_PROBLEMS = ("bump 1", "bump, full covariance 2", "Genz oscillatory 2", "half space 3")


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return every method with a standard deviation on every integrand that suits it."""
    if quick:
        return method_cases(_QUICK_PROBLEMS, STATING_SD, BUDGETS[:2])
    return method_cases([name for name in known() if name not in _LEFT_OUT], STATING_SD, BUDGETS)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return standardised errors and their probability integral transforms."""
    rows = against_truth(case, seed)
    z = -rows["error"] / rows["sd"]
    return rows.assign(z=z, pit=ndtr(z))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw shares within two standard deviations, calibration curves and a histogram of the PIT."""
    figure, axes = drawing.figure(1, 3, size=(3.4, 3.0))
    _draw_shares(axes[0, 0], results)
    _curves(axes[0, 1], results)
    _histogram(axes[0, 2], results)
    drawing.legend_below(figure, axes, columns=6)
    caption = (
        "Left: share of truths within two standard deviations, with 90 % intervals; the grey band is .90 to "
        ".99. Middle: share of truths in central intervals against the nominal share, all n; above "
        "the diagonal, standard deviations are too large. Right: the probability integral transform of the "
        f"truth, all n. {_counts(results)}"
    )
    return [Drawing("calibration", figure, caption)]


def _counts(results: pd.DataFrame) -> str:
    return (
        f"{results['problem'].nunique()} integrands (those nowhere negative for WSABI), "
        f"{results['seed'].nunique()} seeds."
    )


def _draw_shares(ax: Axes, results: pd.DataFrame) -> None:
    ax.axhspan(0.90, 0.99, color="0.85", lw=0)
    methods = list(results["method"].unique())
    for i, method in enumerate(methods):
        rows = results[results["method"] == method]
        inside = (rows["z"].abs() <= 2).groupby(rows["n"])
        hits, total = inside.sum(), inside.count()
        share = hits / total
        low, high = (
            beta.ppf(0.05, hits + 0.5, total - hits + 0.5),
            beta.ppf(0.95, hits + 0.5, total - hits + 0.5),
        )
        x = share.index.to_numpy() * (1 + 0.04 * (i - (len(methods) - 1) / 2))
        ax.errorbar(
            x, share, yerr=[np.maximum(share - low, 0), np.maximum(high - share, 0)], label=method, fmt="o-",
            color=LINE_STYLES[method].colour, ms=3, lw=1,
        )  # fmt: skip
    ax.set_xscale("log")
    drawing.label_budgets(ax, results["n"])
    ax.set(xlabel="evaluations", ylabel="share within two sd", title="two standard deviations")
    ax.set_ylim(top=1.02)


def _curves(ax: Axes, results: pd.DataFrame) -> None:
    level = np.linspace(0, 1, 101)
    ax.plot(level, level, color="0.6", lw=0.8)
    for method, rows in results.groupby("method", sort=False):
        central = np.abs(2 * rows["pit"].to_numpy() - 1)
        share = np.mean(central[:, None] <= level, axis=0)
        ax.plot(level, share, color=LINE_STYLES[method].colour, label=str(method))
    ax.set(xlabel="central interval", ylabel="share of truths inside", title="calibration curve")


def _histogram(ax: Axes, results: pd.DataFrame) -> None:
    bins = np.linspace(0, 1, 11)
    ax.axhline(1, color="0.6", lw=0.8)
    for method, rows in results.groupby("method", sort=False):
        density, _ = np.histogram(rows["pit"], bins=bins, density=True)
        ax.stairs(density, bins, color=LINE_STYLES[method].colour, label=str(method))
    ax.set(xlabel="PIT of the truth", ylabel="density", title="probability integral transform")


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the shares, in all and by integrand."""
    inside = (results["z"].abs() <= 2).rename("inside")
    shares = inside.groupby([results["method"], results["n"]], sort=False).mean().unstack()
    frame = shares.reindex(results["method"].unique()).map("{:.2f}".format)
    frame.columns = [f"n = {n}" for n in frame.columns]
    frame["runs"] = results.groupby("method", sort=False)["n"].count() // results["n"].nunique()
    converged = results.groupby("method", sort=False)["converged"].mean()
    frame["converged"] = converged.map("{:.2f}".format)
    caption = f"Share of truths within two standard deviations. {_counts(results)}"
    return [Table("shares", frame.reset_index(), caption), _misses(results)]


def _misses(results: pd.DataFrame) -> Table:
    mine = results[results["method"] == LABELS["bq"]]
    rows = []
    for problem, group in mine.groupby("problem", sort=False):
        z = group["z"].abs()
        rows.append(
            {"problem": problem, "within 2 sd": f"{(z <= 2).mean():.2f}", "largest |z|": f"{z.max():.1f}"}
        )
    frame = pd.DataFrame(rows, columns=["problem", "within 2 sd", "largest |z|"])
    return Table("problems", frame, "Bayesian quadrature by integrand, over n and seeds; z = error / sd.")


def _shares(results: pd.DataFrame) -> pd.DataFrame:
    """The share of truths within two standard deviations; an integrand counts as a seed does elsewhere."""
    inside = results.assign(
        inside=1.0 * (results["z"].abs() <= 2.0),
        seed=results["problem"],
        n=results["n"].map("n = {}".format),
    )
    return inside.groupby(["method", "n", "seed"], sort=False)["inside"].mean().reset_index()


_CLAIMS = tuple(
    Statement("7.2.2", f"{LABELS[key]} states its error.",
              "the truth is within two standard deviations on .90 to .99 of the integrands, by a 95 % "
              "interval",
              "inside", [LABELS[key]], between=(0.9, 0.99), rows=_shares)
    for key in STATING_SD
)  # fmt: skip


experiment = Experiment(
    name="quadrature-calibration",
    title="Quadrature: calibration",
    summary="How often is the truth within the stated standard deviations of a quadrature?",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="method", each="n"),
    seeds=2,
    quick_seeds=1,
)
