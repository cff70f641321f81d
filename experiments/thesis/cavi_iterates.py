"""Coordinate ascent, iterate by iterate: the mixture at each (Figure 3.2).

Each record is one component of the mixture under E[pi], E[mu]; the figure draws it as the ellipses of one
and two standard deviations, its weight as their opacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bqvi
from experiments.harness import animation, drawing, evidence, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures
from experiments.problems import data
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_NARROW, _WIDE = "C_0 = I (thesis)", "C_0 = 100 I"
_SHOWN_SEED = 0
_MOST = 1000
_LEAST_GAP = 1e-6
"""The least ELBO gap that is drawn, nats."""
_MOST_FRAMES = 20


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the thesis' prior, and one that does not shrink means 15 from the origin towards it."""
    steps = thesis.QUICK_STEPS if quick else _MOST
    return [
        thesis.case(_NARROW, "cavi", steps=steps),
        thesis.case(_WIDE, "cavi", prior_variance=100.0, steps=steps),
    ]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each component at each iteration."""
    chosen = case.settings
    model, clusters, start = thesis.problem(seed, chosen["n"], chosen["prior_variance"])
    error = thesis.metrics(model, clusters)["log_likelihood_error"]
    found: list[dict[str, np.ndarray]] = []

    def keep(q: Any) -> float:
        found.append(q.mean)
        return error(q)

    fit = bqvi.fit(
        model,
        clusters.x,
        "cavi",
        start_from=start,
        steps=chosen["steps"],
        record=bqvi.Record(metrics={"error": keep}),
    )
    trace, k = fit.trace, np.arange(thesis.K)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "iteration": int(t), "component": k, "weight": theta["weights"],
                    "mean_0": theta["means"][:, 0], "mean_1": theta["means"][:, 1],
                    "elbo": elbo, "log_likelihood_error": value,
                }
            )
            for t, theta, elbo, value in zip(
                trace["iteration"], found, trace["elbo"], trace["error"], strict=True
            )
        ],
        ignore_index=True,
    )  # fmt: skip


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw six iterates of one run, all of them as an animation, and the traces of all runs."""
    one = results[(results["case"] == _NARROW) & (results["seed"] == _SHOWN_SEED)]
    x = thesis.problem(_SHOWN_SEED)[1].x
    last = int(one["iteration"].max())
    shown = sorted({t for t in (0, 1, 2, 5, 10, last) if t <= last})
    frames = sorted({*range(min(last, _MOST_FRAMES) + 1), last})
    return [
        Drawing(
            "iterates",
            _iterates(one, x, shown),
            "The mixture under E[pi], E[mu] after so many iterations, seed 0, the thesis' prior. Ellipses: "
            "one and two standard deviations; opacity: the weight. Dots: data; crosses: true centres.",
        ),
        Drawing(
            "animation",
            animation.gif((_frame(one, x, t) for t in frames), seconds=0.3),
            f"The same run: iterations 0 to {min(last, _MOST_FRAMES)}, and the last.",
        ),
        Drawing(
            "traces",
            _traces(results),
            "Error of E[pi], E[mu] and ELBO gap to where the run ends. "
            f"{drawing.band_caption(results)} The two priors are two models: their ELBOs cannot be compared.",
        ),
    ]


def _iterates(one: pd.DataFrame, x: np.ndarray, shown: Sequence[int]) -> Figure:
    made, axes = drawing.figure(2, 3, sharex=True, sharey=True, size=(2.7, 3.2))
    for ax, t in zip(axes.flat, shown, strict=False):
        _mixture(ax, one[one["iteration"] == t], x)
    for ax in axes[-1]:
        ax.set_xlabel("$x_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel("$x_2$")
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    return made


def _frame(one: pd.DataFrame, x: np.ndarray, t: int) -> Figure:
    made, axes = drawing.figure(size=(4.6, 4.4))
    _mixture(axes[0, 0], one[one["iteration"] == t], x)
    axes[0, 0].set(xlabel="$x_1$", ylabel="$x_2$")
    return made


def _mixture(ax: Axes, components: pd.DataFrame, x: np.ndarray) -> None:
    """Draw one iterate."""
    ax.scatter(x[:, 0], x[:, 1], s=2, color="0.65", linewidths=0)
    ax.scatter(
        data.CENTRES[:, 0], data.CENTRES[:, 1], s=18, marker="x", color="black", linewidths=0.8, zorder=3
    )
    weights = components["weight"].to_numpy(dtype=float)
    centres = components[["mean_0", "mean_1"]].to_numpy(dtype=float)
    pictures.ellipses(ax, centres, np.tile(np.eye(2), (len(centres), 1, 1)), weights)
    first = components.iloc[0]
    ax.set_title(f"iteration {first['iteration']:.0f}, ELBO {first['elbo']:.0f}")
    ax.set_aspect("equal")
    ax.set_xlim(x[:, 0].min() - 1, x[:, 0].max() + 1)
    ax.set_ylim(x[:, 1].min() - 1, x[:, 1].max() + 1)


def _traces(results: pd.DataFrame) -> Figure:
    rows = evidence.with_gap(_by_iteration(results), ("case", "seed"))
    rows = rows.assign(elbo_gap=rows["elbo_gap"].clip(lower=_LEAST_GAP))
    made, axes = drawing.figure(1, 2)
    drawing.curves(
        axes[0, 0], rows, "iteration", "log_likelihood_error", x_scale="symlog", y_scale="symlog",
        linthresh=10.0,
    )  # fmt: skip
    drawing.curves(
        axes[0, 1], rows, "iteration", "elbo_gap", x_scale="symlog", y_scale="log",
        y_label="ELBO gap (nats)", linthresh=10.0,
    )  # fmt: skip
    drawing.mark_ends(axes[0, 1:], _LEAST_GAP)
    drawing.legend_below(made, axes)
    return made


def _by_iteration(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each iteration, as the columns of all components are repeated on the row of each."""
    counted = results.assign(components=results["weight"] > 0.01)
    components = counted.groupby(["case", "seed", "iteration"], sort=False)["components"].transform("sum")
    return results.assign(components=components)[results["component"] == 0]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the ends of the runs under the two priors."""
    last = _by_iteration(results).groupby(["case", "seed"], sort=False).tail(1)
    columns = {
        "iteration": "iterations",
        "log_likelihood_error": "final error (nats)",
        "components": "components above 1 %",
    }
    caption = (
        "When the ELBO has settled to 1e-6 nats. Median [lower quartile, upper quartile]. The thesis' "
        "prior N(0, I) pulls a cluster of 100 data at distance 15 from the origin 0.15 towards it."
    )
    return [Table("end", quartiles(last, columns), caption)]


def _ends(results: pd.DataFrame) -> pd.DataFrame:
    """A row for each run: the iterations until it stays within 10 nats of where it ends."""
    rows = _by_iteration(results)
    ends = rows.groupby(["case", "seed"], sort=False)["log_likelihood_error"].transform("last")
    rows = rows.assign(excess=rows["log_likelihood_error"] - ends, seconds=0.0, evaluations=0)
    return evidence.runs(rows, "excess", level=10.0, keep=("components",))


_CLAIMS = (
    Statement("3.3", "CAVI is often near convergence after only a few iterations.",
              "after 10 iterations the error stays within 10 nats of where it ends",
              "iterations_to", [_NARROW, _WIDE], level=10, shown="iterations", rows=_ends),
    Statement("6", "Starting from K = 10, the components beyond the true 7 are eliminated by driving their "
              "weights to zero.",
              "CAVI ends with at most 7 weights E[pi_k] above 1 %",
              "components", [_NARROW, _WIDE], level=7, rows=_ends),
)  # fmt: skip


experiment = Experiment(
    name="cavi-iterates",
    title="CAVI, iterate by iterate (Figure 3.2)",
    source="Gutteridge (2021), Figure 3.2",
    summary="""How many iterations does coordinate ascent take on the thesis' data? They are 700 draws of
    seven clusters, K = 10, all else as in Section 6. Data and start differ between seeds.

    Under the thesis' prior on the centres, N(0, I), data lie up to 15 standard deviations from the mean; it
    is compared with N(0, 100 I), which has little effect.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
