"""Gradient descent and the cone of positive definite matrices: two choices of coordinates.

The thesis takes steps in (alpha, m, C) themselves (Eqs 3.41 to 3.43, 4.1 to 4.3), in which C_k may cease to
be positive definite; in the author's program alpha is raised to 0.1 after a step. With the natural gradient
(g_alpha, g_1, g_2) at q, those directions are

    dL/dalpha = F g_alpha,    dL/dm = g_1 + 2 g_2 m,    dL/dC = g_2,

and `Raw` is that as a geometry of `bqvi`. It is compared with the package's own, `Euclidean`, which moves ln
alpha and a Cholesky factor. Figures 6.1 to 6.3 are also repeated in these coordinates, with the numbers of
steps of the author's program; SNGD and CAVI are the same in any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bqvi import Exponential
from bqvi.arrays import Values, add
from bqvi.families import Product
from bqvi.gradients import Gradient
from experiments import fitting
from experiments.harness import comparison, drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.evidence import LEVEL, at_level
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import quartiles
from experiments.thesis import settings as thesis

__all__ = ["Raw", "experiment"]

_STEPS = 60
_LEAST_ALPHA = 0.1
_OUTSIDE = "first iteration outside"
_RAW, _OURS = "(alpha, m, C)", "(ln alpha, m, Cholesky)"
_METHODS = {"GD": ("gd", None), "SGD, S = 10": ("sgd", 10)}
_WORST = {"elbo": -np.inf, "eigenvalue": -np.inf, "log_likelihood_error": np.inf}
_FIGURES: dict[str, dict[str, dict[str, Any]]] = {
    "6.1": {
        "CAVI": {"method": "cavi", "steps": 32},
        "GD": {"method": "gd", "steps": 200},
        "SGD": {"method": "sgd", "minibatch": 100, "steps": 300},
        "SNGD": {"method": "sngd", "minibatch": 100, "steps": 300},
        "pathwise": {"method": "pathwise", "samples": 1, "steps": 60},
    },
    "6.2": {f"s = {s:g}": {"method": "gd", "s": s, "steps": 200} for s in (1.0, 3.0, 5.0, 10.0, 20.0)},
    "6.3": {f"S = {size}": {"method": "sgd", "minibatch": size, "steps": 300} for size in (10, 50, 100, 350)},
}


@dataclass(frozen=True)
class Raw:
    """Additive steps in (alpha, m, C) of Dir(alpha) prod N(m_k, C_k), as in the author's program.

    Parameters
    ----------
    scales : factor name -> multiple of the step
        1 for the weights and 1e-3 for the means in the thesis.
    """

    scales: Mapping[str, float] = field(default_factory=lambda: {"weights": 1.0, "means": 1e-3})

    def check(self, q: Product) -> None:
        """Any of the thesis' mixtures will do."""

    def direction(self, q: Product, gradient: Gradient) -> Values:
        """(dL/dalpha, dL/dm, dL/dC), scaled."""
        natural = gradient.values if gradient.natural else q.gradient_to_natural(gradient.values)
        g_alpha, g_1, g_2 = natural
        (alpha,) = q["weights"].fisher_product((g_alpha,))
        mean = g_1 + 2.0 * (g_2 @ q["means"].mean[..., None])[..., 0]
        weights, means = self.scales["weights"], self.scales["means"]
        return weights * alpha, means * mean, means * g_2

    def move(self, q: Product, increment: Values) -> Product:
        """Add the increment; alpha is kept above `_LEAST_ALPHA`; C is not constrained."""
        alpha, mean, covariance = add(self.coordinates(q), increment)
        return self.at(q, (np.maximum(alpha, _LEAST_ALPHA), mean, covariance))

    def coordinates(self, q: Product) -> Values:
        """(alpha, m, C)."""
        return q["weights"].concentration, q["means"].mean, q["means"].covariance

    def at(self, q: Product, coordinates: Values) -> Product:
        """q at (alpha, m, C), whatever C is."""
        alpha, mean, covariance = coordinates
        precision = np.linalg.inv(covariance)
        natural = ((precision @ mean[..., None])[..., 0], -0.5 * precision)
        return Product(
            {"weights": q["weights"].from_natural((alpha,)), "means": q["means"].from_natural(natural)}
        )


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return GD and SGD in both coordinates, and CAVI, which finds the nearest maximum of the ELBO."""
    steps = thesis.QUICK_STEPS if quick else _STEPS
    made = [
        thesis.case(_name(name, where), method, minibatch=size, steps=steps, coordinates=where)
        for where in (_RAW, _OURS)
        for name, (method, size) in _METHODS.items()
    ]
    again = [
        thesis.case(
            f"{figure}: {name}", **{**chosen, "steps": min(chosen["steps"], steps) if quick else
            chosen["steps"]}, coordinates="natural" if chosen["method"] in ("cavi", "sngd") else _RAW,
        figure=figure, )
        for figure, cases in _FIGURES.items() for name, chosen in cases.items()
    ]  # fmt: skip
    return [*made, thesis.case("CAVI", "cavi", steps=steps, coordinates="natural"), *again]


def _name(method: str, where: str) -> str:
    return f"{method}, {where}"


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Run one case; recorded are the ELBO and the smallest eigenvalue of all C_k."""
    chosen = case.settings
    model, clusters, start = thesis.problem(seed)
    choices = thesis.method_choices(chosen)
    if chosen["coordinates"] == _RAW:
        choices |= {"geometry": Raw(), "schedule": Exponential(chosen["s"], thesis.DECAY)}
    return fitting.frame(
        model,
        clusters.x,
        **choices,
        metrics={
            "eigenvalue": _smallest_eigenvalue,
            "log_likelihood_error": thesis.metrics(model, clusters)["log_likelihood_error"],
        },
        worst=_WORST,
        start_from=start,
        steps=chosen["steps"],
        record=fitting.spread_records(chosen["steps"]) if "figure" in chosen else 1,
        seed=seed,
    )


def _smallest_eigenvalue(q: Any) -> float:
    covariance = q["means"].covariance
    return float(np.linalg.eigvalsh(covariance).min()) if np.isfinite(covariance).all() else np.nan


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the smallest eigenvalue and the ELBO against iterations, and Figures 6.1 to 6.3."""
    again = _figures(results)
    results = results[results["figure"].isna()]
    made, axes = drawing.figure(1, 2, size=(4.4, 3.2))
    lines = comparison.line_styles(results["case"])
    drawing.curves(
        axes[0, 0], results, "iteration", "eigenvalue", y_scale="symlog", linthresh=1e-3,
        y_label="smallest eigenvalue of all $C_k$", lines=lines,
    )  # fmt: skip
    axes[0, 0].axhline(0.0, color="black", linewidth=0.8)
    drawing.curves(axes[0, 1], results, "iteration", "elbo", y_label="ELBO (nats)", lines=lines)
    drawing.legend_below(made, axes, columns=3)
    caption = (
        "Left: below the line some C_k is no covariance; the axis is linear within 0.001 of 0. Right: "
        "beyond that line the value of the ELBO's formula has no meaning; it exceeds that of CAVI. "
        + drawing.band_caption(results)
    )
    return [Drawing("eigenvalue", made, caption), again]


def _figures(results: pd.DataFrame) -> Drawing:
    """The three figures, by the error that the thesis has."""
    made, axes = drawing.figure(1, 3, size=(3.1, 3.0), sharey=True)
    for ax, (figure, cases) in zip(axes.flat, _FIGURES.items(), strict=True):
        rows = results[(results["figure"] == figure) & (results["iteration"] > 0)]
        rows = rows.assign(case=rows["case"].str.removeprefix(f"{figure}: "))
        drawing.curves(
            ax, rows, "iteration", "log_likelihood_error", x_scale="log", y_scale="symlog", linthresh=10.0,
            lines=drawing.line_styles(cases), y_label="log-likelihood error (nats)" if figure == "6.1" else
        "", )  # fmt: skip
        left = _left(rows).groupby("case")["left"].median()
        for name, style in drawing.line_styles(cases).items():
            if (until := float(left.get(str(name), np.inf))) < np.inf:
                ax.axvline(until, color=style.colour, linewidth=0.8, linestyle=":")
        ax.set_title(f"Figure {figure}")
        ax.legend(fontsize=6)
    caption = (
        "The thesis' figures in (alpha, m, C), its steps exp(-0.01 t) times s, its mini-batches and the "
        "numbers of "
        "steps of its program. Dotted: the median iteration from which on some C_k is no covariance. "
        f"{drawing.band_caption(results)}"
    )
    return Drawing("thesis-figures", made, caption)


def _left(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each run: the iteration after which some C_k is not positive definite, or infinity."""
    rows = []
    for (case, seed), one in results.groupby(["case", "seed"], sort=False):
        out = one.loc[~(one["eigenvalue"] > 0.0), "iteration"]
        rows.append({"case": case, "seed": seed, "left": float(out.iloc[0]) if len(out) else np.inf})
    return pd.DataFrame(rows)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the iteration at which each case left the cone."""
    columns = {"left": "first iteration outside the cone"}
    caption = "inf: never. Median [lower quartile, upper quartile] over seeds."
    return [Table("left", quartiles(_left(results), columns), caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check that gradient descent with the thesis' coordinates stays in the domain."""
    left = _left(results)
    checks: list[Check] = [
        at_level(left, _name(m, where), "left", np.inf, _name(m, where), higher=True, shown=_OUTSIDE)
        for where in (_RAW, _OURS)
        for m in _METHODS
    ]
    figures = [name for name, chosen in _FIGURES["6.2"].items() if chosen["s"] <= 5.0]
    ends = results.groupby(["case", "seed"], sort=False).tail(1)
    return [
        Claim(
            "6.2, 6.3",
            "Gradient descent in the thesis' coordinates converges.",
            f"it ends within {LEVEL:g} nats of the truth, with every C_k positive definite from start to end",
            [
                at_level(ends, name, "log_likelihood_error", LEVEL, name, shown="final error")
                & at_level(left, name, "left", np.inf, name, higher=True, shown=_OUTSIDE)
                for name in (
                    *(f"6.2: {name}" for name in figures),
                    *(f"6.3: {name}" for name in _FIGURES["6.3"]),
                )
            ],
        ),
        Claim(
            "3.4, 4.1",
            "The ELBO can be maximised by gradient steps in the variational parameters.",
            "every C_k stays positive definite for 60 iterations with the thesis' steps",
            checks,
        ),
    ]


experiment = Experiment(
    name="domain",
    title="Steps out of the domain",
    summary="""Do gradient steps leave the domain of the parameters? The thesis' steps are taken in alpha, m
    and C themselves, times 1, 1e-3 and 1e-3. A step along dL/dC that suits a C_k as wide as the start is far
    too long for one as narrow as at the end, 1 / (N_k + 1): it ends outside of the cone of positive definite
    matrices, where responsibilities and ELBO are still finite numbers, so that no error is raised. Steps in
    ln alpha and the Cholesky factor stay in the domain.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
