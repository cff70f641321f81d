"""Quadrature: the nodes that each acquisition function chooses, numbered in order.

The kernel is the same for all, fitted beforehand to `_DESIGN` Sobol points of the integrand, and the prior
mean is zero, so that only the acquisition differs. After three Sobol nodes,

    x_(n+1) = argmax a(x | x_1 .. x_n),        a one of

    uncertainty sampling         v(x) p(x)^2                       where f p is most uncertain
    variance reduction           r(x)^2 / v(x)                     the information of f(x) on the integral
    mutual information           -ln(1 - r^2 / (v V)) / 2          the same in nats
    upper confidence bound       lambda m(x) + v(x)                the measure does not enter
    WSABI-L, WSABI-M             uncertainty of f p for f = alpha + g^2/2, g a Gaussian process

with m and v mean and variance of f(x), V that of the integral and r their covariance. V is the same for
all x, so for one integral mutual information is largest where variance reduction is: the two choose the
same nodes up to the tolerance of the search.

The estimate is the integral of the posterior mean of f, for WSABI of alpha + m^2/2 (L) or
alpha + (m^2 + v)/2 (M) with the moments of g, by a Gauss-Hermite rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import gp
from acquisition.pointwise import Criterion, IntegralVarianceReduction, UncertaintySampling, bind
from acquisition.search import ContinuousSearch
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.problems.integrands import Integrand, banana, bump, bumps, standard
from experiments.quadrature.criteria import (
    LinearisedWarpedUncertainty,
    MatchedWarpedUncertainty,
    MutualInformation,
    UpperConfidenceBound,
)
from gp.kernels import Kernel
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Gaussian

__all__ = ["CHOICES", "ModelledIntegrand", "NodeChoice", "experiment", "fitted_kernel", "problems", "run"]

_DESIGN = 40
_START = 3
_REACH = 4.2
"""The range of the figures in standard deviations; the search ends at 4."""
_RULE = {1: 150, 2: 50}
_FLOOR = 0.8
_NOISE = 1e-8
_SEARCH = ContinuousSearch(max_evaluations=30, tolerance=1e-3)


@dataclass(frozen=True)
class NodeChoice:
    """A criterion (None for the Sobol sequence) and the modelled function: f, or its root (WSABI-L or -M)."""

    criterion: Criterion | None
    warped: bool = False
    matched: bool = False


CHOICES: Mapping[str, NodeChoice] = {
    "Sobol sequence": NodeChoice(None),
    "uncertainty sampling": NodeChoice(UncertaintySampling()),
    "variance reduction": NodeChoice(IntegralVarianceReduction()),
    "mutual information": NodeChoice(MutualInformation()),
    "UCB, lambda = 0": NodeChoice(UpperConfidenceBound(0.0)),
    "UCB, lambda = 0.1": NodeChoice(UpperConfidenceBound(0.1)),
    "UCB, lambda = 1": NodeChoice(UpperConfidenceBound(1.0)),
    "WSABI-L": NodeChoice(LinearisedWarpedUncertainty(), warped=True),
    "WSABI-M": NodeChoice(MatchedWarpedUncertainty(), warped=True, matched=True),
}
_QUICK = ("uncertainty sampling", "variance reduction", "WSABI-L")


def _two_bumps() -> Integrand:
    """A likelihood with two peaks on a line, one of them narrow and off the centre of N(0, 1)."""
    wide = bump("", "", standard(1), [-0.8], [[0.16]])
    narrow = bump("", "", standard(1), [1.3], [[0.04]])
    return bumps("two bumps, D = 1", (0.7, 1.0), (wide, narrow))


@cache
def problems() -> Mapping[str, tuple[Integrand, int]]:
    """Return the integrands by name, each with the number of nodes chosen."""
    return {"line": (_two_bumps(), 12), "plane": (banana(), 24)}


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return every acquisition on both integrands."""
    return [
        Case(f"{problem}: {name}", {"problem": problem, "acquisition": name, "nodes": 8 if quick else nodes})
        for problem, (_, nodes) in problems().items()
        for name in (_QUICK if quick else CHOICES)
    ]


@dataclass(frozen=True, eq=False)
class ModelledIntegrand:
    """The posterior of f, or of g where f = alpha + g^2/2."""

    choice: NodeChoice
    posterior: gp.Posterior
    alpha: float

    @staticmethod
    def of(choice: NodeChoice, kernel: Kernel, x: Any, y: Any) -> ModelledIntegrand:
        """Condition on values y of f at x."""
        alpha = _FLOOR * float(y.min()) if choice.warped else 0.0
        modelled = np.sqrt(2 * (y - alpha)) if choice.warped else y
        process = gp.GaussianProcess(kernel, noise=_NOISE)
        return ModelledIntegrand(choice, process.condition(x, modelled), alpha)

    def mean(self, x: Any) -> Any:
        """Return the mean of f, (n,)."""
        if not self.choice.warped:
            return self.posterior.mean(x)
        mean, variance = self.posterior.mean_and_variance(x)
        return self.alpha + 0.5 * (mean**2 + (variance if self.choice.matched else 0.0))

    def band(self, x: Any) -> tuple[Any, Any]:
        """Return the ends of the central interval that is two standard deviations wide on either side."""
        mean, variance = self.posterior.mean_and_variance(x)
        reach = 2 * np.sqrt(variance)
        if not self.choice.warped:
            return mean - reach, mean + reach
        ends = np.stack([mean - reach, mean + reach])
        least = np.where(ends[0] * ends[1] < 0, 0.0, np.min(ends**2, axis=0))
        return self.alpha + 0.5 * least, self.alpha + 0.5 * np.max(ends**2, axis=0)


@cache
def fitted_kernel(problem: str, warped: bool) -> Kernel:
    """Return the kernel of f, or of g, with the hyperparameters that all acquisitions share."""
    integrand, _ = problems()[problem]
    x = integrand.measure.from_unit_cube(scrambled_sobol(integrand.measure.dimension, _DESIGN, 12345))
    y = integrand.function(x)
    modelled = np.sqrt(2 * y) if warped else y
    dimension = integrand.measure.dimension
    kernel = gp.kernels.SquaredExponential(np.ones(dimension))
    return gp.fit(x, modelled, kernel, mean=gp.means.Zero(), noise=None).kernel


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the nodes in order with the estimate after each, and the surrogate at the end on a grid."""
    integrand, _ = problems()[case.settings["problem"]]
    choice = CHOICES[case.settings["acquisition"]]
    kernel = fitted_kernel(case.settings["problem"], choice.warped)
    x = _nodes(integrand, choice, kernel, case.settings["nodes"], seed)
    y = integrand.function(x)
    points, weights = _rule(integrand.measure.dimension)
    estimates = [
        float(weights @ ModelledIntegrand.of(choice, kernel, x[:n], y[:n]).mean(points))
        if n >= _START
        else np.nan
        for n in range(1, len(x) + 1)
    ]
    error = np.abs(np.array(estimates) / integrand.truth - 1)
    nodes = pd.DataFrame({"part": "nodes", "n": np.arange(1, len(x) + 1), "f": y, "error": error})
    return pd.concat(
        [nodes.assign(**_columns(x)), _grid(integrand, ModelledIntegrand.of(choice, kernel, x, y))],
        ignore_index=True,
    )


def _nodes(integrand: Integrand, choice: NodeChoice, kernel: Kernel, count: int, seed: int) -> Any:
    """Return ``count`` nodes (count, D), the first `_START` of them from the Sobol sequence."""
    measure = integrand.measure
    sequence = measure.from_unit_cube(scrambled_sobol(measure.dimension, count, seed))
    if choice.criterion is None:
        return sequence
    x, rng = sequence[:_START], np.random.default_rng(seed)
    while len(x) < count:
        posterior = ModelledIntegrand.of(choice, kernel, x, integrand.function(x)).posterior
        found = _SEARCH.maximise(bind(choice.criterion, posterior, measure), rng)
        x = np.concatenate([x, found.x])
    return x


@cache
def _rule(dimension: int) -> tuple[Any, Any]:
    """Return points (n, D) and weights (n,) of a Gauss-Hermite product rule for N(0, I)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_RULE[dimension])
    weights = weights / weights.sum()
    points = np.array(list(product(nodes, repeat=dimension)))
    return points, np.prod(np.array(list(product(weights, repeat=dimension))), axis=1)


def _columns(x: Any) -> dict[str, Any]:
    return {f"x{d + 1}": x[:, d] for d in range(x.shape[1])}


def _grid(integrand: Integrand, surrogate: ModelledIntegrand) -> pd.DataFrame:
    dimension = integrand.measure.dimension
    assert isinstance(integrand.measure, Gaussian)  # both integrands are against N(0, I)
    axis = np.linspace(-_REACH, _REACH, 253 if dimension == 1 else 43)
    x = np.array(list(product(axis, repeat=dimension)))
    low, high = surrogate.band(x)
    columns = {
        "f": integrand.function(x),
        "density": np.exp(integrand.measure.log_density(x)),
        "mean": surrogate.mean(x),
        "low": low,
        "high": high,
    }
    return pd.DataFrame({"part": "grid", **_columns(x), **columns})


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the nodes of the first seed on the line and in the plane, and errors over seeds."""
    first = results[results["seed"] == results["seed"].min()]
    line = _panels(first[first["problem"] == "line"], _on_the_line, (3.3, 2.6))
    plane = _panels(first[first["problem"] == "plane"], _in_the_plane, (2.9, 2.9))
    return [
        Drawing(
            "line",
            line,
            "Two bumps against N(0, 1), zero-mean process with the same kernel for all. Orange: integrand; "
            "grey: measure; blue: posterior mean and two standard deviations after all nodes. Below: the "
            f"nodes from the first (top) to the last; the first {_START}, grey, are the same for all.",
        ),
        Drawing(
            "plane",
            plane,
            "The banana exp(-2 (y - x^2)^2) against N(0, I) (dashed: one, two and three standard "
            "deviations). Orange: contours of the integrand times the density of the measure, whose integral "
            "is estimated; blue: posterior mean after all nodes. Numbers: nodes in order; "
            f"the first {_START}, grey, are the same for all.",
        ),
        Drawing(
            "error",
            _errors(results),
            f"Relative error of the integral against nodes. {drawing.band_caption(results)}",
        ),
    ]


def _panels(
    rows: pd.DataFrame, panel: Callable[[Axes, pd.DataFrame], None], size: tuple[float, float]
) -> Any:
    figure, _, panels = drawing.panels(rows, "acquisition", size=size, sharex=True, sharey=True)
    for ax, part in panels:
        panel(ax, part)
        ax.grid(False)
    return figure


def _parts(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return rows[rows["part"] == "nodes"], rows[rows["part"] == "grid"]


def _on_the_line(ax: Axes, rows: pd.DataFrame) -> None:
    blue, orange = drawing.COLOURS[:2]
    nodes, grid = _parts(rows)
    ax.fill_between(grid["x1"], 0, grid["density"], color="0.85", lw=0)
    ax.fill_between(grid["x1"], grid["low"], grid["high"], color=blue, alpha=0.2, lw=0)
    ax.plot(grid["x1"], grid["f"], color=orange, ls="--", lw=1.2)
    ax.plot(grid["x1"], grid["mean"], color=blue, lw=1.2)
    ax.plot(nodes["x1"], nodes["f"], "o", color="black", ms=3.5, zorder=4)
    top, bottom = -0.35, -1.5
    ax.axhspan(bottom - 0.2, top + 0.1, facecolor="white", edgecolor="0.7", lw=0.5, zorder=2)
    for n, x in zip(nodes["n"].astype(int), nodes["x1"], strict=True):
        y = top + (bottom - top) * (n - 1) / max(len(nodes) - 1, 1)
        colour = "0.5" if n <= _START else "black"
        ax.plot([x], [y], "o", color=colour, ms=2.5, zorder=3)
        ax.annotate(str(n), (x, y), (3, 0), textcoords="offset points", fontsize=7, va="center", color=colour)
    ax.set_ylim(bottom - 0.1, 1.7)
    ax.set_yticks([0, 0.5, 1, 1.5])


def _in_the_plane(ax: Axes, rows: pd.DataFrame) -> None:
    nodes, grid = _parts(rows)
    side = round(len(grid) ** 0.5)
    x, y, f, density, mean = (
        grid[name].to_numpy().reshape(side, side) for name in ("x1", "x2", "f", "density", "mean")
    )
    ax.contourf(x, y, np.clip(mean, 0, 1.04), levels=np.linspace(0.05, 1.05, 11), cmap="Blues", alpha=0.7)
    target = f * density
    ax.contour(
        x,
        y,
        target,
        levels=target.max() * np.array([0.05, 0.3, 0.7]),
        colors=drawing.COLOURS[1],
        linewidths=0.9,
    )
    angle = np.linspace(0, 2 * np.pi, 200)
    for radius in (1, 2, 3):
        ax.plot(radius * np.cos(angle), radius * np.sin(angle), color="0.5", lw=0.5, ls="--")
    for n, a, b in zip(nodes["n"].astype(int), nodes["x1"], nodes["x2"], strict=True):
        colour = "0.45" if n <= _START else "black"
        ax.plot([a], [b], "o", color="white", mec=colour, mew=0.6, ms=9, zorder=4)
        ax.text(a, b, str(n), fontsize=6, ha="center", va="center", color=colour, zorder=5)
    ax.set(aspect="equal", xlim=(-_REACH, _REACH), ylim=(-_REACH, _REACH))


def _errors(results: pd.DataFrame) -> Any:
    nodes = results[(results["part"] == "nodes") & (results["n"] >= _START)]
    lines = drawing.line_styles(nodes["acquisition"].unique())
    figure, axes = drawing.figure(1, 2, size=(4.2, 3.2))
    for ax, (name, rows) in zip(axes.flat, nodes.groupby("problem", sort=False), strict=True):
        drawing.curves(
            ax, rows, "n", "error", by="acquisition", lines=lines, steps=False, y_scale="log",
            x_label="nodes", y_label="relative error",
        )  # fmt: skip
        ax.set_title(problems()[str(name)][0].name)
    drawing.legend_below(figure, axes, columns=5)
    return figure


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate errors with all nodes, and the distances of the nodes from the centre."""
    nodes = results[results["part"] == "nodes"]
    rows = []
    for (problem, name), group in nodes.groupby(["problem", "acquisition"], sort=False):
        chosen = group[group["n"] > _START]
        radius = np.sqrt(chosen["x1"] ** 2 + (chosen["x2"] ** 2 if problem == "plane" else 0.0))
        error = group[group["n"] == group["n"].max()]["error"].median()
        rows.append(
            {
                "integrand": problems()[str(problem)][0].name,
                "acquisition": name,
                "relative error": f"{error:.2g}",
                "nodes beyond 3 sd": f"{(radius > 3).mean():.0%}",
            }
        )
    return [Table("errors", pd.DataFrame(rows), "Median over seeds with all nodes, and where the nodes are.")]


def _last(results: pd.DataFrame) -> pd.DataFrame:
    nodes = results[results["part"] == "nodes"]
    return nodes[nodes["n"] == nodes.groupby("problem")["n"].transform("max")]


_CLAIMS = tuple(
    Statement(source, says, "the relative error with all nodes is smaller", "error", {one: others},
              rows=_last)
    for source, says, one, others in (
        ("7.3.4, Eqs 7.17, 7.18",
         "The least expected variance of the integral is a better criterion than uncertainty.",
         "variance reduction", ["uncertainty sampling"]),
        ("7.3.4",
         "Greatest variance, an upper confidence bound with lambda = 0, chooses representative nodes.",
         "UCB, lambda = 0", ["Sobol sequence"]),
        ("7.3.4", "A criterion that contains the measure is better than an upper confidence bound.",
         "uncertainty sampling", ["UCB, lambda = 0", "UCB, lambda = 0.1", "UCB, lambda = 1"]),
    )
)  # fmt: skip


experiment = Experiment(
    name="quadrature-nodes",
    title="Quadrature: where to evaluate next",
    summary=(
        "Which nodes do acquisition functions choose, on a line and in the plane? Those that contain the "
        "measure place nodes where it has mass. The upper confidence bound does not contain it: with "
        "lambda = 0 its nodes fill the domain, with a large lambda they remain at the first peak. WSABI's "
        "nodes remain where f is known to be large; linearised (L), it places none in regions without "
        "evaluations."
    ),
    cases=_cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="acquisition", each="problem"),
    seeds=5,
    quick_seeds=1,
)
