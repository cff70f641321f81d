"""Inference with a surrogate: predator and prey, a log joint that solves a differential equation.

The model is `experiments.problems.reference.predator_prey` (D = 8), on data simulated from a seed and, where
`--posteriors DIR` is given, on the lynx and hares of `lotka_volterra` there. A call, of any few points, takes
about 0.1 s. The start is computed from the data: a period of ten years gives the rates' product, the
means of the two species the equilibrium, the first observation the initial state.

    BQ              10 nodes a round, a process on gradients
    BQ, joint       the same with a process on values and gradients together, chosen as evaluations cost 20 ms
    natural         natural gradient on 5 sticking-the-landing draws a step, cosine step ending at the budget,
                    step size the best of `_GRID` on two other seeds for each data set and budget (`_tune`);
                    10 draws were tried on the real data, and are worse
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import bqvi
from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature, Pathwise
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models import LogJoint
from experiments import fitting
from experiments.harness import drawing, statements
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.problems.reference.predator_prey import predator_prey, simulate
from gp.low_discrepancy import normal_sobol

__all__ = ["NAME", "STEPS_PER_UNIT", "experiment"]

NAME = "lotka_volterra"
_SIMULATED = "simulated"
STEPS_PER_UNIT = 10
"""The tolerance of the solver: an error of about 3e-4 in the log density, for a fourth of the time."""
_PERIOD = 10.0
_NODES = 10
_ROUNDS = 12
_LEVEL = 0.1
_LEAST = 1e-4
"""The least gap that is drawn, nats."""
_DRAWS = 5
"""The number of draws of a step of natural gradient."""
_SIZES: Mapping[str, Mapping[int, float]] = {
    _SIMULATED: {150: 0.1, 300: 0.1, 450: 0.2},
    NAME: {150: 0.2, 300: 0.2, 450: 0.4},
}
"""The step sizes by budget, the best of `_GRID` on each data set by `_tune`."""
_GRID = (0.05, 0.1, 0.2, 0.4, 0.8)
_TUNING_SEEDS = (1000, 1001)
"""The seeds of `_tune`, which are not reported."""
_POINTS = 256
_METHODS = ("BQ", "BQ, joint", "natural")
_LINE_STYLES = drawing.line_styles(_METHODS)


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each method on the simulated data and, given the folder, on the real ones."""
    targets = [(_SIMULATED, None)] if quick or resources.posteriors is None else [
        (_SIMULATED, None), (NAME, resources.posteriors)
    ]  # fmt: skip
    return [
        Case(
            f"{name}: {method}",
            {"target": name, "method": method}
            | (_stepped(name, quick) if method == "natural" else _rounds(quick)),
            folder,
        )
        for name, folder in targets
        for method in _METHODS
    ]


def _rounds(quick: bool) -> dict[str, Any]:
    return {"rounds": 4 if quick else _ROUNDS}


def _stepped(name: str, quick: bool) -> dict[str, Any]:
    sizes = {50: 0.2} if quick else _SIZES[name]
    return {"budgets": list(sizes), "sizes": list(sizes.values())}


@cache
def _problem(name: str, folder: Path | None) -> tuple[LogJoint, Gaussian]:
    """The model and the start."""
    if name == _SIMULATED:
        data: Mapping[str, Any] = simulate(0)
    else:
        assert folder is not None  # `_cases` sets it
        data = json.loads((folder / NAME / "data.json").read_text())
    prey, predators = np.asarray(data["y"]).mean(0)
    rate = 2.0 * np.pi / _PERIOD
    guess = [rate, rate / predators, rate, rate / prey, *data["y_init"], 0.3, 0.3]
    return predator_prey(data, STEPS_PER_UNIT).log_joint(), Gaussian(np.log(guess), 0.01 * np.eye(8))


def _elbo(model: LogJoint, q: Gaussian) -> float:
    """By the same `_POINTS` quasi-random points for every q."""
    frame = WhitenedFrame.of(q)
    noise = normal_sobol(8, _POINTS, 1)
    with torch.no_grad():
        f = model.log_prior(torch.tensor(frame.points(noise))).numpy()
    constant = 4.0 * np.log(2.0 * np.pi) + np.log(np.diagonal(frame.scale)).sum()
    return float(np.mean(f + 0.5 * np.square(noise).sum(1)) + constant)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the ELBO after each round, or at the end of each budget."""
    settings = case.settings
    if settings["method"] == "natural":
        sized = zip(settings["budgets"], settings["sizes"], strict=True)
        return pd.concat([_natural(settings["target"], case.folder, seed, *choice) for choice in sized])
    model, start = _problem(settings["target"], case.folder)
    seconds = 0.02 if settings["method"].endswith("joint") else 0.0
    fit = bqvi.fit(
        model, method=BayesianQuadrature(_NODES, seconds=seconds), geometry=bqvi.TrustRegion(),
        schedule=bqvi.Constant(1.0), start_from=start, steps=settings["rounds"],
        record=bqvi.Record(1, metrics={"reached": lambda q: _elbo(model, q)}, elbo_samples=32),
        seed=seed, tolerance=None,
    )  # fmt: skip
    return _table(fit).iloc[1:]


def _natural(name: str, folder: Path | None, seed: int, budget: int, size: float) -> pd.DataFrame:
    """The end of natural gradient's run of one budget, in one row."""
    model, start = _problem(name, folder)
    steps = budget // _DRAWS
    fit = bqvi.fit(
        model, method=Pathwise(_DRAWS, "sticking-the-landing"), geometry=bqvi.Riemannian(),
        schedule=bqvi.Cosine(size, steps), start_from=start, steps=steps,
        record=bqvi.Record([steps], metrics={"reached": lambda q: _elbo(model, q)}, elbo_samples=32),
        seed=seed,
    )  # fmt: skip
    return _table(fit).tail(1)


def _tune(name: str = _SIMULATED, folder: Path | None = None) -> pd.DataFrame:
    """Return the mean ELBO at the end of each budget, by step size: several minutes."""
    rows = [
        {"budget": budget, "size": size, "elbo": _natural(name, folder, seed, budget, size)["elbo"].iloc[-1]}
        for budget in _SIZES[name]
        for size in _GRID
        for seed in _TUNING_SEEDS
    ]
    return pd.DataFrame(rows).pivot_table(index="size", columns="budget", values="elbo")


def _table(fit: Any) -> pd.DataFrame:
    kept = fitting.columns_of(fit.trace, ("iteration", "seconds", "evaluations"))
    return pd.DataFrame(kept | {"elbo": fit.trace["reached"]})


def _with_gap(results: pd.DataFrame) -> pd.DataFrame:
    best = results.groupby("target")["elbo"].transform("max")
    return results.assign(elbo_gap=(best - results["elbo"]).clip(lower=_LEAST))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap to the best run against evaluations and seconds."""
    shown = _with_gap(results)
    names = list(shown["target"].unique())
    figure, axes = drawing.figure(len(names), 2, sharey=True)
    for row, name in zip(axes, names, strict=True):
        rows = shown[shown["target"] == name]
        labels = {"evaluations": "evaluations of the log joint", "seconds": "time (s)"}
        for ax, (cost, label) in zip(row, labels.items(), strict=True):
            drawing.curves(
                ax, rows, cost, "elbo_gap", by="method", lines=_LINE_STYLES, steps=False, x_scale="log",
                y_scale="log", x_label=label, y_label="ELBO below the best run (nats)",
            )  # fmt: skip
            ax.set_title(name)
    drawing.mark_ends(axes.flat, _LEAST)
    drawing.legend_below(figure, axes)
    caption = (
        f"ELBO below that of the best of all runs, drawn as {_LEAST:g} where it is less. Natural gradient "
        f"has a run and a tuned step size for each budget. {drawing.band_caption(results)}"
    )
    return [Drawing("gap", figure, caption)]


def _costs(results: pd.DataFrame) -> pd.DataFrame:
    """The costs to `_LEVEL` nats, the first from which a run stays below."""
    rows = []
    for (target, method, seed), group in _with_gap(results).groupby(["target", "method", "seed"], sort=False):
        ordered = group.sort_values("evaluations")
        above = np.flatnonzero(ordered["elbo_gap"].to_numpy() > _LEVEL)
        first = int(above[-1]) + 1 if len(above) else 0
        reached = ordered.iloc[first] if first < len(ordered) else {"evaluations": np.inf, "seconds": np.inf}
        line = {"target": target, "method": method, "seed": seed, "final": ordered["elbo_gap"].iloc[-1]}
        rows.append(line | {"evaluations": reached["evaluations"], "seconds": reached["seconds"]})
    return pd.DataFrame(rows)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the costs."""
    columns = {
        "evaluations": f"evaluations to {_LEVEL:g} nats",
        "seconds": "seconds to it",
        "final": "final gap (nats)",
    }
    frame = quartiles(_costs(results), columns, by=("target", "method"))
    return [Table("costs", frame, "Median [quartiles] over seeds; inf: never.")]


_CLAIMS = tuple(
    Statement("7.3.2", f"Where the log joint solves a differential equation, a surrogate saves {cost}.",
              f"it stays within {_LEVEL:g} nats of the best run after fewer than tuned natural gradients",
              cost, {name: ["natural"] for name in ("BQ", "BQ, joint")}, rows=_costs)
    for cost in ("evaluations", "seconds")
)  # fmt: skip

experiment = Experiment(
    name="bq-predator-prey",
    title="A differential equation: predator and prey",
    summary="""How many evaluations and seconds does a surrogate save where the log joint solves a
        differential equation? Both methods run to a tenth of a nat of the best Gaussian; natural
        gradients have a tuned step.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=partial(statements.claims, statements=_CLAIMS, by="method", each="target"),
    quick_seeds=1,
)

if __name__ == "__main__":
    print(_tune())
