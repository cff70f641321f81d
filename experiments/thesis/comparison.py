"""Estimators and choices of data in one loop: the questions of Sections 7.2 to 7.3.4, and their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import bqvi
from acquisition.minibatch import HorvitzThompson, Learning
from bqvi.gradients import Batch, BayesianQuadrature, Conjugate, Pathwise
from bqvi.gradients.designs import Independent
from bqvi.gradients.gradient import Combination
from bqvi.models.data import n_rows, take
from experiments import fitting
from experiments.gradients.references import whitened
from experiments.harness import comparison, drawing, evidence, statements
from experiments.harness.claims import Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement, only
from experiments.harness.summaries import quartiles
from experiments.thesis import settings as thesis
from experiments.thesis.comparison_problems import (
    ADAM,
    CELLS,
    DATA,
    DRAWS,
    ESTIMATORS,
    FULL,
    INSIDE,
    PROBLEMS,
    RATES,
    STEPS,
    TUNED,
    UNTUNED,
    Posed,
    fitted,
    possible,
)

__all__ = ["claims", "draw_errors", "error_cases", "experiment", "run", "tables"]

_LEVELS = {"mixture": 50.0, "logistic": 1.0, "Poisson": 1.0, "digits": 1.0}
"""ELBO gaps in nats to which costs are counted."""
_UNTUNED_ON = "logistic"
"""The problem on which all cells are run with the untuned schedule too."""
_RECORDS = 16
_LEAST, _MOST = 1e-3, 1e5
"""Nats; gaps beyond are drawn at these levels."""
_BATCHES = 50
"""Mini-batches of an error."""
_PLACES = (0, 10)
"""Exact steps before the q at which errors are measured."""
_ADAM_DATA = (FULL, "reshuffled")
_TWO, _EVERYWHERE = ("pathwise", "BQ"), (FULL, "without replacement", "reshuffled", "balanced")
_BY_NORM = "probabilities by norm"
"""Of the rows: only for errors of single gradients."""
_STATED = ("with replacement", "without replacement", "reshuffled", "balanced", "BQ weights")
_SCORES = ("score", "score, baseline")
_MONTE_CARLO = (*_SCORES, "pathwise", "STL")
_RANDOM = ("without replacement", "reshuffled")
_UNBIASED = ("balanced", "control variates", "control variates, balanced", "SAGA", "SVRG")
"""Those but the first keep gradients, whose error at one q says nothing of a run."""
_BIASED = (
    "herding", "BQ weights", "BQ weights, shrunk", "sequential BQ", "greatest variance", "upper confidence",
)  # fmt: skip
_FIGURE = ("CAVI", "SNGD", "SGD", "GD")
"""The methods of Figure 6.1 with exact expectations, whose q has Dirichlet weights."""


@cache
def _schedules() -> dict[str, Any]:
    return dict(json.loads(TUNED.read_text(encoding="utf-8"))) if TUNED.exists() else {}


def _name(problem: str, estimator: str, chosen: str, kind: str = "tuned") -> str:
    return f"{problem}: {estimator}, {chosen}" + (", untuned" if kind == "untuned" else "")


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return every cell, on one problem also untuned; the methods of Figure 6.1; coverages."""
    steps, names = (4, (_UNTUNED_ON,)) if quick else (STEPS, tuple(PROBLEMS))
    made = []
    for problem in names:
        for kind in ("tuned", "untuned") if problem == _UNTUNED_ON else ("tuned",):
            for estimator, chosen in [cell for cell in CELLS if possible(problem, cell[0])]:
                given = RATES[1] if estimator.endswith(ADAM) else UNTUNED
                tuned = _schedules().get(problem, {}).get(f"{estimator}, {chosen}", given)
                schedule = list(tuned if kind == "tuned" else given)
                made.append(_case(_name(problem, estimator, chosen, kind), problem, estimator, chosen, kind,
                                  schedule=schedule, steps=steps))  # fmt: skip
    if not quick:
        made += [
            _case(f"mixture: {method}", "mixture", method, FULL, "figure 6.1", thesis=dict(chosen.settings))
            for method, chosen in _of_figure()
        ]
    return [*made, *error_cases(quick)]


def error_cases(quick: bool, estimators: Sequence[str] = ("exact", *_TWO)) -> list[Case]:
    """Return the errors of single gradients, with each choice of data at each place."""
    batches, names = (
        (4, _STATED) if quick
        else (_BATCHES, [*(name for name in DATA if name not in _UNBIASED[1:]), _BY_NORM])
    )  # fmt: skip
    return [
        _case(f"errors after {place}: {estimator}, {chosen}", _UNTUNED_ON, estimator, chosen, "errors",
              place=place, batches=batches)
        for place in _PLACES
        for estimator in estimators
        for chosen in names
    ]  # fmt: skip


def _case(name: str, problem: str, estimator: str, chosen: str, kind: str, **more: Any) -> Case:
    settings = {"problem": problem, "estimator": estimator, "chosen": chosen, "kind": kind, **more}
    return Case(name, settings)


def _of_figure() -> Iterator[tuple[str, Case]]:
    yield "CAVI", thesis.case("CAVI", "cavi", steps=50)
    yield "SNGD", thesis.case("SNGD", "sngd", minibatch=100, steps=150)
    yield "SGD", thesis.case("SGD", "sgd", minibatch=100, s=thesis.TUNED["sgd"], steps=150)
    yield "GD", thesis.case("GD", "gd", s=thesis.TUNED["gd"], steps=150)


@lru_cache(maxsize=2)
def _posed(problem: str, seed: int) -> Posed:
    return PROBLEMS[problem](seed)


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the records of a run, or the coverage of stated errors."""
    chosen = case.settings
    if chosen["kind"] == "figure 6.1":
        return thesis.run(Case(case.name, chosen["thesis"]), seed)
    if chosen["kind"] == "errors":
        return _steps(chosen["estimator"], chosen["chosen"], chosen["place"], chosen["batches"], seed)
    record = fitting.spread_records(chosen["steps"], _RECORDS)
    return fitted(
        _posed(chosen["problem"], seed), chosen["estimator"], chosen["chosen"], chosen["schedule"],
        chosen["steps"], record, seed,
    )  # fmt: skip


def _steps(estimator: str, chosen: str, place: int, batches: int, seed: int) -> pd.DataFrame:
    """Errors of fresh gradients at one q, in its units: their mean square, squared bias, and coverage.

    Coverage is the share of parameters whose 95 % interval holds the exact one, NaN without intervals. q is
    that after ``place`` exact steps; after ten it is near the posterior.
    """
    posed, rng = _posed(_UNTUNED_ON, seed), np.random.default_rng(seed)
    model, data = posed.model, posed.model.check(posed.data)
    q = bqvi.fit(model, data, "ngd", start_from=posed.start, steps=place).q if place else posed.start
    exact = Conjugate()(model, q, Batch(data, n_rows(data)), rng).values
    made: Any = Conjugate() if estimator == "exact" else Pathwise(DRAWS, errors=True)
    if estimator == "BQ":
        made = BayesianQuadrature(DRAWS, Independent(), memory=0, process="separable", errors=True)
    strategy: Any = HorvitzThompson(posed.size, np.linalg.norm(posed.rows, axis=1))
    if chosen != _BY_NORM:
        strategy = DATA[chosen](posed.size, posed.features)
    state, held, errors = strategy.start(n_rows(data), rng), [], []
    for _ in range(batches):
        selection, drawn = strategy.draw(state, rng)
        combination = None
        if isinstance(strategy, Learning):
            combination = Combination(partial(strategy.estimate, drawn, selection))
        rows, weights = take(data, selection.indices), selection.weights.copy()
        corrections = getattr(strategy, "corrections", None)
        found = made(model, q, Batch(rows, len(weights), weights, combination, corrections=corrections), rng)
        state = drawn if combination is None else strategy.observe(drawn, selection, combination.terms)
        natural = found.values if found.natural else q.gradient_to_natural(found.values)
        errors.append(whitened(q, natural) - whitened(q, exact))
        if found.standard_error is not None:
            truth = exact if found.natural else q.gradient_to_unconstrained(exact)
            for value, error, true in zip(found.values, found.standard_error, truth, strict=True):
                used = np.asarray(error) > 0.0
                used = used if used.ndim == 1 else np.tril(used)  # each parameter once, in either coordinates
                held.append(np.abs(value - true)[used] <= 1.959964 * np.asarray(error)[used])
    square = float(np.square(errors).sum(1).mean())
    bias = float(np.square(np.mean(errors, 0)).sum())  # exceeds the squared bias by the variance / n
    bias = min(square, max(0.0, (bias - square / batches) / (1.0 - 1.0 / batches)))
    covered = float(np.concatenate(held).mean()) if held else np.nan
    row = {"iteration": 0, "elbo": 0.0, "squared": square, "bias": bias, "covered": covered}
    return pd.DataFrame([row])


def _one_step(results: pd.DataFrame) -> pd.DataFrame:
    """The errors of gradients, relative to those of uniform sampling with replacement."""
    rows = results[results["kind"] == "errors"]
    keys = ["problem", "estimator", "place", "seed"]
    uniform = rows[rows["chosen"] == "with replacement"].set_index(keys)["squared"].rename("uniform")
    rows = rows.join(uniform, on=keys)
    setting = rows["problem"] + rows["place"].map(lambda place: f", after {place:g} steps")
    return rows.assign(relative=rows["squared"] / rows["uniform"], problem=setting)


def _measured(results: pd.DataFrame) -> pd.DataFrame:
    """The runs of the cells, with their gaps to the best end of any on the problem and seed."""
    return evidence.with_gap(results[results["kind"].isin(["tuned", "untuned"])], ("problem", "seed"))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw estimators and choices of data, all costs, and Figure 6.1's measure on the thesis' mixture."""
    measured = _measured(results)
    measured = measured.assign(elbo_gap=measured["elbo_gap"].clip(_LEAST, _MOST))
    tuned = measured[measured["kind"] == "tuned"]
    made = [_overview(tuned), _costs(tuned), *draw_errors(results)]
    return [*made, _figure_again(results)] if (results["kind"] == "figure 6.1").any() else made


def _overview(tuned: pd.DataFrame) -> Drawing:
    problems = list(tuned["problem"].unique())
    figure, axes = drawing.figure(2, len(problems), size=(3.3, 3.2))
    lines = drawing.line_styles(ESTIMATORS)
    for column, problem in enumerate(problems):
        here = tuned[tuned["problem"] == problem]
        above, below = axes[0, column], axes[1, column]
        drawing.curves(
            above, here[(here["chosen"] == FULL) & (here["iteration"] > 0)], "evaluations", "elbo_gap",
            "estimator", x_scale="log", y_scale="log", lines=lines,
            y_label="ELBO gap (nats)" if column == 0 else "",
        )  # fmt: skip
        above.set_title(f"{problem}: estimators, all data")
        _ends(below, here, column == 0)
        below.set_title(f"{problem}: choices of data")
    drawing.mark_ends(axes[0], _LEAST, _MOST)
    drawing.legend_below(figure, axes, columns=5)
    caption = (
        f"ELBO gap to the best end of any run of the seed. Above: every estimator with all data and {DRAWS} "
        f"draws or nodes a step. Below: where the runs of {STEPS} steps end, with S of N data a step, by "
        "pathwise (circles) and BQ (squares); point: median, bar: quartiles; open: all data. Each cell has "
        f"the best schedule of a grid on another seed; gaps above {_MOST:g}, and runs that diverged, are "
        f"drawn there. {drawing.band_caption(tuned)}"
    )
    return Drawing("comparison", figure, caption)


def _ends(ax: Axes, here: pd.DataFrame, labelled: bool) -> None:
    """The final gaps of two estimators by choice of data, as points with quartiles."""
    names = (FULL, *DATA)
    last = here.groupby(["case", "seed"], sort=False).tail(1)
    lines = drawing.line_styles(ESTIMATORS)
    for offset, estimator, marker in ((-0.15, "pathwise", "o"), (0.15, "BQ", "s")):
        colour = lines[estimator].colour
        for place, name in enumerate(names):
            gaps = last[(last["estimator"] == estimator) & (last["chosen"] == name)]["elbo_gap"]
            low, middle, high = np.exp(np.quantile(np.log(gaps), [0.25, 0.5, 0.75]))
            ax.plot([low, high], [place + offset] * 2, color=colour, linewidth=1.2)
            ax.plot(middle, place + offset, marker, color=colour, markersize=4,
                    markerfacecolor="white" if name == FULL else colour)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), names if labelled else [""] * len(names))
    ax.invert_yaxis()
    ax.set_xlabel("final ELBO gap (nats)")


def _costs(tuned: pd.DataFrame) -> Drawing:
    shown = [
        ("pathwise", FULL), ("BQ", FULL), ("BQ, remembered", FULL), ("BQ, active nodes", FULL),
        ("pathwise", "reshuffled"), ("BQ", "reshuffled"), ("BQ", "balanced"), ("BQ", "control variates"),
    ]  # fmt: skip
    what = tuned["estimator"] + ", " + tuned["chosen"]
    names = [f"{estimator}, {chosen}" for estimator, chosen in shown]
    rows = tuned.assign(what=what)[what.isin(names) & (tuned["iteration"] > 0)]
    problems, lines = list(rows["problem"].unique()), drawing.line_styles(names)
    figure, axes = drawing.figure(len(problems), 3, size=(3.4, 2.4), sharey="row")
    for row, problem in zip(axes, problems, strict=True):
        here = rows[rows["problem"] == problem]
        for ax, cost in zip(row, comparison.COSTS, strict=True):
            label = f"{problem}\nELBO gap (nats)" if ax is row[0] else ""
            drawing.curves(
                ax, here, cost, "elbo_gap", "what", x_scale="log", y_scale="log", lines=lines, y_label=label
            )
    drawing.mark_ends(axes.flat, _LEAST, _MOST)
    drawing.legend_below(figure, axes)
    caption = (
        "ELBO gap against iterations, seconds and evaluations of single data, tuned schedules. Set-up of a "
        f"choice of data and records are not in the time. {drawing.band_caption(rows)}"
    )
    return Drawing("costs", figure, caption)


def draw_errors(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error of one gradient by choice of data, and the part of it that is bias."""
    rows = _one_step(results)
    names, estimators = list(dict.fromkeys(rows["chosen"])), list(dict.fromkeys(rows["estimator"]))
    size = (3.2 if len(estimators) > 1 else 6.0, 0.2 * len(names) + 1.2)
    figure, axes = drawing.figure(1, len(estimators), size=size, sharey=True)
    for ax, estimator in zip(axes.flat, estimators, strict=True):
        for place, colour in zip(dict.fromkeys(rows["problem"]), drawing.COLOURS, strict=False):
            part = rows[(rows["estimator"] == estimator) & (rows["problem"] == place)]
            middle = part.groupby("chosen")["relative"].quantile([0.25, 0.5, 0.75]).unstack().reindex(names)
            bias = (part["bias"] / part["uniform"]).groupby(part["chosen"]).median().reindex(names)
            y = np.arange(len(names))
            ax.hlines(y, middle[0.25], middle[0.75], color=colour, alpha=0.5, linewidth=1.5)
            ax.plot(middle[0.5], y, "o", color=colour, markersize=4, label=place)
            ax.plot(bias.clip(lower=_LEAST), y, "|", color=colour, markersize=7)
        ax.axvline(1.0, color="#000000", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_xlabel("squared error / with replacement")
        ax.set_title(estimator)
    axes.flat[0].set_yticks(np.arange(len(names)), names)
    axes.flat[0].invert_yaxis()
    drawing.legend_below(figure, axes)
    caption = (
        "Squared error of one gradient from S data, in units of q, relative to S data drawn uniformly with "
        "replacement, by estimator of the expectation over theta. Dot: median; line: quartiles over seeds; "
        f"stroke: squared bias, at least {_LEAST:g}."
    )
    return [Drawing("one-gradient", figure, caption)]


def _figure_again(results: pd.DataFrame) -> Drawing:
    mixture = results[(results["problem"] == "mixture") & results["kind"].isin(["tuned", "figure 6.1"])]
    cells = [*(_name("mixture", e, FULL) for e in ESTIMATORS if e not in _SCORES),
             *(_name("mixture", "BQ", c) for c in ("reshuffled", "balanced"))]  # fmt: skip
    chosen = [*(f"mixture: {method}" for method in _FIGURE), *cells]
    rows = mixture[mixture["case"].isin(chosen) & (mixture["iteration"] > 0)]
    rows = rows.assign(case=rows["case"].str.removeprefix("mixture: "))
    figure, axes = drawing.figure(1, 3, sharey=True)
    lines = comparison.line_styles(name.removeprefix("mixture: ") for name in chosen)
    for ax, cost in zip(axes.flat, comparison.COSTS, strict=True):
        comparison.panel(ax, rows, cost, "log_likelihood_error", "case", lines)
        ax.set_ylabel("log-likelihood error (nats)" if ax is axes.flat[0] else "")
    drawing.legend_below(figure, axes)
    caption = (
        "The thesis' mixture in the measure of Figure 6.1, ln p(X | truth) - ln p(X | E[pi], E[mu]), with "
        "the same priors: CAVI, SNGD, SGD and GD have exact expectations and Dirichlet weights, the others a "
        f"Gaussian q over softmax weights and means. {drawing.band_caption(rows)}"
    )
    return Drawing("thesis-mixture", figure, caption)


def _summed(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each run."""
    keep = ("problem", "estimator", "chosen", "kind", "seconds", "minibatch_seconds", "log_likelihood_error")
    measured = _measured(results)
    if measured.empty:
        return measured
    if "log_likelihood_error" not in measured:
        measured = measured.assign(log_likelihood_error=np.nan)
    parts = [
        evidence.runs(part, "elbo_gap", _LEVELS[str(problem)], keep)
        for problem, part in measured.groupby("problem", sort=False)
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(share=table["minibatch_seconds"] / table["seconds"])


def tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs of each cell, and the coverage of stated errors."""
    columns = {
        "elbo_gap": "final ELBO gap (nats)", "iterations_to": "iterations to the level",
        "evaluations_to": "evaluations to it", "seconds_to": "seconds to it", "ms_per_iteration": "ms a step",
        "share": "of which choosing the data",
    }  # fmt: skip
    levels = ", ".join(f"{level:g} on {problem}" for problem, level in _LEVELS.items())
    caption = f"Levels, nats: {levels}; ∞: not reached. Median [quartiles] over seeds."
    summed = _summed(results)
    by = ("problem", "estimator", "chosen", "kind")
    made = [Table("costs", quartiles(summed, columns, by), caption)] if len(summed) else []
    stated = _one_step(results)
    if len(stated):
        columns = {
            "relative": "squared error / with replacement", "bias": "of which squared bias",
            "covered": "share of 95 % intervals that hold",
        }  # fmt: skip
        stated = stated.assign(bias=stated["bias"] / stated["uniform"])
        shown = quartiles(stated, columns, ("problem", "estimator", "chosen"))
        note = (
            f"One gradient in units of q, {DRAWS} draws or nodes or exact expectations, {_BATCHES} "
            "mini-batches a seed; empty: no error is stated."
        )
        made.append(Table("errors", shown, note))
    return made


def _judged(results: pd.DataFrame) -> pd.DataFrame:
    """What the claims are about, one row for each run, cell and setting, in parts."""
    parts = {"errors": _one_step(results)}
    if (results["kind"] != "errors").any():
        runs, equal = _summed(results), _at_equal_cost(results)
        parts |= {"runs": runs, "equal cost": equal, "mixture": _behind(results)}
    rows = pd.concat([rows.assign(part=name) for name, rows in parts.items()], ignore_index=True)
    setting = rows["problem"] + np.where(rows["kind"] == "untuned", ", untuned", "")
    return rows.assign(setting=setting, cell=rows["estimator"] + ", " + rows["chosen"])


def _at_equal_cost(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each run: its gap when it has spent what the estimator's reshuffled run spends in all."""
    measured = _measured(results)
    runs = ["problem", "estimator", "kind", "seed"]
    spent = measured[measured["chosen"] == "reshuffled"].groupby(runs)["evaluations"].max().rename("spent")
    within = measured.join(spent, on=runs)
    within = within[within["evaluations"] <= within["spent"]]
    return within.groupby(["case", "seed"], sort=False).tail(1)


def _behind(results: pd.DataFrame) -> pd.DataFrame:
    """The ends of runs on the mixture, and how far their log-likelihood error is above CAVI's."""
    mixture = results[(results["problem"] == "mixture") & (results["kind"] != "errors")]
    ends = mixture.groupby(["case", "seed"], sort=False).tail(1)
    if not (ends["estimator"] == "CAVI").any():
        return ends.iloc[:0]
    theirs = ends[ends["estimator"] == "CAVI"].set_index("seed")["log_likelihood_error"]
    return ends.assign(behind=ends["log_likelihood_error"] - ends["seed"].map(theirs))


def _cells(
    estimators: Sequence[str], chosen: Sequence[str], *, than: Sequence[str] = (), data: Sequence[str] = ()
) -> dict[str, list[str]]:
    """By cell those that it is compared with: other estimators on its data, or itself on other data."""
    return {
        f"{one}, {each}": [f"{other}, {each}" for other in than] + [f"{one}, {other}" for other in data]
        for one in estimators
        for each in chosen
    }


_REMEMBERED = {"BQ, remembered, all data": ["BQ, all data"]}
_GREEDY = ("greatest variance", "upper confidence")
_RUNS: dict[str, Any] = {"column": "elbo_gap", "shown": "final gap", "rows": only("part", "runs")}
_FEWER: dict[str, Any] = {"column": "evaluations_to", "shown": "evaluations", "rows": only("part", "runs")}
_SECONDS: dict[str, Any] = {"column": "seconds_to", "shown": "seconds", "rows": only("part", "runs")}
_SHARE: dict[str, Any] = {"column": "share", "rows": only("part", "runs")}
_EQUAL: dict[str, Any] = {"column": "elbo_gap", "shown": "gap", "rows": only("part", "equal cost")}
_ONE_STEP: dict[str, Any] = {"column": "relative", "shown": "error", "rows": only("part", "errors")}
_COVERED: dict[str, Any] = {"column": "covered", "rows": lambda rows: rows.dropna(subset=["covered"])}
_BEHIND: dict[str, Any] = {"column": "behind", "shown": "nats above CAVI", "rows": only("part", "mixture")}
_CLAIMS = (
    Statement("5.1, 7.2.1", "Simple Monte Carlo by the score function suffices for gradient ascent.",
              "with all data it ends with a smaller gap than pathwise with as many draws",
              of=_cells(_SCORES, [FULL], than=["pathwise"]), **_RUNS),
    Statement("7.2.1, 7.2.2",
              "From the same draws quadrature is more accurate than simple Monte Carlo, which ignores where "
              "they lie.",
              "BQ ends with a smaller gap than score, pathwise and sticking-the-landing",
              of=_cells(["BQ"], _EVERYWHERE, than=_MONTE_CARLO), **_RUNS),
    Statement("7.2.1", "Natural steps are better than Adam's for the same Monte Carlo gradients.",
              "they end with a smaller gap",
              of={f"{one}, {c}": [f"{one}{ADAM}, {c}"] for one in _MONTE_CARLO[1:] for c in _ADAM_DATA},
              **_RUNS),
    Statement("7.2.1, 7.2.2", "Quadrature is more accurate than Monte Carlo with Adam.",
              "BQ ends with a smaller gap than each Monte Carlo gradient with steps of Adam",
              of=_cells(["BQ"], _ADAM_DATA, than=[f"{one}{ADAM}" for one in _MONTE_CARLO[1:]]), **_RUNS),
    Statement("7.3.2", "Quadrature of the gradient saves time, the fit of its process counted.",
              "BQ stays within the level in fewer seconds than pathwise and sticking-the-landing",
              of=_cells(["BQ"], _EVERYWHERE, than=["pathwise", "STL"]), **_SECONDS),
    Statement("7.3.2", "Evaluations of earlier updates improve the present gradient.",
              "BQ with remembered evaluations ends with a smaller gap than BQ of each step's own",
              of=_REMEMBERED, **_RUNS),
    Statement("7.3.2", "Evaluations of earlier updates save evaluations.",
              "BQ with remembered evaluations stays within the level after fewer", of=_REMEMBERED, **_FEWER),
    Statement("5.3, 7.3.2", "With the E step inside, a mixture takes fewer passes over the data.",
              "with remembered evaluations it stays within the level after fewer evaluations of data",
              of={f"{INSIDE}, {FULL}": ["BQ, remembered, all data"]}, **_FEWER),
    Statement("7.3.4, Eq. 7.17",
              "Nodes that lower the variance of the integral most are better than drawn ones.",
              "active nodes stay within the level after fewer evaluations, both remembered",
              of=_cells(["BQ, active nodes"], [FULL], than=["BQ, remembered"]), **_FEWER),
    Statement("7.3.3", "A subset of the data is cheaper than all of them.",
              "with reshuffled subsets the gap is smaller than with all data after as many evaluations",
              of=_cells(_TWO, ["reshuffled"], data=[FULL]), **_EQUAL),
    Statement("7.3.3",
              "Data chosen without bias by a process over them give more accurate runs than random ones.",
              "the final gap is smaller than with both random choices",
              of=_cells(_TWO, _UNBIASED[:3], data=_RANDOM), **_RUNS),
    Statement("7.3.2", "Gradients of earlier steps, kept for each datum, give more accurate runs.",
              "SAGA and SVRG end with a smaller gap than both random choices",
              of=_cells(_TWO, _UNBIASED[3:], data=_RANDOM), **_RUNS),
    Statement("7.3.3",
              "Data chosen greedily, or weighted by quadrature, give more accurate runs than random ones.",
              "herding, BQ weights, sequential BQ, greatest variance, upper confidence: a smaller gap than "
              "both random choices",
              of=_cells(_TWO, _BIASED, data=_RANDOM), **_RUNS),
    Statement("7.3.3", "Quadrature over a random subset is no worse than simple Monte Carlo over it.",
              "with BQ weights the gap is at most 1.1 times that of equal weights",
              of=_cells(_TWO, _BIASED[1:3], data=["without replacement"]), factor=1.1, **_RUNS),
    Statement("7.3.4", "Greatest variance chooses a more representative subset.",
              "it ends with a smaller gap than both random choices",
              of=_cells(_TWO, _GREEDY[:1], data=_RANDOM), **_RUNS),
    Statement("7.3.4",
              "Upper confidence, which exploits too, chooses better than greatest variance, which explores.",
              "it ends with a smaller gap", of=_cells(_TWO, _GREEDY[1:], data=_GREEDY[:1]), **_RUNS),
    Statement("7.3.4",
              "The variance of the integral (7.17) is a better criterion than that of the integrand (7.18).",
              "sequential BQ ends with a smaller gap than greatest variance",
              of=_cells(_TWO, ["sequential BQ"], data=_GREEDY[:1]), **_RUNS),
    Statement("7.3.4", "Greatest variance and upper confidence are cheap to optimise.",
              "choosing the data takes at most half of the time of the steps",
              of=list(_cells(_TWO, _GREEDY)), level=0.5, **_SHARE),
    Statement("7.3.4", "Greatest variance and upper confidence choose better mini-batches for one gradient.",
              "its squared error is at most that of uniform sampling with replacement",
              of=list(_cells(["exact"], _GREEDY)), level=1.0, **_ONE_STEP),
    Statement("7.3.3",
              "Data chosen greedily, or weighted by quadrature, give a better gradient than random ones.",
              "herding, BQ weights, sequential BQ: its squared error, with the bias, is at most half of that "
              "of uniform sampling with replacement",
              of=list(_cells(["exact"], _BIASED[:4])), level=0.5, **_ONE_STEP),
    Statement("7.3.3",
              "Probabilities that make a gradient more accurate can be had: those by norm of the rows.",
              "its squared error is at most .8 times that of uniform sampling with replacement",
              of=list(_cells(["exact"], [_BY_NORM])), level=0.8, **_ONE_STEP),
    Statement("7.3.4", "Balanced mini-batches are better for one gradient, without bias.",
              "its squared error is at most .8 times that of uniform sampling with replacement",
              of=list(_cells(["exact"], ["balanced"])), level=0.8, **_ONE_STEP),
    Statement("7.3.3, Eqs 7.19, 7.20", "Gradients have error bars that contain the choice of data.",
              "95 % intervals hold in 93 to 97 %, where an error is stated",
              of=list(_cells(_TWO, _STATED)), between=(0.93, 0.97), **_COVERED),
    Statement("6.1, 7.3.2", "On the thesis' mixture quadrature is beside the methods of Figure 6.1.",
              f"its log-likelihood error ends within {evidence.LEVEL:g} nats of CAVI's",
              of=["BQ, all data", "BQ, remembered, all data", "BQ, active nodes, all data",
                  f"{INSIDE}, {FULL}", "BQ, reshuffled", "BQ, balanced"], level=evidence.LEVEL, **_BEHIND),
)  # fmt: skip


def claims(results: pd.DataFrame) -> list[Claim]:
    """Check each sentence of Sections 7.2 to 7.3.4 that says something about such runs."""
    return statements.claims(_judged(results), _CLAIMS, by="cell", each="setting")


experiment = Experiment(
    name="thesis-comparison",
    title="Quadrature and chosen data in one loop of stochastic gradients (Section 7)",
    summary=f"""Which gradient of the ELBO, and which data at each step, bring a run nearest to the optimum?
    Simple Monte Carlo by the score function, with baselines, by the path and by sticking-the-
    landing, Bayesian quadrature (BQ) of the present draws, of remembered evaluations, and at active
    nodes have the same loop of natural steps, {DRAWS} draws or nodes a step and the same rule of
    step sizes, with the best of a grid for each, on the thesis' mixture, a logistic and a Poisson
    regression, and digits. All data are used at a step, or a part of them: drawn with and without
    replacement, reshuffled, balanced, with a process over the data as control variate, by herding,
    sequential BQ, greatest variance or upper confidence, or drawn and weighted by BQ. Each of these
    choices is run with two estimators, and each estimator with all data and three random choices.
    On the logistic regression all cells are also run with one schedule that is not tuned.

    Remembered evaluations are of one log joint, so they need all data at each step. Determinantal
    processes, debiased weights and strata by k-means are not compared: they were better than these
    nowhere, and are no longer in the library.""",
    cases=_cases,
    run=run,
    draw=_draw,
    tables=tables,
    claims=claims,
)
