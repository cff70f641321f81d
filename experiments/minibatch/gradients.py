"""Mini-batches: the error of the gradient, relative to uniform sampling (thesis Section 7.3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from acquisition.minibatch import Learning
from bqvi.arrays import Values, inner, subtract
from bqvi.inference.loop import advance, start
from bqvi.inference.state import LoopProblem
from bqvi.models.data import n_rows, take
from experiments.harness import drawing, evidence
from experiments.harness.bands import quantile
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.minibatch.problems import (
    FEATURED,
    PLAIN,
    PROBLEMS,
    UNBIASED,
    Setting,
    strategy,
)

__all__ = ["claims", "draw", "experiment", "run", "tables"]

_SIZES = (10, 50)
_LATE = "late"
_PLACES = {"start": 0, "midway": 50, _LATE: 400}
"""The steps of the reference run after which errors are measured."""
_WINDOW = 30
"""The number of steps over which errors are averaged."""
_SINGLES = 20
"""Data drawn at each of these steps, from which the error of uniform sampling is estimated."""
_QUICK_PLACES = {"start": 0, "midway": 10, _LATE: 30}
_NAMES = (*PLAIN, *FEATURED, "probabilities by norm of row")


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return a case for each problem and size: all strategies see the same path of q."""
    problems = ("mixture",) if quick else ("mixture", "logistic", "digits")
    sizes = _SIZES[:1] if quick else _SIZES
    places, window = (_QUICK_PLACES, 8) if quick else (_PLACES, _WINDOW)
    return [
        Case(f"{name}, S = {size}", {"problem": name, "size": size, "places": places, "window": window})
        for name in problems
        for size in sizes
    ]


def run(case: Case, seed: int) -> pd.DataFrame:
    """Run every strategy along the path of one reference run, and record its errors."""
    chosen = case.settings
    setting = PROBLEMS[chosen["problem"]](seed)
    path = list(_path(setting, chosen["size"], max(chosen["places"].values()) + chosen["window"], seed))
    rng = np.random.default_rng([seed, 2])
    exact = {
        name: [_Exact.of(setting, q, chosen["size"], rng) for q in path[first : first + chosen["window"]]]
        for name, first in chosen["places"].items()
    }
    rows = []
    for name in _NAMES:
        for place, found in _errors(name, setting, path, exact, chosen, seed):
            rows.append({"strategy": name, "place": place, **found})
    return pd.DataFrame(rows)


def _path(setting: Setting, size: int, steps: int, seed: int) -> Iterator[Any]:
    """q before each step of stochastic natural gradients with reshuffling and the package's schedule."""
    chosen = bqvi.RobbinsMonro(0.7, tau=10.0)
    problem = LoopProblem(setting.model, setting.data, bqvi.gradients.Conjugate(), bqvi.Natural(), chosen,
                      PLAIN["reshuffled"](size))  # fmt: skip
    state = start(problem, setting.start, np.random.default_rng(seed))
    for _ in range(steps):
        yield state.q
        gradient, drawn = bqvi.inference.loop.gradient_at(problem, state)
        state = advance(problem, state, gradient, drawn)


@dataclass(frozen=True)
class _Exact:
    """The full-data gradient at q, and the error of uniform sampling there."""

    q: Any
    statistics: Values
    uniform: float
    """Fisher MSE of S data drawn with replacement."""

    @classmethod
    def of(cls, setting: Setting, q: Any, size: int, rng: np.random.Generator) -> _Exact:
        """The sum over the data, and the error of uniform sampling."""
        model, n = setting.model, n_rows(setting.data)
        statistics = model.local_step(q, setting.data).statistics
        drawn = rng.integers(n, size=_SINGLES)  # the gradient of one datum, times N
        one = [
            model.local_step(q, take(setting.data, np.array([i])), np.full(1, float(n))).statistics
            for i in drawn
        ]
        squares = [_square(q, subtract(each, statistics)) for each in one]
        return cls(q, statistics, float(np.mean(squares)) / size)


def _square(q: Any, error: Values) -> float:
    """d^T F d of an error in natural parameters."""
    return float(inner(error, q.fisher_product(error)))


def _errors(
    name: str, setting: Setting, path: list[Any], exact: dict[str, list[_Exact]], chosen: Any, seed: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Bias squared and MSE relative to uniform sampling at each place."""
    rng = np.random.default_rng([seed, 1])
    model, size, window = setting.model, chosen["size"], chosen["window"]
    made = strategy(name, size, setting)
    limits = model.term_limits(setting.data)
    state = made.start(n_rows(setting.data), rng)
    # a strategy whose draws do not depend on earlier ones
    forgetful = made.draw(state, np.random.default_rng(0))[1] is state
    measured = {first + t: (place, t) for place, first in chosen["places"].items() for t in range(window)}
    found: dict[str, list[Values]] = {place: [] for place in chosen["places"]}
    for t, q in enumerate(path):
        if t not in measured and not isinstance(made, Learning):
            if not forgetful:
                _, state = made.draw(state, rng)
            continue
        selection, state = made.draw(state, rng)
        terms = model.local_terms(q, take(setting.data, selection.indices))
        if isinstance(made, Learning):
            total = made.estimate(state, selection, terms.statistics)
        else:
            total = selection.weights @ terms.statistics
        state = made.observe(state, selection, terms.statistics)
        if t in measured:
            place, at = measured[t]
            step = model.local_total(total, 0.0, limits)
            found[place].append(subtract(step.statistics, exact[place][at].statistics))
    for place, errors in found.items():
        yield place, _summary(errors, exact[place])


def _summary(errors: list[Values], exact: list[_Exact]) -> dict[str, float]:
    squares = [_square(e.q, error) for e, error in zip(exact, errors, strict=True)]
    mean = tuple(np.mean(parts, axis=0) for parts in zip(*errors, strict=True))
    uniform = float(np.mean([e.uniform for e in exact]))
    mse = float(np.mean(squares))
    # the squared mean of n errors exceeds the squared bias by variance / n
    n = len(errors)
    bias = max(0.0, (_square(exact[n // 2].q, mean) - mse / n) / (1.0 - 1.0 / n))
    return {"mse": mse / uniform, "bias": bias / uniform, "variance": max(mse - bias, 0.0) / uniform}


def _quartiles(results: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of the MSE over seeds, by case, place and strategy; over places as their mean first."""
    by = results.groupby(["case", "strategy", "seed"], sort=False)
    overall = by[["mse", "bias"]].mean().reset_index()
    both = pd.concat([results, overall.assign(place="mean")], ignore_index=True)
    rows = []
    for keys, part in both.groupby(["case", "place", "strategy"], sort=False):
        low, middle, high = (
            float(quantile(part["mse"].to_numpy(float)[:, None], level)[0]) for level in (0.25, 0.5, 0.75)
        )
        rows.append((*keys, low, middle, high, float(part["bias"].median())))
    return pd.DataFrame(rows, columns=["case", "place", "strategy", "low", "median", "high", "bias"])


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error of each strategy, relative to uniform sampling, at the three places."""
    table = _quartiles(results)
    names = list(dict.fromkeys(table["strategy"]))
    found = list(dict.fromkeys(table["case"]))
    made, axes = drawing.figure(
        1, len(found), size=(2.6 if len(found) > 1 else 5.0, 0.24 * len(names) + 1.2), sharey=True
    )
    for ax, case in zip(axes.flat, found, strict=True):
        for place, colour in zip(dict.fromkeys(results["place"]), drawing.COLOURS, strict=False):
            chosen = (table["case"] == case) & (table["place"] == place)
            part = table[chosen].set_index("strategy").loc[names]
            y = np.arange(len(names))
            ax.plot(part["median"], y, "o", color=colour, markersize=4, label=place)
            ax.hlines(y, part["low"], part["high"], color=colour, alpha=0.5, linewidth=1.5)
        ax.set_xscale("log")
        ax.axvline(1.0, color="#000000", linewidth=0.8)
        ax.set_title(case)
        ax.set_xlabel("MSE / MSE of uniform sampling")
    axes.flat[0].set_yticks(np.arange(len(names)), names)
    axes.flat[0].invert_yaxis()
    drawing.legend_below(made, axes)
    return [
        Drawing(
            "gradient-error",
            made,
            "Mean squared error of the natural gradient in the Fisher norm, relative to S data drawn "
            "uniformly with replacement, over a window of steps on the same path of q for all strategies "
            "(places and window: see Settings). Dot: "
            "median; line: interquartile range over seeds.",
        )
    ]


def tables(results: pd.DataFrame) -> list[Table]:
    """Return the medians, and the part of them that is bias."""
    table = _quartiles(results)
    overall = table[table["place"] == "mean"]
    wide = overall.pivot(index="strategy", columns="case", values=["median", "bias"])
    order = list(dict.fromkeys(table["strategy"]))
    unbiased = ["yes" if name in UNBIASED else "no" for name in order]
    shown = pd.DataFrame({"strategy": order, "unbiased": unbiased})
    for case in dict.fromkeys(table["case"]):
        shown[case] = [
            f"{wide.loc[n, ('median', case)]:.2g} ({wide.loc[n, ('bias', case)]:.2g})" for n in order
        ]
    caption = (
        "MSE relative to uniform sampling with replacement, mean over the three places, median over seeds; "
        "in brackets the part of it that is squared bias. Unbiased: at each step, given the past."
    )
    return [Table("gradient-error", shown, caption)]


_GREEDY = ("greatest variance", "upper confidence")
"""What the thesis proposes."""


def _below(results: pd.DataFrame, names: Sequence[str], level: float) -> list[Check]:
    """Check of each strategy that its error, averaged over places, is at most ``level``, for each case."""
    averaged = results.groupby(["case", "strategy", "seed"], sort=False)["mse"].mean().reset_index()
    return [
        evidence.at_most(part.assign(case=part["strategy"]), name, "mse", level, f"{name}, {case}",
                         shown="MSE / uniform")
        for case, part in averaged.groupby("case", sort=False) for name in names
    ]  # fmt: skip


def _lower(results: pd.DataFrame, names: Sequence[str], other: str, place: str) -> list[Check]:
    """Check of each strategy that its error at ``place`` is below that of ``other``, for each case."""
    there = results[results["place"] == place]
    return [
        evidence.less(part.assign(case=part["strategy"]), name, other, "mse", f"{name}, {case}",
                      shown="MSE / uniform")
        for case, part in there.groupby("case", sort=False) for name in names
    ]  # fmt: skip


def claims(results: pd.DataFrame) -> list[Claim]:
    """Check which choices are better than uniform sampling."""
    return [
        Claim(
            "7.3.4",
            "Greatest variance and upper confidence choose a better mini-batch than uniform sampling.",
            "the error is at most that of uniform sampling",
            _below(results, _GREEDY, 1.0),
        ),
        Claim(
            "7.3.4",
            "Greatest variance chooses a better mini-batch than uniform sampling, if quadrature weighs it.",
            "the error, bias included, is at most that of uniform sampling",
            _below(results, ("greatest variance, BQ weights",), 1.0),
        ),
        Claim(
            "7.3.4",
            "A process over the data chooses a better mini-batch than uniform sampling, without bias: "
            "balanced partitions.",
            "the error is at most .8 times that of uniform sampling",
            _below(results, ("balanced",), 0.8),
        ),
        Claim(
            "7.3.2",
            "Balanced batches and the memory of earlier gradients together, without bias, leave a small "
            "part of the error.",
            "the error is at most a quarter of that of uniform sampling",
            _below(results, ("GP control variate, balanced",), 0.25),
        ),
        Claim(
            "7.3.2",
            "Late in a run, the gradients of earlier steps lower the error of a step further.",
            "the error is below that of a balanced partition, which uses no earlier gradients",
            _lower(results, ("SAGA", "GP control variate"), "balanced", _LATE),
        ),
    ]


experiment = Experiment(
    name="minibatch-gradients",
    title="Mini-batches: the error of the gradient",
    summary="""Which S of N data estimate the natural gradient of all data best? The measure over the data is
    the empirical measure of N points. The kernel mean, the weights of Bayesian quadrature and the remaining
    variance are therefore finite sums, and the thesis' method, for which p(X) was not known, can be applied.
    Every strategy is run along the same path of q, and its estimate is compared with the gradient of all the
    data.

    The claims decide whether greatest variance and upper confidence, the thesis' proposals, are more
    accurate than uniform sampling, whether a balanced partition is, and what earlier gradients add. A low
    error may be mostly bias, which later steps do not average away: the table says how much of it is. SVRG's
    passes
    over all data, which have no error, count as steps like others.""",
    cases=_cases,
    run=run,
    draw=draw,
    tables=tables,
    claims=claims,
    seeds=10,
)
