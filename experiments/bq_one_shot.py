"""Bayesian quadrature of the gradient: one shot, every estimator against a million quasi-random points.

At q of the start, midway, on the path and at the optimum (`bq_references`), from n = 2 to 50 evaluations of
the log joint, with its gradient where the estimator uses it and none kept from before:

    MSE = |E error|^2 + E |error - E error|^2 = bias^2 + variance

of the gradient in units whitened by q, sums over all coordinates. Coverage is the share of coordinates whose
95 % interval holds the reference. `REPLICATES` estimates are made for each seed and n, and bias^2 is
estimated without bias from all of them: |mean error|^2 less its expectation under no bias.

`bqvi run bq-one-shot --seeds 40` narrows the bands. Derivative processes are left out above n D = 250.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature, ControlVariate, Estimator, Pathwise, Score
from bqvi.gradients.designs import AntitheticOrthogonal, Independent, Optimised, Sobol
from bqvi.gradients.gradient import Batch
from bqvi.models import LogJoint
from experiments import drawing
from experiments.bq_references import MANY, PLACES, flat, place, reference, target_named, whitened
from experiments.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.gradient_targets import GradientTarget
from experiments.quadrature_runs import label_budgets

STL = "sticking-the-landing"
NORMAL = 1.959964
REPLICATES = 1
SIZES = (2, 5, 10, 20, 50)
MOST_NUMBERS = 250
"""Largest n D of a derivative process."""
NAMES = ("banana", "logistic", "mixture", "wine", "schools-centred", "schools-noncentred")
_NO_DATA = Batch(None, 0)


@dataclass(frozen=True)
class Choice:
    """An estimator of n evaluations."""

    make: Callable[[int], Estimator]
    least: int = 1
    """Fewest evaluations."""
    values_only: bool = False
    most_numbers: float = np.inf
    """Largest n D."""


CHOICES: Mapping[str, Choice] = {
    "score, optimal baseline": Choice(lambda n: Score(n, baseline="optimal"), least=3),
    "pathwise": Choice(Pathwise),
    STL: Choice(lambda n: Pathwise(n, STL)),
    "STL, Sobol": Choice(lambda n: Pathwise(n, STL, Sobol())),
    "STL, antithetic-orthogonal": Choice(lambda n: Pathwise(n, STL, AntitheticOrthogonal())),
    "BQ, values": Choice(lambda n: _quadrature(n, "auto"), least=5, values_only=True),
    "BQ, cross-fitted": Choice(lambda n: ControlVariate(n, memory=0), least=5),
    "BQ, separable": Choice(lambda n: _quadrature(n, "separable")),
    "BQ, derivatives": Choice(lambda n: _quadrature(n, "derivative"), most_numbers=MOST_NUMBERS),
    "BQ, optimised design": Choice(lambda n: BayesianQuadrature(n, Optimised(), 0, process="separable")),
}
STROKES = drawing.strokes(CHOICES)
QUICK = (STL, "BQ, separable", "BQ, derivatives")


def _quadrature(n: int, process: str) -> BayesianQuadrature:
    return BayesianQuadrature(n, Independent(), memory=0, process=process)


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each estimator at each place of each target."""
    del resources
    names, places, chosen = (("banana",), ("midway",), QUICK) if quick else (NAMES, PLACES, tuple(CHOICES))
    sizes, many = ((5, 10), 2**14) if quick else (SIZES, MANY)
    return [
        Case(
            f"{name}, {where}: {estimator}",
            {"target": name, "place": where, "estimator": estimator, "sizes": sizes, "points": many},
        )
        for name in names
        for where in places
        for estimator in chosen
    ]


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each n and replicate: squared error, coverage, and the errors themselves."""
    settings = case.settings
    target, q = target_named(settings["target"]), place(settings["target"], settings["place"])
    truth = reference(settings["target"], settings["place"], settings["points"])
    choice = CHOICES[settings["estimator"]]
    rows = []
    for n in settings["sizes"]:
        if n < choice.least or n * target.dimension > choice.most_numbers:
            continue
        for replicate in range(REPLICATES):
            # the same numbers for all estimators that draw from q independently
            rng = np.random.default_rng([seed, n, replicate])
            error, covered = _errors(choice, target, q, truth, n, rng)
            row = {"n": n, "replicate": replicate, "squared": float(error @ error), "covered": covered}
            rows.append(row | {"error": " ".join(f"{e:.6g}" for e in error)})
    return pd.DataFrame(rows)


def _errors(
    choice: Choice, target: GradientTarget, q: Gaussian, truth: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The error, and the share of coordinates covered; NaN where the estimator has no error bars."""
    model = _without_gradient(target) if choice.values_only else target.model()
    found = choice.make(n)(model, q, _NO_DATA, rng)
    natural = found.values if found.natural else q.gradient_to_natural(found.values)
    error = whitened(q, natural) - truth
    if found.surrogate is None:
        return error, float("nan")
    sd = flat(found.surrogate.standard_deviations())
    return error, float(np.mean(np.abs(error) <= NORMAL * sd))


def _without_gradient(target: GradientTarget) -> LogJoint:
    import torch

    def values(theta: np.ndarray) -> np.ndarray:
        found: np.ndarray = target.log_density(torch.from_numpy(theta)).numpy()
        return found

    return LogJoint(values, target.dimension, gradient=None)


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw MSE relative to sticking-the-landing, and coverage, against n."""
    return [_figure(results, where) for where in results["place"].unique()]


def _figure(results: pd.DataFrame, where: str) -> Drawing:
    here = results[results["place"] == where]
    names = list(here["target"].unique())
    figure, axes = drawing.figure(2, len(names), size=(2.4, 2.3), sharex=True, sharey="row")
    for column, name in enumerate(names):
        rows = here[here["target"] == name]
        typical = rows[rows["estimator"] == STL].groupby("n")["squared"].mean()
        per_seed = rows.groupby(["case", "estimator", "seed", "n"], sort=False, as_index=False)
        table = per_seed[["squared", "covered"]].mean()
        table["ratio"] = table["n"].map(typical) / table["squared"]
        for ax, y in zip(axes[:, column], ("ratio", "covered"), strict=True):
            drawing.curves(
                ax, table.dropna(subset=[y]), "n", y, by="estimator", lines=STROKES, steps=False,
                x_scale="log", y_scale="log" if y == "ratio" else "linear", x_label="", y_label="",
            )  # fmt: skip
        axes[0, column].set_title(name)
        axes[1, column].axhline(0.95, color="grey", linewidth=0.8)
        axes[1, column].set_xlabel("evaluations")
        label_budgets(axes[1, column], table["n"])
    axes[0, 0].set_ylabel("MSE(STL) / squared error")
    axes[1, 0].set_ylabel("coverage of 95 % intervals")
    drawing.legend_below(figure, axes, columns=5)
    caption = (
        f"At the {where}: the mean squared error of sticking-the-landing over the squared error of each "
        f"estimator, and the share of coordinates in the 95 % interval. {drawing.band_caption(results)}"
    )
    return Drawing(where, figure, caption)


def decomposed(results: pd.DataFrame) -> pd.DataFrame:
    """Return MSE, bias^2, variance and coverage of each estimator, place, target and n."""
    keys = ["target", "place", "estimator", "n"]
    rows = []
    for names, group in results.groupby(keys, sort=False):
        errors = np.array([[float(e) for e in text.split()] for text in group["error"]])
        spread = float(errors.var(0, ddof=1).sum()) if len(errors) > 1 else float("nan")
        mean = errors.mean(0)
        line: dict[str, Any] = dict(zip(keys, names, strict=True))
        line["mse"] = float(group["squared"].mean())
        line["bias^2"] = max(float(mean @ mean) - spread / len(errors), 0.0)
        line["variance"] = spread
        line["coverage"] = float(group["covered"].mean())
        rows.append(line)
    return pd.DataFrame(rows)


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate gains over sticking-the-landing, bias and variance, and coverage."""
    parts = decomposed(results)
    typical = parts[parts["estimator"] == STL].set_index(["target", "place", "n"])["mse"]
    index = pd.MultiIndex.from_frame(parts[["target", "place", "n"]])
    parts["gain"] = typical.reindex(index).to_numpy() / parts["mse"]
    made = [_gains(parts), Table("bias-variance", _shown(parts), "At n = 20 (or the largest below).")]
    judged = parts[(parts["n"] >= 10) & parts["coverage"].notna()]
    if len(judged):
        made.append(_coverage(judged))
    return made


def _gains(parts: pd.DataFrame) -> Table:
    wide = parts.assign(at=parts["target"] + ", " + parts["place"]).pivot_table(
        index=["at", "estimator"], columns="n", values="gain", sort=False
    )
    wide = wide[sorted(wide.columns)]
    frame = wide.map("{:.3g}".format).replace("nan", "").reset_index()
    return Table("gains", frame, "MSE of sticking-the-landing / MSE, by n.")


def _shown(parts: pd.DataFrame) -> pd.DataFrame:
    n = max(size for size in parts["n"].unique() if size <= 20)
    columns = ["mse", "bias^2", "variance", "coverage", "gain"]
    shown = pd.DataFrame(parts[parts["n"] == n].drop(columns="n"))
    shown[columns] = shown[columns].map("{:.2g}".format).replace("nan", "")
    return shown


def _coverage(judged: pd.DataFrame) -> Table:
    grouped = judged.groupby("estimator", sort=False)["coverage"]
    frame = grouped.agg(["mean", "min"]).round(3).reset_index()
    worst = judged.loc[grouped.idxmin()].set_index("estimator")
    where = worst["target"] + ", " + worst["place"] + ", n = " + worst["n"].astype(str)
    frame["worst at"] = frame["estimator"].map(where)
    return Table("coverage", frame, "Coverage of 95 % intervals, n >= 10, over targets, places and n.")


experiment = Experiment(
    name="bq-one-shot",
    title="The ELBO's gradient in one shot",
    summary="""Bias, variance and mean squared error of every estimator of the ELBO's gradient at equal
    numbers of evaluations of the log joint, and how often the 95 % intervals of Bayesian quadrature hold, on
    six targets, at the start, midway, on the path and at the optimum. Nothing is kept from earlier steps.""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
    quick_seeds=2,
)
