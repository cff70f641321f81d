"""VBMC: a run in two dimensions: nodes, surrogate and posterior at growing budgets.

After each of a few budgets: the evaluations (the latest in colour), the surrogate's mean of the log joint in
grey, and the contours of the posterior that hold half and nine tenths of it; beside them the exact posterior,
and in the figure of the first page of the documentation the log evidence with its standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bqvi
from bqvi.canvas import COLOURS
from bqvi.posterior.plots import highest
from experiments.harness import drawing, statements
from experiments.harness.animation import gif
from experiments.harness.experiment import Case, Drawing, Experiment, Resources
from experiments.harness.statements import Statement, only
from experiments.problems.known_posteriors import Problem
from experiments.vbmc.runs import problem_named

__all__ = ["CLAIMS", "draw", "experiment", "run"]

_BUDGETS = (10, 15, 20, 30, 45, 60)
_NAMES = ("Rosenbrock 2", "bounded banana", "lumpy 2")
_SHOWN = (15, 30, 60)
"""Budgets with a panel in the figure with the evidence."""
_CELLS = 70


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the targets."""
    return [
        Case(name, {"problem": name, "budgets": list(_BUDGETS[1:3] if quick else _BUDGETS)})
        for name in _NAMES[: 1 if quick else None]
    ]


def _axes(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Middles of cells (CELLS,) on both axes, over the plausible box and a little more."""
    margin = 0.15 * (problem.plausible_upper - problem.plausible_lower)
    low = np.maximum(problem.plausible_lower - margin, problem.lower)
    high = np.minimum(problem.plausible_upper + margin, problem.upper)
    x, y = low[:, None] + (high - low)[:, None] * (np.arange(_CELLS) + 0.5) / _CELLS
    return x, y


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return for each budget nodes, the evidence's error, surrogate and q on a grid; and the truth."""
    problem = problem_named(case.settings["problem"])
    x, y = _axes(problem)
    grid = np.stack([g.ravel() for g in np.meshgrid(x, y)], axis=1)
    parts, found, seen = [], None, 0
    for budget in case.settings["budgets"]:
        found = bqvi.vbmc(
            problem.log_joint, **problem.bounds(), budget=budget, seed=seed, resume=found, tolerance=None
        )
        theta = found.theta[seen:]
        seen = found.n_evaluations
        nodes = pd.DataFrame({"part": "nodes", "n": seen, "x": theta[:, 0], "y": theta[:, 1]})
        columns = {"log_q": found.posterior.log_prob(grid), "surrogate": found.surrogate_mean(grid)}
        error = abs(found.log_evidence - problem.log_evidence)
        known = {"part": "evidence", "n": seen, "error": error, "sd": found.log_evidence_sd,
                 "estimate": found.log_evidence, "exact": problem.log_evidence,
                 "converged": bool(found.converged)}  # fmt: skip
        parts += [
            nodes,
            pd.DataFrame([known]),
            pd.DataFrame({"part": "grid", "n": seen, "x": grid[:, 0], "y": grid[:, 1], **columns}),
        ]
    truth = {
        "log_q": problem.log_density(grid) - problem.log_evidence,
        "surrogate": problem.log_density(grid),
    }
    parts.append(pd.DataFrame({"part": "truth", "n": -1, "x": grid[:, 0], "y": grid[:, 1], **truth}))
    return pd.concat(parts, ignore_index=True)


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw one run with its evidence, a row of panels for each target, and an animation."""
    first = results[results["seed"] == results["seed"].min()]
    problems = list(first["problem"].unique())
    steps = {name: _steps(first[first["problem"] == name]) for name in problems}
    one = first[first["problem"] == problems[0]]
    most = max(len(found) for found in steps.values())
    figure, axes = drawing.figure(len(problems), most + 1, size=(2.3, 2.3))
    for i, name in enumerate(problems):
        rows = first[first["problem"] == name]
        for j in range(most):
            if j < len(steps[name]):
                _panel(axes[i, j], rows, steps[name], j)
            else:
                axes[i, j].set_axis_off()
        _truth(axes[i, most], rows)
        axes[i, 0].set_ylabel(f"{name}\n$x_2$")
    caption = (
        "A run at growing budgets. Dots: evaluations, the latest in colour; grey: the surrogate's mean of "
        "the log "
        "joint, from its highest value to ten nats below; lines: 50 % and 90 % of the posterior. Right: "
        "the truth."
    )
    growing = gif((_frame(one, k) for k in range(len(steps[problems[0]]))), seconds=0.8)
    return [
        _with_evidence(one, steps[problems[0]]),
        Drawing("panels", figure, caption),
        Drawing("growing", growing, f"{problems[0]}, growing."),
    ]


def _with_evidence(rows: pd.DataFrame, steps: list[int]) -> Drawing:
    """Moments of one run, the exact posterior, and the log evidence after each number of evaluations."""
    shown = [k for k, n in enumerate(steps) if n in _SHOWN] or [len(steps) - 1]
    figure, axes = drawing.figure(
        1, len(shown) + 2, size=(2.2, 2.4), width_ratios=[1.0] * (len(shown) + 1) + [1.5]
    )
    for ax, k in zip(axes[0], shown, strict=False):
        _panel(ax, rows, steps, k)
    _truth(axes[0, -2], rows)
    axes[0, -2].set_title("exact posterior")
    axes[0, 0].set_ylabel("$x_2$")
    known, ax = rows[rows["part"] == "evidence"], axes[0, -1]
    exact = float(known["exact"].iloc[0])
    ax.axhline(exact, color="black", linewidth=1.0, label="exact")
    for claimed, colour, label in ((False, "white", "not converged"), (True, COLOURS[0], "converged")):
        some = known[known["converged"].astype(bool) == claimed]
        ax.errorbar(
            some["n"], some["estimate"], 2.0 * some["sd"], fmt="o", ms=5, capsize=3, color=COLOURS[0],
            markerfacecolor=colour, label=f"{label}, $\\pm$ 2 sd",
        )  # fmt: skip
    ax.set_xticks(steps)
    ax.set(xlabel="evaluations", ylabel="nats", title="log evidence", ylim=(exact - 1.2, exact + 2.2))
    ax.legend(loc="upper right")
    last = known.iloc[-1]
    caption = (
        "Dots: evaluations of the log joint, the latest in colour; grey: its surrogate, from the highest "
        "value to ten nats below; lines: 50 % and 90 % of the posterior. Right: the log evidence, after "
        f"{last['n']:.0f} evaluations {last['estimate']:.3f} with an sd of {last['sd']:.2g}; it is "
        f"{last['exact']:.3f}."
    )
    return Drawing("evidence", figure, caption)


def _steps(rows: pd.DataFrame) -> list[int]:
    return sorted(int(n) for n in rows.loc[rows["part"] == "grid", "n"].unique())


def _frame(rows: pd.DataFrame, k: int) -> Figure:
    figure, axes = drawing.figure(1, 2, size=(3.0, 3.0))
    _panel(axes[0, 0], rows, _steps(rows), k)
    _truth(axes[0, 1], rows)
    axes[0, 0].set_ylabel("$x_2$")
    return figure


def _square(rows: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.unique(rows["x"]), np.unique(rows["y"])
    return x, y, rows[column].to_numpy().reshape(len(y), len(x))


def _panel(ax: Axes, rows: pd.DataFrame, steps: list[int], k: int) -> None:
    at = rows[(rows["part"] == "grid") & (rows["n"] == steps[k])]
    _shade(ax, *_square(at, "surrogate"))
    _mass(ax, *_square(at, "log_q"))
    known = rows[(rows["part"] == "nodes") & (rows["n"] <= steps[k])]
    theta = known[["x", "y"]].to_numpy()
    _nodes(ax, theta, np.zeros(len(theta), bool), int((known["n"] == steps[k]).sum()) if k else 0)
    _limits(ax, at)
    ax.set_title(f"{steps[k]} evaluations")


def _truth(ax: Axes, rows: pd.DataFrame) -> None:
    at = rows[rows["part"] == "truth"]
    _shade(ax, *_square(at, "surrogate"))
    _mass(ax, *_square(at, "log_q"))
    _limits(ax, at)
    ax.set_title("truth")


def _shade(ax: Axes, x: np.ndarray, y: np.ndarray, logs: np.ndarray) -> None:
    """Fill with grey where the density is high, ten nats from the top down; x (n,), y (m,), logs (m, n)."""
    top = np.max(logs[np.isfinite(logs)], initial=-np.inf)
    if np.isfinite(top):
        levels = np.linspace(-10.0, 0.0, 11)
        ax.contourf(x, y, np.maximum(logs - top, -10.0), levels=levels, cmap="Greys", vmin=-10.0, vmax=8.0)


def _mass(ax: Axes, x: np.ndarray, y: np.ndarray, logs: np.ndarray) -> None:
    """Draw contours of a density that hold 90 % and 50 % of what is shown; x (n,), y (m,), logs (m, n)."""
    density = np.exp(logs - logs.max()) if np.isfinite(logs.max()) else np.zeros_like(logs)
    levels = highest(density)
    if levels[0] < levels[1]:
        ax.contour(x, y, density, levels=levels, colors=COLOURS[0])


def _nodes(ax: Axes, theta: np.ndarray, failed: np.ndarray, new: int) -> None:
    """Mark evaluations theta (n, 2): the last ``new`` in colour, failed (n,) ones by crosses."""
    fresh = np.arange(len(theta)) >= len(theta) - new
    marks: Sequence[tuple[np.ndarray, str, str]] = (
        (~failed & ~fresh, "o", "black"),
        (~failed & fresh, "o", COLOURS[1]),
        (failed, "x", COLOURS[1]),
    )
    for which, mark, colour in marks:
        ax.plot(*theta[which].T, mark, ms=3, color=colour, ls="none")


def _limits(ax: Axes, rows: pd.DataFrame) -> None:
    ax.set_xlabel("$x_1$")
    ax.set_xlim(rows["x"].min(), rows["x"].max())
    ax.set_ylim(rows["y"].min(), rows["y"].max())
    ax.grid(False)


_NEAR = 0.1
"""The largest error in nats, with which a Bayes factor is known to a tenth."""
CLAIMS = (
    Statement("7.3.1", "VBMC finds the evidence of a posterior in the plane from some tens of evaluations.",
              f"at the end the log evidence is within {_NEAR} nats of the truth",
              "error", level=_NEAR, shown="error of the log evidence",
              rows=only("part", "evidence")),
)  # fmt: skip


experiment = Experiment(
    name="vbmc-2d",
    title="VBMC: a run in two dimensions",
    summary="Where does VBMC evaluate? Nodes, surrogate and posterior of runs in the plane at growing "
    "budgets.",
    cases=_cases,
    run=run,
    draw=draw,
    claims=statements.of(CLAIMS),
    seeds=5,
    quick_seeds=1,
)
