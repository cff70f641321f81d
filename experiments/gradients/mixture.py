"""Inference with a surrogate: a mixture of unit covariances with z summed out, and with the E step inside.

Both forms are over the same theta, softmax weights and means (`bqvi.models.softmax_mixture`), the same data,
and have a Gaussian q(theta). With z summed out the log joint stays the same; with the E step inside it is a
bound, by the best q(z) under the present q(theta), and changes with it. Its best q(theta) differs, as q(z)
q(theta) is a smaller family. Every q(theta) is evaluated by one ELBO, that with z summed out:

    elbo_gap   of the best Gaussian's ELBO to this, z summed out in both
    own_gap    of the best value of the form's own bound to its value here
    passes     over the data: one an evaluation with z summed out, one a step with the E step inside, as
               f_r depends on the data through the statistics of the E step

Bayesian quadrature is untuned. Natural gradients have the step size and the number of samples that are best
for each budget with z summed out (`runs`), in both forms.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models.softmax_mixture import SoftmaxMixture
from experiments.gradients.inference import LEAST
from experiments.gradients.references import (
    POINTS,
    RATE,
    elbo,
    moments,
    moved,
    optimum,
    problem,
    target_named,
)
from experiments.gradients.runs import setting, stepped_run, surrogate_run
from experiments.harness import drawing, evidence
from experiments.harness.claims import Check, Claim
from experiments.harness.evidence import runs
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.harness.summaries import quartiles
from experiments.problems.gradient_targets import GradientTarget, mixture_data

__all__ = ["INSIDE", "STEPPED", "Best", "best_inside", "bound", "experiment", "model", "tables"]

_NAME = "mixture"
_SUMMED, INSIDE = "z summed out", "E step inside"
_FORMS = (_SUMMED, INSIDE)
_NODES = {"BQ, 2 nodes": 2, "BQ, 10 nodes": 10}
STEPPED = "natural gradient, STL"
_METHODS = (*_NODES, STEPPED)
_BUDGETS = (50, 100, 200, 500)
_LAST = 200
"""Of Bayesian quadrature."""
_RECORDS = (12, 14, 16, 18, 20, 25, 30, 40, 50, 70, 100, 150)
_MARGIN = 0.1
"""Nats below the ELBO of the best q with the E step inside: the level to which evaluations are counted."""
_STEPS = 100


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method on each form."""
    last, budgets = (40, (50,)) if quick else (_LAST, _BUDGETS)
    made = []
    for method in _METHODS:
        for form in _FORMS:
            settings: dict[str, Any] = {"form": form, "method": method, "what": f"{method}, {form}"}
            if method == STEPPED:
                settings["budgets"] = list(budgets)
                settings["tuned"] = [setting("natural", _NAME, budget) for budget in budgets]
            else:
                settings["last"] = last
            made.append(Case(f"{method}, {form}", settings))
    return made


_LINE_STYLES: Mapping[Hashable, drawing.LineStyle] = {
    f"{method}, {form}": drawing.LineStyle(drawing.COLOURS[i], drawing.DASHES[j])
    for i, method in enumerate(_METHODS)
    for j, form in enumerate(_FORMS)
}


@cache
def model() -> SoftmaxMixture:
    """With the E step inside."""
    return SoftmaxMixture(mixture_data()[0], 3)


def _held(q: Gaussian) -> GradientTarget:
    """The log joint at q, its q(z) held fixed."""
    return replace(target_named(_NAME), log_density=model().at(q).log_prior)


def bound(q: Gaussian) -> float:
    """E_q[f_r] + H[q] with the best r under q, nats."""
    return elbo(_held(q), WhitenedFrame.of(q))


@dataclass(frozen=True, eq=False)
class Best:
    """The best q(theta) with the E step inside."""

    q: Gaussian
    bound: float
    gap: float
    """The gap of its ELBO with z summed out to the best."""


@cache
def best_inside() -> Best:
    """By natural-gradient steps on `POINTS` points from the best Gaussian with z summed out."""
    q, rate, before = optimum(_NAME), RATE, np.inf
    for _ in range(_STEPS):
        frame = WhitenedFrame.of(q)
        y = moments(_held(q), frame, POINTS).y
        norm = float(y.mean @ y.mean + 0.5 * np.square(y.jacobian).sum())
        if norm < 1e-10:
            break
        rate = min(1.0, 1.2 * rate) if norm < before else 0.5 * rate
        q, before = moved(frame, y, rate), norm
    return Best(q, bound(q), problem(_NAME).gap(q))


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gaps and costs along the run, or at the end of each budget."""
    settings, posed = case.settings, problem(_NAME)
    inside = settings["form"] == INSIDE
    best = best_inside().bound if inside else posed.best
    options: dict[str, Any] = {
        "model": model() if inside else None,
        "metrics": {"own_gap": (lambda q: best - bound(q)) if inside else posed.gap},
    }
    if settings["method"] == STEPPED:
        choices = zip(settings["budgets"], settings["tuned"], strict=True)
        parts = [
            stepped_run(posed, seed, budget, "natural", size, int(samples), **options).tail(1)
            for budget, (size, samples) in choices
        ]
        found = pd.concat(parts)
    else:
        last, estimator = settings["last"], BayesianQuadrature(_NODES[settings["method"]])
        found = surrogate_run(
            posed, seed, last, estimator, records=[n for n in _RECORDS if n < last], **options
        )
    passes = found["iteration"] if inside else found["evaluations"]
    return found.assign(passes=passes, inside_gap=best_inside().gap)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap of the common ELBO against evaluations and passes, and that of each form's own bound."""
    figure, axes = drawing.figure(1, 3, size=(3.4, 3.0))
    shown = results.assign(
        elbo_gap=results["elbo_gap"].clip(lower=LEAST), own_gap=results["own_gap"].clip(lower=LEAST)
    )
    panels = (
        ("evaluations", "elbo_gap", "evaluations of the log joint", "ELBO gap, z summed out (nats)"),
        ("passes", "elbo_gap", "passes over the data", "ELBO gap, z summed out (nats)"),
        ("evaluations", "own_gap", "evaluations of the log joint", "gap of the own bound (nats)"),
    )
    for ax, (x, y, x_label, y_label) in zip(axes[0], panels, strict=True):
        drawing.curves(
            ax, shown, x, y, by="what", lines=_LINE_STYLES, steps=False, x_scale="log", y_scale="log",
            x_label=x_label, y_label=y_label,
        )  # fmt: skip
        if y == "elbo_gap":
            ax.axhline(results["inside_gap"].iloc[0], color="grey", linewidth=0.8)
    drawing.mark_ends(axes.flat, LEAST)
    drawing.legend_below(figure, axes, columns=3)
    caption = (
        "Left and middle: the ELBO with z summed out of the q(theta) of each run, below that of the best "
        "Gaussian; grey: where the best q(theta) with the E step inside is. Right: each form's own bound "
        f"below its best value. Gaps below {LEAST:g} are drawn as that; natural gradients are tuned for each "
        f"budget, a point each. {drawing.band_caption(results)}"
    )
    return [Drawing("gaps", figure, caption)]


def _summed(results: pd.DataFrame) -> tuple[float, pd.DataFrame]:
    """The level to which costs are counted, and a row for each run."""
    level = results["inside_gap"].iloc[0] + _MARGIN
    ends = runs(
        results.sort_values(["case", "seed", "evaluations"]), "elbo_gap", level, keep=("what", "own_gap")
    )
    passes = runs(
        results.assign(evaluations=results["passes"]).sort_values(["case", "seed", "evaluations"]),
        "elbo_gap", level,
    )  # fmt: skip
    return float(level), ends.assign(passes_to=passes["evaluations_to"])


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the costs to one ELBO, and the gaps at the end."""
    level, rows = _summed(results)
    columns = {
        "evaluations_to": "evaluations", "passes_to": "passes over the data", "seconds_to": "seconds",
        "elbo_gap": "ELBO gap at the end (nats)", "own_gap": "own gap at the end (nats)",
    }  # fmt: skip
    order = [what for what in _LINE_STYLES if (rows["what"] == what).any()]
    rows = rows.assign(what=pd.Categorical(rows["what"], order)).sort_values(["what", "seed"])
    frame = quartiles(rows.assign(what=rows["what"].astype(str)), columns, by=("what",))
    caption = (
        f"Costs to the same ELBO, {_MARGIN:g} nats below that of the best q(theta) with the E step inside, "
        f"which is {level - _MARGIN:.3g} nats below the best Gaussian's: the first record from which a run "
        "stays above. Median [quartiles] over seeds; inf: never."
    )
    return [Table("costs", frame, caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check which form, and which method, needs fewer evaluations or passes."""
    table = _summed(results)[1]

    def fewer(one: str, other: str, cost: str) -> Check:
        return evidence.less(table, one, other, f"{cost}_to", one, shown=cost)

    methods = [(f"{name}, {form}", f"{STEPPED}, {form}") for name in _NODES for form in _FORMS]
    forms = [(f"{name}, {INSIDE}", f"{name}, {_SUMMED}") for name in _METHODS]
    return [
        Claim(
            "7.3.2",
            "Quadrature that remembers evaluations needs fewer of a mixture than tuned natural gradients.",
            "it stays within the level after fewer evaluations",
            [fewer(one, other, "evaluations") for one, other in methods],
        ),
        Claim(
            "5.3, 7.3.2",
            "With the E step inside, a mixture takes fewer passes over the data.",
            "it stays within the level after fewer passes than with z summed out",
            [fewer(one, other, "passes") for one, other in forms],
        ),
    ]


experiment = Experiment(
    name="bq-mixture",
    title="A mixture with softmax weights: z summed out, or the E step inside",
    summary="""How many evaluations does Bayesian quadrature with memory take to the same ELBO of a mixture,
    with the E step inside the log joint and with z summed out? With the E step the log joint changes at
    every step, but its value at old points needs no pass over the data.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=tables,
    claims=_claims,
)
