"""Gaussian processes: seconds against the number of observations, for each operation, with its slope.

One thread, D = 5, squared exponential with a lengthscale a dimension. Drawn is the median of some calls after
one that is not counted; the slope is d log seconds / d log n over all but the smallest size, where overheads
count. Operations with O(n^3) arithmetic stay below slope 3 as long as LAPACK grows more efficient with n.

Seconds are those of the processor, so that other processes change them little. `bqvi run gp-cost --jobs 1`
measures without a second process of the experiment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import gp
from experiments.harness import drawing
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.problems.simulated_regression import simulated
from gp.problem import EvidenceProblem, solve_with_gradient

SIZES, QUICK_SIZES = (125, 250, 500, 1000, 2000), (50, 100, 200)
OPERATIONS: Mapping[str, float] = {
    "condition": 3.0,
    "mean at 1000 points": 1.0,
    "variance at 1000 points": 2.0,
    "add one point": 2.0,
    "evidence and gradient": 3.0,
    "path of 1024 features": 2.0,
}
"""Each operation, and the exponent of its count of arithmetic operations."""
_CALLS = 5


def operations(n: int, seed: int = 0) -> dict[str, Callable[[], Any]]:
    """Return what there is to time on n observations, by the names of `OPERATIONS`."""
    x, y = simulated(n + 1, 5, seed)
    at = np.random.default_rng(seed + 1).standard_normal((1000, 5))
    kernel = gp.kernels.SquaredExponential(np.full(5, 1.5), 2.0)
    process = gp.GaussianProcess(kernel, noise=0.01)
    posterior = process.condition(x[:n], y[:n])
    problem = EvidenceProblem(x[:n], y[:n], kernel, gp.means.Constant(), noise=None, profiled=True)
    vector = problem.pack()
    return {
        "condition": lambda: process.condition(x[:n], y[:n]),
        "mean at 1000 points": lambda: posterior.mean(at),
        "variance at 1000 points": lambda: posterior.variance(at),
        "add one point": lambda: posterior.extend(x[n:], y[n:]),
        "evidence and gradient": lambda: solve_with_gradient(problem, vector),
        "path of 1024 features": lambda: posterior.sample_path(0),
    }


def slope(sizes: Any, seconds: Any) -> float:
    """Return d log seconds / d log n, without the smallest size."""
    order = np.argsort(np.asarray(sizes))[1:]
    return float(np.polyfit(np.log(np.asarray(sizes)[order]), np.log(np.asarray(seconds)[order]), 1)[0])


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return one case for each operation."""
    del resources
    sizes = QUICK_SIZES if quick else SIZES
    return [Case(name, {"operation": name, "sizes": sizes}) for name in OPERATIONS]


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the seconds of one operation at each size."""
    rows = []
    for n in case.settings["sizes"]:
        operation = operations(n, seed)[case.settings["operation"]]
        rows.append({"n": n, "seconds": _median_seconds(operation)})
    return pd.DataFrame(rows)


def _median_seconds(operation: Callable[[], Any]) -> float:
    operation()
    seconds = []
    for _ in range(_CALLS):
        began = time.process_time()
        operation()
        seconds.append(time.process_time() - began)
    return float(np.median(seconds))


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw all operations in one panel; the legend has their slopes."""
    labelled = results.assign(label=results["operation"].map(_labels(results)))
    figure, axes = drawing.figure(1, 1, size=(4.6, 3.4))
    drawing.curves(
        axes[0, 0], labelled, "n", "seconds", by="label", lines=drawing.strokes(labelled["label"]),
        steps=False, x_scale="log", y_scale="log", x_label="observations n", y_label="seconds a call",
    )  # fmt: skip
    sizes = sorted(results["n"].unique())
    axes[0, 0].set_xticks(sizes, [str(n) for n in sizes])
    axes[0, 0].minorticks_off()
    drawing.legend_below(figure, axes, columns=2)
    caption = (
        "CPU seconds of a call against the number of observations, D = 5, one thread; in brackets the slope "
        f"over all but the smallest size. {drawing.band_caption(results)}"
    )
    return [Drawing("cost", figure, caption)]


def _labels(results: pd.DataFrame) -> dict[str, str]:
    return {str(name): f"{name} ({found:.1f})" for name, found in _slopes(results).items()}


def _slopes(results: pd.DataFrame) -> dict[str, float]:
    medians = results.groupby(["operation", "n"], sort=False)["seconds"].median()
    return {str(name): slope(medians[name].index, medians[name]) for name in results["operation"].unique()}


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate milliseconds at each size, the slope, and the exponent of the count of operations."""
    medians = results.groupby(["operation", "n"], sort=False)["seconds"].median()
    rows = [
        {
            "operation": name,
            **{f"n = {n} (ms)": f"{1e3 * seconds:.3g}" for n, seconds in medians[name].items()},
            "slope": f"{found:.2f}",
            "arithmetic": f"{OPERATIONS[name]:g}",
        }
        for name, found in _slopes(results).items()
    ]
    return [
        Table("cost", pd.DataFrame(rows), "Median milliseconds a call; slopes of seconds and of arithmetic.")
    ]


experiment = Experiment(
    name="gp-cost",
    title="Gaussian processes: cost",
    summary="""How many seconds does each operation of a posterior take as the number of observations
        grows?""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
    seeds=3,
    quick_seeds=1,
)
