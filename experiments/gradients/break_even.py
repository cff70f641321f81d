"""Inference with a surrogate: the cost of an evaluation above which it takes less time.

Each evaluation of the log joint, with its gradient, is extended by a given time, by waiting, for every draw
of a batch. Bayesian quadrature and the natural gradient of `runs`, tuned for each budget, run until the gap
stays below `_LEVEL` nats, and the seconds of their steps are compared. The break-even cost is where the ratio
of the medians crosses 1, on a logarithmic scale.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from bqvi.gradients import BayesianQuadrature
from bqvi.models import LogJoint
from experiments.gradients.references import problem, target_named
from experiments.gradients.runs import (
    BUDGETS,
    setting,
    stepped_run,
    surrogate_run,
)
from experiments.harness import drawing, statements
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.harness.statements import Statement, only

__all__ = ["experiment"]

_NAMES = ("logistic", "wine")
_NODES = {"BQ, 2 nodes": 2, "BQ, 10 nodes": 10}
_METHODS = (*_NODES, "natural gradient, STL")
_LINE_STYLES = drawing.line_styles(_METHODS)
_COSTS = (0.0, 0.3, 1.0, 3.0)
"""The added costs of an evaluation, in milliseconds."""
_LEVEL = 0.1
_MOST = 200
"""The number of evaluations of the methods with a surrogate."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method at each cost on each target."""
    names, costs = (("banana",), (0.0, 1.0)) if quick else (_NAMES, _COSTS)
    most, budgets = (30, (50,)) if quick else (_MOST, BUDGETS)
    return [
        Case(
            f"{name}, {cost:g} ms: {method}",
            {"target": name, "cost_ms": cost, "method": method}
            | ({"most": most} if method in _NODES else _tuned(name, budgets)),
        )
        for name in names
        for cost in costs
        for method in _METHODS
    ]


def _tuned(name: str, budgets: Sequence[int]) -> dict[str, Any]:
    """The budgets of the natural gradient, with the step size and samples of each."""
    return {"budgets": list(budgets), "tuned": [setting("natural", name, budget) for budget in budgets]}


def _slowed(name: str, cost_ms: float) -> LogJoint:
    """The target's log joint with a cost added to each evaluation."""
    target = target_named(name)

    def log_density(theta: torch.Tensor) -> torch.Tensor:
        until = time.perf_counter() + 1e-3 * cost_ms * len(theta)
        value = target.log_density(theta)
        while time.perf_counter() < until:
            pass
        return value

    return replace(target, log_density=log_density).model()


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return evaluations and seconds to the level; infinite if it was not reached."""
    name, cost, method = (case.settings[key] for key in ("target", "cost_ms", "method"))
    model = _slowed(name, cost)
    if method in _NODES:
        evaluations, seconds = _surrogate(name, model, _NODES[method], case.settings["most"], seed)
    else:
        choices = zip(case.settings["budgets"], case.settings["tuned"], strict=True)
        evaluations, seconds = _natural(name, model, choices, seed)
    return pd.DataFrame([{"evaluations": evaluations, "seconds": seconds}])


def _surrogate(name: str, model: LogJoint, nodes: int, most: int, seed: int) -> tuple[float, float]:
    """Evaluations and seconds of the first record from which the gap stays below."""
    records = range(20, most, 10)
    found = surrogate_run(problem(name), seed, most, BayesianQuadrature(nodes), model=model, records=records)
    above = np.flatnonzero(found["elbo_gap"].to_numpy() > _LEVEL)
    first = above[-1] + 1 if len(above) else 0
    if first >= len(found):
        return float("inf"), float("inf")
    row = found.iloc[int(first)]
    return float(row["evaluations"]), float(row["seconds"])


def _natural(
    name: str, model: LogJoint, choices: Iterable[tuple[int, Sequence[float]]], seed: int
) -> tuple[float, float]:
    """Evaluations and seconds of the smallest budget whose run ends below."""
    for budget, (size, samples) in choices:
        last = stepped_run(problem(name), seed, budget, "natural", size, int(samples), model=model).iloc[-1]
        if last["elbo_gap"] <= _LEVEL:
            return float(last["evaluations"]), float(last["seconds"])
    return float("inf"), float("inf")


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw seconds against the cost added."""
    # a case is a method at a cost of an evaluation; the costs are the axis here
    figure, axes, panels = drawing.panels(results.assign(case=results["method"]))
    for ax, rows in panels:
        drawing.curves(
            ax, rows, "cost_ms", "seconds", by="method", lines=_LINE_STYLES, steps=False, x_scale="symlog",
            y_scale="log", linthresh=0.3, x_label="added cost of an evaluation (ms)",
            y_label=f"seconds to a gap of {_LEVEL:g} nats",
        )  # fmt: skip
    drawing.legend_below(figure, axes)
    caption = (
        f"Seconds of the steps until the gap stays below {_LEVEL:g} nats, against the time added to each "
        f"evaluation. {drawing.band_caption(results)}"
    )
    return [Drawing("seconds", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate medians, and the break-even cost of each surrogate."""
    median = results.groupby(["target", "method", "cost_ms"], sort=False)[["evaluations", "seconds"]].median()
    wide = median["seconds"].unstack("cost_ms")
    evaluations = median["evaluations"].unstack("cost_ms").iloc[:, 0]
    rows = []
    for target, method in wide.index:
        line = {"target": target, "method": method, "evaluations": evaluations[target, method]}
        line |= {f"{cost:g} ms": f"{wide.loc[(target, method), cost]:.2g} s" for cost in wide.columns}
        other = (target, _METHODS[-1])  # absent while runs are missing
        line["breaks even at"] = (
            _crossing(wide.loc[(target, method)], wide.loc[other]) if other in wide.index else ""
        )
        rows.append(line)
    return [Table("break-even", pd.DataFrame(rows), "Medians over seeds; by the added cost.")]


def _crossing(ours: pd.Series[float], theirs: pd.Series[float]) -> str:
    """The cost at which the two lines cross, interpolated; seconds are linear in the cost."""
    gap = (ours - theirs).to_numpy()
    if np.allclose(gap, 0.0) or not np.isfinite(gap).all():
        return ""
    below = np.flatnonzero(gap < 0.0)
    if not len(below):
        return f"above {ours.index[-1]:g} ms"
    i = int(below[0])
    if i == 0:
        return f"below {max(float(ours.index[0]), 0.05):g} ms"
    low, high = float(ours.index[i - 1]), float(ours.index[i])
    return f"{low + (high - low) * gap[i - 1] / (gap[i - 1] - gap[i]):.2g} ms"


_CLAIMS = tuple(
    Statement("7.3.2", f"With {cost:g} ms an evaluation a surrogate takes less time than natural gradients.",
              f"its gap stays below {_LEVEL:g} nats after fewer seconds",
              "seconds", {name: [_METHODS[-1]] for name in _NODES},
              rows=only("cost_ms", cost))
    for cost in (0.0, 1.0, 3.0)
)  # fmt: skip

experiment = Experiment(
    name="bq-break-even",
    title="When a surrogate pays",
    summary="""From which cost of an evaluation of the log joint on does Bayesian quadrature take less
        time than tuned natural gradients to reach one accuracy?""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=partial(statements.claims, statements=_CLAIMS, by="method", each="target"),
)
