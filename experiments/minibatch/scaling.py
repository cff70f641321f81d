"""Mini-batches of up to a million data: the cost and the gain of balancing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from acquisition.minibatch import Balanced, Features
from bqvi.arrays import inner, subtract
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.minibatch.problems import Setting, clusters

__all__ = ["experiment"]

_SIZE = 100
_COUNTS = (1_000, 10_000, 100_000, 1_000_000)
_QUICK_COUNTS = (1_000, 3_000)
_BATCHES = 300
"""Mini-batches whose errors are averaged."""
_COLUMNS = {
    "mse": "MSE / uniform",
    "features": "features (s)",
    "partition": "partition (s)",
    "draw": "a draw (microseconds)",
}


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each N."""
    counts = _QUICK_COUNTS if quick else _COUNTS
    return [Case(f"N = {n}", {"n": n}) for n in counts]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Partition once; measure times, and the error of its batches near the optimum."""
    setting = clusters(seed, case.settings["n"], 15, 5, 20, 3.0)
    n = len(setting.data)
    features = Features.of(setting.representation)
    made = Balanced(_SIZE, features)
    rng = np.random.default_rng(seed)
    began = time.perf_counter()
    state = made.start(n, rng)
    partition = time.perf_counter() - began
    count = min(_BATCHES, n // _SIZE)
    began = time.perf_counter()
    drawn = []
    for _ in range(count):
        selection, state = made.draw(state, rng)
        drawn.append(selection.indices)
    spent = (time.perf_counter() - began) / count
    fit = bqvi.fit(setting.model, setting.data, "sngd", minibatch=_SIZE, steps=500, record=[0],
                   start_from=setting.start, seed=seed)  # fmt: skip
    row = {
        "mse": _error(setting, fit.q, drawn) / _uniform(setting, fit.q, rng),
        "features": features.seconds,
        "partition": partition,
        "draw": 1e6 * spent,
        "elbo": fit.elbo,
        "iteration": 0,
    }
    return pd.DataFrame([row])


def _error(setting: Setting, q: Any, batches: list[np.ndarray]) -> float:
    """Fisher MSE of equal weights on ``batches``."""
    x, model = setting.data, setting.model
    exact = model.local_step(q, x).statistics
    squares = []
    for rows in batches:
        weights = np.full(len(rows), len(x) / len(rows))
        error = subtract(model.local_step(q, x[rows], weights).statistics, exact)
        squares.append(float(inner(error, q.fisher_product(error))))
    return float(np.mean(squares))


def _uniform(setting: Setting, q: Any, rng: np.random.Generator) -> float:
    """Of data drawn uniformly."""
    return _error(setting, q, [rng.choice(len(setting.data), _SIZE, replace=False) for _ in range(_BATCHES)])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw error and costs against N."""
    made, axes = drawing.figure(1, 3)
    shown = results.assign(setup=results["features"] + results["partition"])
    labels = {"mse": "MSE / MSE of uniform sampling", "setup": "set-up (s)", "draw": "a draw (microseconds)"}
    for ax, (column, label) in zip(axes.flat, labels.items(), strict=True):
        groups = shown.groupby("n")[column]
        low, middle, high = (groups.quantile(level) for level in (0.25, 0.5, 0.75))
        ax.plot(middle.index, middle, "o-", color=drawing.COLOURS[0])
        ax.fill_between(middle.index, low, high, color=drawing.COLOURS[0], alpha=0.2)
        ax.set_xscale("log")
        if column == "setup":
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0.0)
        ax.set_xlabel("N")
        ax.set_ylabel(label)
    bands = drawing.band_caption(results)
    caption = f"Balanced mini-batches of {_SIZE}: error, set-up once, and time of one draw. {bands}"
    return [Drawing("growth", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return error and costs by N."""
    caption = f"S = {_SIZE}, D = 5, K = 20. Median [lower quartile, upper quartile] over seeds."
    return [Table("growth", quartiles(results, _COLUMNS), caption)]


_BASE = 10_000
"""N with which larger ones are compared: with fewer data there are too few batches to average."""


def _named(results: pd.DataFrame) -> pd.DataFrame:
    return results.assign(setup=results["features"] + results["partition"])


_LARGER = [f"N = {n}" for n in _COUNTS if n > _BASE]
_CLAIMS = (
    Statement("7.3.4",
              "The advantage of a balanced partition over uniform sampling does not shrink with more data.",
              f"its relative error is less than 1.25 times that at N = {_BASE}", "mse",
              dict.fromkeys(_LARGER, (f"N = {_BASE}",)), factor=1.25, shown="MSE / uniform"),
    *(
        Statement("7.3.4", statement, f"it takes at most {level:g} {unit} on the machine of these runs",
                  column, _LARGER, level=level, shown=unit, rows=_named)
        for statement, column, level, unit in (
            ("A draw from a balanced partition is cheap at any N.", "draw", 200.0, "microseconds"),
            ("A balanced partition is made within a minute.", "setup", 60.0, "seconds"),
        )
    ),
)  # fmt: skip


experiment = Experiment(
    name="minibatch-scaling",
    title="Mini-batches of up to a million data",
    summary="""Does the gain of a balanced partition remain with more data, and what do a draw and the
    set-up take? Features and partitions are made once; a draw takes the next batch of the partition.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
    seeds=3,
)
