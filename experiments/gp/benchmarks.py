"""Gaussian process regression beside scikit-learn and BoTorch, on the diabetes set.

A seed is a split. In units of the training targets' standard deviation, with predicted mean m_i and
standard deviation s_i of the test targets y_i,

    RMSE      root mean square of y_i - m_i
    NLPD      mean of 1/2 z_i^2 + log s_i + 1/2 log 2 pi,   z_i = (y_i - m_i) / s_i
    coverage  share of |z_i| < 1.96, 95 % if the predictions are calibrated

(`gp-benchmarks-folder` does the same on any folder of sets.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from typing import Any

import numpy as np
import pandas as pd

from experiments.gp.regressors import REGRESSORS, Predictions
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.problems.regression_sets import RegressionSet, Split, diabetes

__all__ = ["QUICK_ROWS", "cases_of", "claims", "draw", "experiment", "scores", "tables"]

_COLUMNS = {
    "rmse": "RMSE (sd of targets)",
    "nlpd": "negative log density (nats)",
    "coverage": "in the 95 % band",
    "fit_seconds": "fit (s)",
}
QUICK_ROWS = 80


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return one case for each package."""
    return cases_of("diabetes", {"rows": QUICK_ROWS if quick else None})


def cases_of(name: str, settings: dict[str, Any], **options: Any) -> list[Case]:
    """Return the packages' cases on the set called `name`; `options` go to `Case`."""
    return [
        Case(f"{name}, {method}", {"set": name, "method": method, **settings}, **options)
        for method in REGRESSORS
    ]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return one row: the errors on split `seed`."""
    return scores(case, diabetes(), seed)


def scores(case: Case, data: RegressionSet, seed: int) -> pd.DataFrame:
    """Return the errors of a case's regressor on a split of a set, in units of the training targets."""
    split = data.split(seed, case.settings["rows"])
    unit = float(np.std(split.y))
    found = REGRESSORS[case.settings["method"]](split)
    return pd.DataFrame([{"n": len(split.y), "dimension": split.x.shape[1], **_errors(split, found, unit)}])


def _errors(split: Split, found: Predictions, unit: float) -> dict[str, float]:
    error, sd = (split.y_test - found.mean) / unit, found.sd / unit
    z = error / sd
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nlpd": float(np.mean(0.5 * z**2 + np.log(sd)) + 0.5 * log(2 * pi)),
        "coverage": float(np.mean(np.abs(z) < 1.96)),
        "fit_seconds": found.fit_seconds,
    }


def draw(results: pd.DataFrame) -> Sequence[Drawing]:
    """Draw every split as a point, the packages side by side."""
    sets = list(results["set"].unique())
    figure, axes = drawing.figure(1, 3, size=(3.4, 1.2 + 0.65 * len(sets)), sharey=True)
    line_styles = drawing.line_styles(REGRESSORS)
    for ax, (column, label) in zip(axes.flat, _COLUMNS.items(), strict=False):
        for place, name in enumerate(sets):
            for shift, method in enumerate(REGRESSORS):
                rows = results[(results["set"] == name) & (results["method"] == method)]
                height = place + 0.25 * (shift - 1)
                _strip(ax, rows[column], height, line_styles[method].colour, method)
        ax.set_xlabel(label)
        ax.locator_params(axis="x", nbins=4)
    axes[0, 2].axvline(0.95, color="grey", lw=0.8, linestyle="--")
    axes[0, 0].set_yticks(range(len(sets)), sets)
    axes[0, 0].set_ylim(len(sets) - 0.5, -0.5)
    drawing.legend_below(figure, axes)
    caption = (
        "Errors on held-out rows: a faint point for each split, a bar at the median. RMSE and density in "
        "units of the training targets' standard deviation; the dashed line is at 95 %."
    )
    return [Drawing("errors", figure, caption)]


def _strip(ax: Any, values: pd.Series[float], height: float, colour: str, label: str) -> None:
    ax.plot(values, np.full(len(values), height), "o", color=colour, alpha=0.35, ms=3, mew=0)
    ax.plot([values.median()], [height], "|", color=colour, ms=10, mew=2, label=label)


def tables(results: pd.DataFrame) -> Sequence[Table]:
    """Tabulate medians and quartiles over the splits."""
    frame = quartiles(results, _COLUMNS, by=("set", "method"))
    frame = frame.rename(columns={"seeds": "splits"})
    caption = (
        "Median [quartiles] over the splits, in units of the training targets' standard deviation. Seconds "
        "are of one thread; runs that share a machine slow each other down."
    )
    return [Table("errors", frame, caption)]


_OURS, *_PEERS = REGRESSORS
_CLAIMS = (
    Statement("bqvi", "The defaults of gp.fit predict as well as those of scikit-learn and BoTorch.",
              "on each split the RMSE is less than 1.02 times theirs",
              "rmse", {_OURS: _PEERS}, factor=1.02, shown="RMSE"),
    Statement("bqvi", "The defaults of gp.fit state their error.",
              "95 % intervals hold in 93 to 97 % of the test rows, mean over splits",
              "coverage", [_OURS], between=(0.93, 0.97)),
)  # fmt: skip

claims = statements.of(_CLAIMS, by="method", each="set")
"""For each set."""

experiment = Experiment(
    name="gp-benchmarks",
    title="Gaussian process regression beside its peers",
    summary="""How accurate is Gaussian process regression with the defaults of gp.fit, of
        scikit-learn's GaussianProcessRegressor and of BoTorch's SingleTaskGP, all with the same kernel? On
        ten splits of the diabetes set.""",
    cases=_cases,
    run=_run,
    draw=draw,
    tables=tables,
    claims=claims,
    seeds=10,
    quick_seeds=2,
)
