"""A mixture whose number of components is not given: the sticks of a Dirichlet process.

Gaussians of unknown covariance under stick-breaking weights, with either truncation and with Pitman and Yor's
discount, on the thesis' seven clusters and on penguins. Coordinate ascent can stop with two components on one
cluster, which a merge (`bqvi.models.merging`) joins where that raises the bound.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import bqvi
from bqvi.models import DirichletProcessMixture, component_estimates
from bqvi.models.merging import merged
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures
from experiments.problems import data

__all__ = ["experiment"]

_TRUNCATION = 20
_KINDS: dict[str, dict[str, Any]] = {
    "truncated": {"tail": "truncated"},
    "tied": {"tail": "tied"},
    "Pitman-Yor, d = 0.3": {"tail": "truncated", "discount": 0.3, "concentration": 1.0},
}
_SETS = {"seven clusters": 7, "penguins": 3}
_STEPS, _QUICK_STEPS = 1000, 15
_LEAST = 0.01
"""Components with a larger expected weight are counted."""
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each process with and without merges on each data set."""
    steps = _QUICK_STEPS if quick else _STEPS
    return [
        Case(
            f"{name}, {kind}{', merged' if merge else ''}",
            {"data": name, "kind": kind, **_KINDS[kind], "merges": merge, "steps": steps},
        )
        for name in _SETS
        for kind in _KINDS
        for merge in (False, True)
    ]


@cache
def _data(name: str, seed: int) -> data.Clusters:
    return data.penguins() if name == "penguins" else data.thesis(700, np.random.default_rng(seed))


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each stick: its weight, and its component."""
    chosen = case.settings
    x = _data(chosen["data"], seed).x
    process = {name: chosen[name] for name in ("tail", "discount", "concentration") if name in chosen}
    model = DirichletProcessMixture("full", _TRUNCATION, **process)
    fit = bqvi.fit(model, x, steps=chosen["steps"], tolerance=1e-3, seed=seed)
    settled, q = fit.problem.model, fit.q
    if chosen["merges"]:
        q = merged(settled, q, x)
        fit = bqvi.fit(settled, x, start_from=q, steps=chosen["steps"], tolerance=1e-3, seed=seed)
        q = fit.q
    weights = settled.expected_weights(q)
    means, covariances = component_estimates(settled, q)
    alpha = np.nan if "concentration" in chosen else float(settled.concentration(q).mean)
    deviations = pictures.weight_deviations(q["sticks"])
    t = len(means)
    return pd.DataFrame(
        {
            "iteration": fit.state.iteration, "stick": np.arange(t), "weight": weights[:t],
            "deviation": deviations[:t], **pictures.columns_of_gaussians(means, covariances),
            "elbo": fit.elbo, "alpha": alpha,
            "occupied": int((weights > _LEAST).sum()),
        }
    )  # fmt: skip


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw sticks and components of one seed."""
    caption = (
        f"Seed {_SHOWN_SEED}. Upper row: data and components, opaque by weight. Lower row: E[pi_t] in the "
        "order of the sticks with a posterior standard deviation each way; dashed, the shares of the labels."
    )
    return [Drawing("sticks", _sticks(results[results["seed"] == _SHOWN_SEED]), caption)]


def _sticks(rows: pd.DataFrame) -> Figure:
    shown = [f"seven clusters, {kind}" for kind in ("truncated", "truncated, merged", "tied, merged")]
    shown.append("penguins, truncated, merged")
    made, axes = drawing.figure(2, len(shown), size=(2.6, 2.4))
    for (above, below), name in zip(axes.T, shown, strict=True):
        found = rows[rows["case"] == name]
        clusters = _data(name.partition(",")[0], _SHOWN_SEED)
        above.scatter(clusters.x[:, 0], clusters.x[:, 1], s=2, color="0.65", linewidths=0)
        keep = found[found["weight"] > _LEAST]
        pictures.ellipses(above, *pictures.gaussians_of(keep), keep["weight"].to_numpy(float) ** 0.5)
        above.set_title(name.replace("seven clusters", "clusters"))
        weights, deviations = found[["weight", "deviation"]].to_numpy(float).T
        pictures.weights(below, weights, deviations, clusters.weights)
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return how many components are occupied, and the bound."""
    rows = results[results["stick"] == 0]
    columns = {
        "occupied": "components above 1 %",
        "elbo": "ELBO (nats)",
        "alpha": "E[alpha]",
    }
    caption = (
        f"T = {_TRUNCATION}. Median [lower quartile, upper quartile]. The data have 7 clusters and 3 "
        "species; nan: the concentration is given."
    )
    return [Table("occupied", quartiles(rows, columns, digits=4), caption)]


def _apart(results: pd.DataFrame) -> pd.DataFrame:
    """The runs with tied sticks, and the nats between their bound and that with truncated ones."""
    tied, truncated = (
        results[(results["case"] == f"seven clusters, {kind}, merged") & (results["stick"] == 0)]
        for kind in ("tied", "truncated")
    )
    other = tied["seed"].map(truncated.set_index("seed")["elbo"])
    return tied.assign(apart=(tied["elbo"] - other).abs())


_CLAIMS = (
    Statement("004", "A Dirichlet process mixture finds the number of clusters.",
              "7 components above 1 %, with T = 20", "off",
              [f"seven clusters, {kind}, merged" for kind in _KINDS], shown="distance from 7 components",
              rows=lambda results: results.assign(off=(results["occupied"] - 7).abs())),
    Statement("004", "The two truncations agree where T is larger than what is needed.",
              "their bounds differ by at most 1 nat", "apart", level=1.0, statistic="median", rows=_apart),
)  # fmt: skip


experiment = Experiment(
    name="models-sticks",
    title="Dirichlet process mixtures",
    summary="""Does a Dirichlet process mixture find the number of clusters? Gaussian mixtures with
        stick-breaking weights, truncated or with a tied tail, and with Pitman and Yor's process:
        weights, their standard deviations, and the effect of merges.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
