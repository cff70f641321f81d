"""A toy: halving an error, with a figure, an animation and a table."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.harness.experiment import Case, Drawing, Experiment, Table

RATES = (0.5, 0.9)


def cases(quick, resources, *, folder=None, rates=RATES):
    steps = 4 if quick else 8
    return [Case(f"rate {r}", {"rate": r, "steps": steps, "kind": "toy"}, folder) for r in rates]


def run(case, seed):
    """Leave a file for each call, so that a test can count them."""
    if case.folder:
        (case.folder / f"{case.name}-{seed}-{time.perf_counter_ns()}").touch()
    t = np.arange(case.settings["steps"])
    start = np.random.default_rng(seed).uniform(1, 2)
    return pd.DataFrame({"iteration": t, "error": start * case.settings["rate"] ** t})


def draw(results):
    from experiments.harness import animation, drawing  # here: the workers of a test need not load them

    figure, axes = drawing.figure(1, 2)
    for ax, scale in zip(axes.flat, ("linear", "log"), strict=True):
        drawing.curves(ax, results, "iteration", "error", y_scale=scale)
    drawing.legend_below(figure, axes)
    return [
        Drawing("errors", figure, f"Errors <by> rate. {drawing.band_caption(results)}"),
        Drawing("motion", animation.gif(_frame(t) for t in range(3)), "A moving point."),
    ]


def _frame(t):
    from experiments.harness import drawing

    figure, axes = drawing.figure()
    axes[0, 0].plot([t], [t], "o")
    axes[0, 0].set(xlim=(-1, 4), ylim=(-1, 4))
    return figure


def tables(results):
    last = results.groupby(["case", "seed"], sort=False).tail(1)
    return [Table("last", last[["case", "seed", "error"]], "Last & least errors.")]


def make(folder: Path | None = None, run=run, rates=RATES, **changes) -> Experiment:
    return Experiment(
        **{
            "name": "toy",
            "title": "Halving",
            "summary": "First paragraph.\n\nSecond <paragraph>.",
            "cases": partial(cases, folder=folder, rates=rates),
            "run": run,
            "draw": draw,
            "tables": tables,
            "seeds": 3,
            **changes,
        }
    )


experiment = make()
