"""Bayesian quadrature of the gradient: evaluations of earlier steps kept or not, along a path of q.

The path is `references.path`, the same for all: natural-gradient steps on quasi-random points, from the
start of each target towards its optimum. At every step each estimator is given n = 10 fresh evaluations and
estimates the gradient there; those with a memory have all earlier evaluations of the same log joint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd

from bqvi.gradients import BayesianQuadrature, Estimator, Pathwise, RememberingEstimator
from bqvi.gradients.designs import AntitheticOrthogonal
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame
from experiments.gradients.references import (
    POINTS,
    flat,
    moments,
    path,
    target_named,
    whitened,
)
from experiments.harness import drawing
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.harness.summaries import quartiles

NODES = 10
STL = "STL"
CHOICES: Mapping[str, Callable[[], Estimator]] = {
    STL: lambda: Pathwise(NODES, "sticking-the-landing"),
    "BQ, fresh only": lambda: BayesianQuadrature(
        NODES, AntitheticOrthogonal(), memory=0, process="separable"
    ),
    "BQ, memory": lambda: BayesianQuadrature(NODES, AntitheticOrthogonal(), initial_nodes=NODES),
}
STROKES = drawing.strokes(CHOICES)
NAMES = ("banana", "logistic", "mixture", "wine", "schools-centred", "schools-noncentred")
LAST = 15
"""Steps of the path that are looked at."""


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each estimator on each target."""
    del resources
    names, last = (("banana",), 4) if quick else (NAMES, LAST)
    return [
        Case(f"{name}: {choice}", {"target": name, "estimator": choice, "last": last})
        for name in names
        for choice in CHOICES
    ]


@cache
def truth(name: str, step: int) -> np.ndarray:
    """The whitened gradient at a step of the path, which all estimators and seeds share."""
    return flat(moments(target_named(name), WhitenedFrame.of(path(name)[step]), POINTS).y)


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the squared error of the whitened gradient at each step of the path."""
    name = case.settings["target"]
    target, estimator = target_named(name), CHOICES[case.settings["estimator"]]()
    model, rng, rows = target.model(), np.random.default_rng(seed), []
    remembering = isinstance(estimator, RememberingEstimator)
    memory = estimator.start(model, path(name)[0]) if isinstance(estimator, RememberingEstimator) else None
    for step, q in enumerate(path(name)[: case.settings["last"] + 1]):
        batch = Batch(None, 0)
        if remembering:
            found = estimator(model, q, batch, rng, memory)  # type: ignore[call-arg]
            memory = found.memory
        else:
            found = estimator(model, q, batch, rng)
        natural = found.values if found.natural else q.gradient_to_natural(found.values)
        error = whitened(q, natural) - truth(name, step)
        rows.append({"iteration": step, "squared": float(error @ error)})
    return pd.DataFrame(rows)


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw squared errors along the path."""
    figure, axes, panels = drawing.panels(results, sharex=True)
    for ax, rows in panels:
        drawing.curves(
            ax, rows, "iteration", "squared", by="estimator", lines=STROKES, steps=False, y_scale="log",
            x_label="step of the path", y_label="squared error",
        )  # fmt: skip
    drawing.legend_below(figure, axes)
    caption = (
        f"Squared error of the whitened gradient from {NODES} fresh evaluations at each step of one path. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("path", figure, caption)]


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate gains over sticking-the-landing at the middle and at the end of the path."""
    steps = sorted({10, int(results["iteration"].max())} & set(results["iteration"]))
    rows = results[results["iteration"].isin(steps)]
    typical = rows[rows["estimator"] == STL].groupby(["target", "iteration"])["squared"].mean()
    index = pd.MultiIndex.from_frame(rows[["target", "iteration"]])
    rows = rows.assign(gain=typical.reindex(index).to_numpy() / rows["squared"])
    frame = quartiles(rows, {"gain": "MSE(STL) / squared error"}, by=("target", "iteration", "estimator"))
    return [Table("gains", frame, "Median [lower quartile, upper quartile] over seeds.")]


experiment = Experiment(
    name="bq-reuse",
    title="Memory of evaluations, on and off",
    summary="""How much do evaluations of earlier steps improve the present estimate of the gradient?
        The log joint stays the same while q moves along one path from the start of each target to its
        optimum.""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
)
