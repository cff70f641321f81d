"""Bayesian quadrature of the gradient: one shot, every estimator against a million quasi-random points.

At q of the start, midway, on the path and at the optimum (`references`), from n = 2 to 50 evaluations of
the log joint, with its gradient where the estimator uses it:

    MSE = |E error|^2 + E |error - E error|^2 = bias^2 + variance

of the gradient in units whitened by q, sums over all coordinates. `_REPLICATES` estimates are made for each
seed and n, and bias^2 is estimated without bias from all of them: |mean error|^2 less its expectation under
no bias.

No evaluations of earlier steps are kept, except for the two designs that need a process beforehand: nodes
chosen by integral-variance reduction and by uncertainty. These are given n // 2 independent evaluations at
the same q first, which count in n; processes are then of all n.

Coverage is the share of coordinates whose 95 % interval holds the reference: for Bayesian quadrature in
whitened units, +- 1.96 of its standard errors; for Monte Carlo in the estimator's own coordinates,
+- Student's quantile for L - 1 degrees of freedom times its standard error from L draws. Quasi-random and
antithetic draws have none.

The default takes a process on derivatives up to n D = 400, a separable one above. Where one of them is asked
for by name, it is left out above n D = 250. `bqvi run bq-one-shot --seeds 40` narrows the bands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from bqvi.arrays import Values
from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature, Estimator, Pathwise, RememberingEstimator, Score
from bqvi.gradients.designs import AntitheticOrthogonal, Independent, MomentVarianceReduction, NodeRule, Sobol
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.memory import Memory
from bqvi.gradients.surrogates import Observed, OnGradients
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from bqvi.models import LogJoint
from experiments.gradients.optimised_nodes import Optimised
from experiments.gradients.references import MANY, PLACES, place, reference, target_named, whitened
from experiments.gradients.runs import without_gradient
from experiments.gradients.uncertain_nodes import GradientUncertainty
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, grid
from experiments.harness.statements import Statement
from experiments.problems.gradient_targets import GradientTarget

__all__ = ["CHOICES", "DEFAULT", "STL", "OneShotChoice", "decomposed", "experiment", "run", "unflat"]

STL = "sticking-the-landing"
DEFAULT = "BQ, default"
_SEPARABLE = "BQ, separable"
_LEVEL = 0.975
_NORMAL = 1.959964
"""The normal quantile of 95 % intervals."""
_REPLICATES = 1
_SIZES = (2, 5, 10, 20, 50)
_MOST_NUMBERS = 250
"""The largest n D of a process on derivatives."""
_NAMES = ("banana", "logistic", "mixture", "wine", "schools-centred", "schools-noncentred")
_NO_DATA = Batch(None, 0)


@dataclass(frozen=True)
class OneShotChoice:
    """An estimator of n evaluations."""

    make: Callable[[int], Estimator]
    """The nodes, n; or n - n // 2 of the present step, if there are earlier ones."""
    before: Callable[[int], RememberingEstimator] | None = None
    """Of n // 2 evaluations before."""
    least: int = 1
    """Fewest evaluations."""
    values_only: bool = False
    most_numbers: float = np.inf
    """Largest n D."""


def _quadrature(process: str = "separable", design: NodeRule | None = None) -> Callable[[int], Estimator]:
    return lambda n: BayesianQuadrature(n, design or Independent(), memory=0, process=process)


def _chosen(design: NodeRule) -> OneShotChoice:
    """Half of the nodes independent, the others by a design that asks for a process."""
    return OneShotChoice(
        lambda n: BayesianQuadrature(n, design, process="separable"),
        before=lambda n: BayesianQuadrature(n, Independent(), initial_nodes=n, process="separable"),
        least=2,
    )


_DESIGNS: Mapping[str, OneShotChoice] = {
    STL: OneShotChoice(lambda n: Pathwise(n, STL, errors=True)),
    _SEPARABLE: OneShotChoice(_quadrature()),
    "BQ, Sobol nodes": OneShotChoice(_quadrature(design=Sobol())),
    "BQ, antithetic-orthogonal nodes": OneShotChoice(_quadrature(design=AntitheticOrthogonal())),
    "BQ, optimised nodes": OneShotChoice(_quadrature(design=Optimised())),
    "BQ, variance-reducing nodes": _chosen(MomentVarianceReduction()),
    "BQ, uncertain nodes": _chosen(GradientUncertainty()),
}
"""How nodes are chosen."""
_ESTIMATORS: Mapping[str, OneShotChoice] = {
    "score, leave-one-out": OneShotChoice(lambda n: Score(n, "leave-one-out", errors=True)),
    "score, optimal baseline": OneShotChoice(lambda n: Score(n, "optimal", errors=True), least=3),
    "pathwise": OneShotChoice(lambda n: Pathwise(n, errors=True)),
    STL: _DESIGNS[STL],
    "STL, Sobol": OneShotChoice(lambda n: Pathwise(n, STL, Sobol())),
    "STL, antithetic-orthogonal": OneShotChoice(lambda n: Pathwise(n, STL, AntitheticOrthogonal())),
    "BQ, values": OneShotChoice(_quadrature("auto"), least=5, values_only=True),
    DEFAULT: OneShotChoice(_quadrature("auto")),
    _SEPARABLE: _DESIGNS[_SEPARABLE],
    "BQ, derivatives": OneShotChoice(_quadrature("derivative"), most_numbers=_MOST_NUMBERS),
    "BQ, joint": OneShotChoice(_quadrature("joint"), most_numbers=_MOST_NUMBERS),
}
"""The estimators from independent nodes, and Monte Carlo with other draws."""
_GROUPS = {"estimators": _ESTIMATORS, "designs": _DESIGNS}
CHOICES: Mapping[str, OneShotChoice] = {**_ESTIMATORS, **_DESIGNS}
_LINE_STYLES = drawing.line_styles((*_DESIGNS, *_ESTIMATORS))
_QUICK = (
    STL, _SEPARABLE, "BQ, derivatives", "BQ, joint", "BQ, variance-reducing nodes",
)  # fmt: skip


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each estimator at each place of each target."""
    names, places, chosen = (("banana",), ("midway",), _QUICK) if quick else (_NAMES, PLACES, tuple(CHOICES))
    sizes, many = ((5, 10), 2**14) if quick else (_SIZES, MANY)
    shared = {"sizes": sizes, "points": many}
    return grid("{target}, {place}: {estimator}", shared, target=names, place=places, estimator=chosen)


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
        for replicate in range(_REPLICATES):
            # the same random numbers for all estimators that draw from q independently
            rng = np.random.default_rng([seed, n, replicate])
            error, covered = _errors(choice, target, q, truth, n, rng)
            row = {"n": n, "replicate": replicate, "squared": float(error @ error), "covered": covered}
            rows.append(row | {"error": " ".join(f"{e:.6g}" for e in error)})
    return pd.DataFrame(rows)


def _errors(
    choice: OneShotChoice,
    target: GradientTarget,
    q: Gaussian,
    truth: np.ndarray,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """The error, and the share of coordinates covered; NaN where the estimator has no error bars."""
    found = _estimated(choice, without_gradient(target) if choice.values_only else target.model(), q, n, rng)
    natural = found.values if found.natural else q.gradient_to_natural(found.values)
    error = whitened(q, natural) - truth
    if found.surrogate is not None:
        sd = np.sqrt(np.diagonal(found.surrogate.covariance()))  # type: ignore[attr-defined]
        return error, float(np.mean(np.abs(error) <= _NORMAL * sd))
    return error, _covered(q, found, truth)


def _estimated(
    choice: OneShotChoice, model: LogJoint, q: Gaussian, n: int, rng: np.random.Generator
) -> Gradient:
    if choice.before is None:
        return choice.make(n)(model, q, _NO_DATA, rng)
    first, second = choice.before(n // 2), choice.make(n - n // 2)
    memory = first(model, q, _NO_DATA, rng, first.start(model, q)).memory
    found: Gradient = second(model, q, _NO_DATA, rng, memory)  # type: ignore[call-arg]
    return found if found.surrogate is None else _of_all(found, q)


def _of_all(found: Gradient, q: Gaussian) -> Gradient:
    """The same with hyperparameters fitted to all nodes; those of a memory are fitted to the first."""
    frame, kept, kind = WhitenedFrame.of(q), found.memory, OnGradients()
    assert isinstance(kept, Memory)
    points = frame.whiten(kept.points)
    observed = Observed(points, kind.targets(frame, points, kept.values, kept.gradients))
    process = kind.process(observed, kind.fit(observed, None))
    return replace(found, values=frame.natural_gradient(process.at_q), surrogate=process)


def _covered(q: Gaussian, found: Gradient, truth: np.ndarray) -> float:
    """The share of the estimator's own coordinates whose interval holds the truth, (D + D (D + 1) / 2,)."""
    if found.standard_error is None:
        return float("nan")
    natural = WhitenedFrame.of(q).natural_gradient(unflat(truth, q.dimension))
    known = natural if found.natural else q.gradient_to_unconstrained(natural)
    missed = np.abs(_lower(found.values) - _lower(known))
    return float(np.mean(missed <= student.ppf(_LEVEL, found.samples - 1) * _lower(found.standard_error)))


def _lower(values: Values) -> np.ndarray:
    """The first array, and the lower triangle of the second."""
    first, second = values
    return np.concatenate([first, second[np.tril_indices(len(first))]])


def unflat(numbers: np.ndarray, dimension: int) -> WhitenedMoments:
    """The parts of which `references.flat` makes one vector."""
    lower = np.zeros((dimension, dimension))
    lower[np.tril_indices(dimension)] = numbers[dimension:]
    return WhitenedMoments(numbers[:dimension], lower + np.tril(lower, -1).T)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw MSE relative to sticking-the-landing, and coverage, against n."""
    return [
        _figure(results[results["estimator"].isin(choices)], where, group)
        for where in results["place"].unique()
        for group, choices in _GROUPS.items()
    ]


def _figure(results: pd.DataFrame, where: str, group: str) -> Drawing:
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
                ax, table.dropna(subset=[y]), "n", y, by="estimator", lines=_LINE_STYLES, steps=False,
                x_scale="log", y_scale="log" if y == "ratio" else "linear", x_label="", y_label="",
            )  # fmt: skip
        axes[0, column].set_title(name)
        axes[1, column].axhline(0.95, color="grey", linewidth=0.8)
        axes[1, column].set_xlabel("evaluations")
        drawing.label_budgets(axes[1, column], table["n"])
    axes[0, 0].set_ylabel("MSE(STL) / squared error")
    axes[1, 0].set_ylabel("coverage of 95 % intervals")
    drawing.legend_below(figure, axes, columns=4)
    caption = (
        f"{group.capitalize()} at the place {where!r}: the mean squared error of sticking-the-landing over "
        "the squared error of each estimator, and the share of coordinates in the 95 % interval, where it "
        f"states one. {drawing.band_caption(results)}"
    )
    return Drawing(f"{where}-{group}", figure, caption)


def decomposed(results: pd.DataFrame) -> pd.DataFrame:
    """Return MSE, bias^2, variance, coverage and its standard error, by estimator, place, target and n."""
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
        line["coverage_se"] = float(np.std(group["covered"], ddof=1) / np.sqrt(len(group)))
        rows.append(line)
    return pd.DataFrame(rows)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate gains over sticking-the-landing, bias and variance, and coverage."""
    parts = decomposed(results)
    typical = parts[parts["estimator"] == STL].set_index(["target", "place", "n"])["mse"]
    index = pd.MultiIndex.from_frame(parts[["target", "place", "n"]])
    parts["gain"] = typical.reindex(index).to_numpy() / parts["mse"]
    made = [
        _typical(parts),
        _gains(parts),
        Table("bias-variance", _shown(parts), "At n = 20 (or the largest below)."),
    ]
    judged = parts[(parts["n"] >= 10) & parts["coverage"].notna()]
    if len(judged):
        made.append(_coverage(judged))
    return made


def _typical(parts: pd.DataFrame) -> Table:
    """Gains averaged over targets by their logarithms."""
    logs = parts.assign(gain=np.log(parts["gain"]))
    found = logs.groupby(["place", "estimator", "n"], sort=False)["gain"].agg(["mean", "size"])
    whole = parts["target"].nunique()
    found["shown"] = [
        f"{np.exp(mean):.3g}" + (f" (of {size})" if size < whole else "")
        for mean, size in zip(found["mean"], found["size"], strict=True)
    ]
    wide = found["shown"].unstack("n")
    frame = wide[sorted(wide.columns)].fillna("").reset_index()
    caption = (
        f"MSE of sticking-the-landing / MSE, by n: geometric mean over {whole} targets, or as many as stand "
        "in brackets, where it was run on fewer."
    )
    return Table("typical-gains", frame, caption)


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
    frame["se of min"] = frame["estimator"].map(worst["coverage_se"]).round(3)
    frame["worst at"] = frame["estimator"].map(where)
    caption = (
        "Coverage of 95 % intervals, n >= 10, over targets, places and n. The least of as many averages "
        "over seeds is below its expectation by one or two standard errors."
    )
    return Table("coverage", frame, caption)


def _typical_errors(results: pd.DataFrame) -> pd.DataFrame:
    """The geometric mean over targets of the squared error at n = 20, or the least n."""
    n = max(size for size in results["n"].unique() if size <= 20 or size == results["n"].min())
    logs = results[results["n"] == n].assign(squared=lambda rows: np.log(rows["squared"]))
    means = logs.groupby(["place", "estimator", "seed"], sort=False)["squared"].mean()
    return means.map(np.exp).reset_index()


def _shares(results: pd.DataFrame) -> pd.DataFrame:
    rows = results[(results["n"] >= 10) & results["covered"].notna()]
    return rows.groupby(["place", "estimator", "seed"], sort=False)["covered"].mean().reset_index()


_CLAIMS = (
    Statement("7.2.1, 7.3.2",
              "From the same draws quadrature estimates the gradient more accurately than Monte Carlo.",
              "the geometric mean over targets of its squared error at n = 20 is smaller",
              "squared", {_SEPARABLE: [STL, "pathwise", "score, leave-one-out"]}, shown="squared error",
              rows=_typical_errors),
    Statement("7.2.2", "Quadrature states its error.", "95 % intervals hold in 93 to 97 %, n >= 10",
              "covered", [_SEPARABLE], between=(0.93, 0.97), rows=_shares),
)  # fmt: skip

experiment = Experiment(
    name="bq-one-shot",
    title="The ELBO's gradient in one shot",
    summary="""Which estimator of the ELBO's gradient has the smallest error at equal numbers of evaluations
    of the log joint? Bias, variance, mean squared error and how often 95 % intervals hold, on six targets,
    at the start, midway, on the path and at the optimum. No evaluations of earlier steps are used.""",
    cases=_cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="estimator", each="place"),
    quick_seeds=2,
)
