"""Inference with a surrogate: the effect of each part, which is left out or changed one at a time.

trust region   KL radius .3, 1 (the default), 5, none
memory         none; the 40 most recent; 500 (the default: all of them here)
jitter         1e-8, 1e-6 (the default), 1e-4
nodes          integral-variance reduction (the default), antithetic-orthogonal, independent, uncertainty
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.designs import AntitheticOrthogonal, Independent
from bqvi.gradients.surrogates import OnGradients
from experiments.gradients.inference import LEAST
from experiments.gradients.references import problem
from experiments.gradients.runs import surrogate_run
from experiments.gradients.uncertain_nodes import GradientUncertainty
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, grid
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles

__all__ = ["experiment"]

_NAMES = ("banana", "logistic", "wine", "schools-noncentred")
_DEFAULT = "default"
_RECORDS = (30, 50, 75)
_LAST = 100
_WORST = 1e6
"""The largest gap that is drawn; larger ones are drawn as this."""


@dataclass(frozen=True)
class _Change:
    """One part changed."""

    part: str
    make: Callable[[], BayesianQuadrature] = field(default=BayesianQuadrature)
    radius: float = 1.0


_CHANGES: Mapping[str, _Change] = {
    _DEFAULT: _Change(_DEFAULT),
    "KL 0.3": _Change("trust region", radius=0.3),
    "KL 5": _Change("trust region", radius=5.0),
    "no trust region": _Change("trust region", radius=1e300),
    "no memory": _Change("memory", lambda: BayesianQuadrature(nodes=10, memory=0)),
    "40 most recent": _Change("memory", lambda: BayesianQuadrature(memory=40)),
    "jitter 1e-8": _Change("jitter", lambda: BayesianQuadrature(process=OnGradients(jitter=1e-8))),
    "jitter 1e-4": _Change("jitter", lambda: BayesianQuadrature(process=OnGradients(jitter=1e-4))),
    "antithetic": _Change("nodes", lambda: BayesianQuadrature(design=AntitheticOrthogonal())),
    "independent": _Change("nodes", lambda: BayesianQuadrature(design=Independent())),
    "uncertainty": _Change("nodes", lambda: BayesianQuadrature(design=GradientUncertainty())),
}
_QUICK = (_DEFAULT, "KL 5", "no memory")
_LINE_STYLES = drawing.line_styles(_CHANGES)


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each change on each target."""
    names, chosen, last = (("banana",), _QUICK, 50) if quick else (_NAMES, tuple(_CHANGES), _LAST)
    return grid("{target}: {change}", {"last": last}, target=names, change=chosen)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gap and costs along the run."""
    change, last = _CHANGES[case.settings["change"]], case.settings["last"]
    records = [n for n in _RECORDS if n < last]
    return surrogate_run(
        problem(case.settings["target"]), seed, last, change.make(), radius=change.radius, records=records
    )


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw a row for each part, a column for each target."""
    names = list(results["target"].unique())
    parts = {p: [c for c, made in _CHANGES.items() if made.part == p] for p in _parts(results)}
    figure, axes = drawing.figure(len(parts), len(names), size=(2.6, 2.1), sharex=True, sharey="col")
    shown = results.assign(elbo_gap=results["elbo_gap"].clip(LEAST, _WORST))
    for row, (part, changes) in zip(axes, parts.items(), strict=True):
        for ax, name in zip(row, names, strict=True):
            rows = shown[(shown["target"] == name) & shown["change"].isin([_DEFAULT, *changes])]
            drawing.curves(
                ax, rows, "evaluations", "elbo_gap", by="change", lines=_LINE_STYLES, steps=False,
                x_scale="log", y_scale="log", x_label="", y_label="",
            )  # fmt: skip
        row[0].set_ylabel(f"{part}\nELBO gap (nats)")
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(name)
    for ax in axes[-1]:
        ax.set_xlabel("evaluations")
        drawing.label_budgets(ax, (20, 50, _LAST))
    drawing.mark_ends(axes.flat, LEAST, _WORST)
    drawing.legend_below(figure, axes, columns=5)
    caption = f"ELBO gap with one part changed at a time. {drawing.band_caption(results)}"
    return [Drawing("gaps", figure, caption)]


def _parts(results: pd.DataFrame) -> list[str]:
    present = set(results["change"])
    found = [made.part for change, made in _CHANGES.items() if change in present and change != _DEFAULT]
    return list(dict.fromkeys(found))


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the gaps midway and at the end."""
    made = []
    for name, n in (("gaps-midway", 50), ("gaps-at-the-end", _LAST)):
        rows = results[results["evaluations"] <= n + 5].groupby(["case", "seed"], sort=False).tail(1)
        frame = quartiles(rows, {"elbo_gap": "ELBO gap (nats)"}, by=("target", "change"), digits=2)
        frame["worst seed"] = [
            f"{group['elbo_gap'].max():.2g}" for _, group in rows.groupby(["target", "change"], sort=False)
        ]
        caption = f"Median [quartiles] over seeds, and the worst seed, after at most {n} evaluations."
        made.append(Table(name, frame, caption))
    return made


_CLAIMS = tuple(
    Statement("7.3.2", statement,
              f"the gap after {_LAST} evaluations is below that with {' and '.join(changes)}",
              "elbo_gap", {_DEFAULT: changes}, shown="gap")
    for statement, changes in (
        ("Evaluations of earlier steps are worth keeping.", ["no memory"]),
        ("All of them are, not the most recent alone.", ["40 most recent"]),
        ("Steps on a surrogate need a trust region.", ["no trust region"]),
        ("Nodes that lower the variance of the integral are better than drawn ones.",
         ["antithetic", "independent"]),
        ("They are better than those where the gradient is least certain.",
         ["uncertainty"]),
    )
)  # fmt: skip

experiment = Experiment(
    name="bq-ablations",
    title="The effect of each part of the surrogate",
    summary="""How large is the effect of each part of Bayesian quadrature with memory on the gap? One part is
        taken away or changed at a time: the trust region, the rule of the memory, the jitter, the
        choice of nodes.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="change", each="target"),
)
