"""The ELBO's gradient: Bayesian quadrature and Monte Carlo on two targets, a small form of `bq-one-shot`."""

from __future__ import annotations

import pandas as pd

from experiments.gradients import one_shot
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, grid
from experiments.harness.statements import Statement, only

__all__ = ["experiment"]

_TARGETS = ("banana", "logistic")
_ESTIMATORS = ("score, optimal baseline", "pathwise", one_shot.STL, one_shot.DEFAULT)
_SIZES = (5, 10, 20)
_POINTS = 2**16
"""Quasi-random points of the reference: its error is a thousandth of that of twenty draws."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each estimator on each target, midway to the optimum."""
    targets, points = (_TARGETS[:1], 2**14) if quick else (_TARGETS, _POINTS)
    shared = {"sizes": _SIZES, "points": points}
    return grid("{target}: {estimator}", shared, target=targets, place=("midway",), estimator=_ESTIMATORS)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the squared error of the gradient against evaluations."""
    figure, axes, panels = drawing.panels(results, "target", columns=2, size=(3.4, 2.6), sharex=True)
    for ax, rows in panels:
        drawing.curves(
            ax, rows, "n", "squared", by="estimator", steps=False, x_scale="log", y_scale="log",
            x_label="evaluations of the log joint", y_label="",
        )  # fmt: skip
        drawing.label_budgets(ax, results["n"])
    axes[0, 0].set_ylabel("squared error of the gradient")
    drawing.legend_below(figure, axes, columns=2)
    caption = (
        "Squared error of the ELBO's gradient, in units whitened by q, against evaluations; q is midway to "
        f"the optimum. {drawing.band_caption(results)}"
    )
    return [Drawing("error", figure, caption)]


_CLAIMS = (
    Statement("7.3.2", "Bayesian quadrature estimates the ELBO's gradient more accurately than "
              "Monte Carlo does from as many evaluations.",
              f"its squared error at n = {max(_SIZES)} is below that of each other estimator",
              "squared", {one_shot.DEFAULT: _ESTIMATORS[:-1]}, rows=only("n", max(_SIZES))),
)  # fmt: skip

experiment = Experiment(
    name="short-gradients",
    title="In short: gradients of the ELBO",
    summary="""How accurate is the ELBO's gradient from a few evaluations of the log joint, by the score
    function, by reparameterised draws and by Bayesian quadrature? `bqvi run bq-one-shot` is the whole
    study.""",
    cases=_cases,
    run=one_shot.run,
    draw=_draw,
    claims=statements.of(_CLAIMS, by="estimator", each="target"),
    seeds=20,
)
