"""Gaussian process regression of a sine: samples of prior and posterior (thesis Fig. 7.1).

The prior is f ~ GP(0, k) with a squared exponential kernel, l = 1, sigma_s = 1. Conditioned on
y_i = sin x_i at five equally spaced points, without noise,

    m_*(x) = k(x, X) K^-1 y,   v_*(x) = k(x, x) - k(x, X) K^-1 k(X, x)

(thesis Eqs 7.5 to 7.8). Drawn are m_* +- 2 sqrt(v_*) and ten functions of each distribution, all
given by their values at 500 points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import gp
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement

__all__ = ["experiment"]

_BAND = 2.0
"""Half the width of the band, in standard deviations."""


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return the case of the thesis' figure, with fewer points for the quick form."""
    settings = {
        "reach": 5.0,
        "observed_reach": 4.0,
        "observations": 5,
        "points": 100 if quick else 500,
        "samples": 3 if quick else 10,
        "lengthscale": 1.0,
        "sd": 1.0,
    }
    return [Case("sine", settings)]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the mean, the standard deviation and samples of prior and posterior over a grid."""
    s = case.settings
    kernel = gp.kernels.SquaredExponential(s["lengthscale"], s["sd"] ** 2)
    process = gp.GaussianProcess(kernel)
    observed = np.linspace(-s["observed_reach"], s["observed_reach"], s["observations"])
    y = np.sin(observed)
    posterior = process.condition(observed[:, None], y)
    grid = np.linspace(-s["reach"], s["reach"], s["points"])
    rng = np.random.default_rng(seed)
    at = grid[:, None]
    prior = process.sample(at, s["samples"], rng)
    given = posterior.sample(at, s["samples"], rng)
    mean, variance = posterior.mean_and_variance(at)
    parts = [
        _part("prior", grid, np.zeros_like(grid), np.full_like(grid, s["sd"]), prior),
        _part("posterior", grid, mean, np.sqrt(variance), given),
        _part("observations", observed, y, np.zeros_like(y), np.empty((0, len(y)))),
    ]
    return pd.concat(parts, ignore_index=True)


def _part(name: str, x: Any, mean: Any, sd: Any, samples: Any) -> pd.DataFrame:
    columns = {f"sample {i}": sample for i, sample in enumerate(samples)}
    return pd.DataFrame({"part": name, "x": x, "truth": np.sin(x), "mean": mean, "sd": sd, **columns})


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw prior and posterior side by side, of the first seed."""
    first = results[results["seed"] == results["seed"].min()]
    figure, axes = drawing.figure(1, 2, size=(4.2, 3.2), sharey=True)
    data = first[first["part"] == "observations"]
    for ax, part in zip(axes.flat, ("prior", "posterior"), strict=True):
        _draw_part(ax, first[first["part"] == part].dropna(axis=1))
        ax.set_title(part)
        ax.set_xlabel("x")
    ax.plot(data["x"], data["mean"], "o", color=drawing.COLOURS[4], label="observations", zorder=4)
    axes[0, 0].set_ylabel("f(x)")
    drawing.legend_below(figure, axes, columns=5)
    caption = (
        "Gaussian process with a squared exponential kernel, l = 1, sigma_s = 1, and "
        f"{len(_samples(first))} samples of it, before and after conditioning on the sine at {len(data)} "
        "points. Band: mean plus and minus two standard deviations."
    )
    return [Drawing("prior-and-posterior", figure, caption)]


def _draw_part(ax: Any, part: pd.DataFrame) -> None:
    blue, red = drawing.COLOURS[:2]
    x, mean, sd = part["x"], part["mean"], part["sd"]
    ax.fill_between(x, mean - _BAND * sd, mean + _BAND * sd, color=blue, alpha=0.15, lw=0, label="two sd")
    for i, name in enumerate(_samples(part)):
        label = "samples" if i == 0 else None
        ax.plot(x, part[name], color=blue, alpha=0.45, lw=0.7, label=label)
    ax.plot(x, mean, color=blue, lw=2, label="mean")
    ax.plot(x, part["truth"], color=red, linestyle="--", lw=1.5, label="sine")


def _samples(frame: pd.DataFrame) -> list[str]:
    return [column for column in map(str, frame.columns) if column.startswith("sample ")]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate what the figure shows: the error, and whether the band holds the truth."""
    rows = []
    for part, group in results.groupby("part", sort=False):
        if part != "observations":
            error = (group["mean"] - group["truth"]).abs()
            rows.append(
                {
                    "distribution": part,
                    "largest error of the mean": float(f"{error.max():.3g}"),
                    "largest sd": float(f"{group['sd'].max():.3g}"),
                    "truth within two sd": f"{np.mean(error <= _BAND * group['sd']):.1%}",
                }
            )
    return [Table("errors", pd.DataFrame(rows), "Prior and posterior against the sine, over the grid.")]


def _errors(results: pd.DataFrame) -> pd.DataFrame:
    """The largest error, the largest sd, and the share of the grid at which the band misses the sine."""
    shown = results[results["part"] != "observations"]
    error = (shown["mean"] - shown["truth"]).abs()
    missed = (error > _BAND * shown["sd"]).astype(float)
    columns = {"error": error, "missed": missed, "variance": shown["sd"] ** 2}
    return shown.assign(**columns).groupby(["part", "seed"])[list(columns)].mean().reset_index()


_CLAIMS = (
    Statement("7.1", "Five observations bring the mean near the sine.",
              "its mean error is at most a quarter of that of the prior's mean",
              "error", {"posterior": ["prior"]}, factor=0.25, rows=_errors, statistic="mean"),
    Statement("7.1", "The posterior knows where it is uncertain.",
              "its band of two standard deviations holds the sine in at least 95 % of the grid",
              "missed", ["posterior"], level=0.05, shown="share outside", rows=_errors, statistic="mean"),
    Statement("7.1", "Observations take away variance.", "the mean variance is at most half of the prior's",
              "variance", {"posterior": ["prior"]}, factor=0.5, rows=_errors, statistic="mean"),
)  # fmt: skip


experiment = Experiment(
    name="gp-regression",
    title="Gaussian process regression",
    source="Gutteridge (2021), Figure 7.1",
    summary="""What do draws of a Gaussian process look like before and after five points of a sine are
        observed? Ten samples of the prior and of the posterior, as in the thesis' Figure 7.1.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="part"),
    seeds=1,
    quick_seeds=1,
)
