"""q a mixture of Gaussians: `vbmc` with gradients beside Monte Carlo, on log joints far from Gaussian.

    two modes    a mixture of 2 Gaussians, correlated, weights .35 and .65; ln Z = 0            K = 2, D = 2
    three modes  a mixture of 3 Gaussians, weights .55, .3 and .15, unlike shapes; ln Z = 0     K = 3, D = 4
    banana       as in `experiments.problems.gradient_targets`                                  K = 4, D = 2
    schools      eight schools, centred: a funnel                                               K = 3, D = 10

`vbmc` has the box of two standard deviations to either side of the target's start, chooses the number of
components itself and is untuned. The others start from K components of equal weight with the spread of the
target's start, their means drawn from it by the seed, and Adam moves them, in the mixture's coordinates:

    STL, pathwise    one draw in each component a step; score: 10 draws of q and a leave-one-out baseline;
                 the rate falls to a fifth, from the best of `_RATES` by the mean gap at the end of the budget
                 over two seeds that are not reported (`_tune`; the table is `mixture_q.json`)

Evaluations are of the value and its gradient; of the value alone for the score function. The gap is to ln Z
where that is 0, and else to the best ELBO of `best`: long runs of STL with many draws from several starts.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import bqvi
from bqvi.families import GaussianMixture
from bqvi.gradients import Estimator, Pathwise, Score
from bqvi.models import LogJoint
from experiments import fitting
from experiments.harness import drawing, statements
from experiments.harness.evidence import runs
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import last_records, quartiles
from experiments.problems.gradient_targets import GradientTarget, banana, schools
from gp.low_discrepancy import normal_sobol

__all__ = [
    "DRAWS",
    "METHODS",
    "PROBLEMS",
    "VBMC",
    "MixtureProblem",
    "best",
    "experiment",
    "followed",
    "problem",
    "stored",
    "tables",
]  # fmt: skip

_STL = "sticking-the-landing"
VBMC = "vbmc"
DRAWS: Mapping[str, Callable[[], Estimator]] = {
    "STL": lambda: Pathwise(1, _STL),
    "pathwise": lambda: Pathwise(1),
    "score": lambda: Score(10),
}
METHODS = (VBMC, *DRAWS)
_LINE_STYLES = drawing.line_styles(METHODS)
_BUDGETS = {VBMC: 160, "STL": 3000, "pathwise": 3000, "score": 6000}
_RATES = (0.01, 0.03, 0.1, 0.3)
_TUNING_SEEDS = (1000, 1001)
_STORED = Path(__file__).with_name("mixture_q.json")
_LEAST = 1e-5
"""The least gap that is drawn."""
_LEVELS = (0.1, 0.01)
"""The levels, in nats below the best, to which evaluations are counted."""
_POINTS = 2**10
"""The number of quasi-random points in each component for gaps, which are the same for all q."""
_RECORDS = 24
_LONG = 6000
"""The number of steps of the runs that search for the best ELBO."""


@dataclass(frozen=True, eq=False)
class MixtureProblem:
    """A log joint, and the number of components of q."""

    target: GradientTarget
    components: int
    best: float | None
    """Ln Z where a q can be the posterior; else None."""

    def start(self, seed: int) -> GaussianMixture:
        """The first q of a seed."""
        k, d = self.components, self.target.dimension
        spread = np.random.default_rng([20260101, seed]).standard_normal((k, d))
        means = self.target.mean + self.target.scale * spread
        return GaussianMixture(np.full(k, 1.0 / k), means, np.tile(np.diag(self.target.scale**2), (k, 1, 1)))

    def box(self) -> dict[str, Any]:
        """The plausible box of `vbmc`."""
        mean, scale = self.target.mean, self.target.scale
        return {"plausible_lower": mean - 2.0 * scale, "plausible_upper": mean + 2.0 * scale}

    def elbo(self, q: GaussianMixture) -> float:
        """E_q[f - ln q], by `_POINTS` quasi-random points in each component."""
        moved = q.from_unconstrained(tuple(torch.as_tensor(u) for u in q.unconstrained))
        with torch.no_grad():
            theta = moved.strata(_noise(self.components, self.target.dimension))
            f = self.target.log_density(theta.flatten(0, 1)).reshape(theta.shape[:2])
            return float(((f - moved.log_prob(theta)) @ moved.weights).mean())


@cache
def _noise(components: int, dimension: int) -> np.ndarray:
    """(N, K, D): the points of each component have a scrambling of their own."""
    rng = np.random.default_rng(20260102)
    return np.stack([normal_sobol(dimension, _POINTS, rng) for _ in range(components)], 1)


def _of_mixture(name: str, posterior: GaussianMixture, scale: float) -> MixtureProblem:
    q = posterior.from_unconstrained(tuple(torch.as_tensor(u) for u in posterior.unconstrained))
    d = posterior.dimension
    target = GradientTarget(name, q.log_prob, np.zeros(d), np.full(d, scale))
    return MixtureProblem(target, posterior.n_components, 0.0)


def _two_modes() -> MixtureProblem:
    covariances = np.array([[[0.5, 0.2], [0.2, 0.8]], [[0.7, -0.3], [-0.3, 0.4]]])
    means = np.array([[-2.0, -0.5], [2.0, 0.5]])
    return _of_mixture("two modes", GaussianMixture(np.array([0.35, 0.65]), means, covariances), 1.0)


def _three_modes() -> MixtureProblem:
    means = np.array([[-2.0, 1.0, 0.0, 0.5], [1.5, -1.0, 2.0, 0.0], [1.0, 2.0, -1.5, -2.0]])
    rng = np.random.default_rng(20260103)
    roots = 0.5 * rng.standard_normal((3, 4, 4))
    covariances = roots @ roots.mT + np.array([0.2, 0.5, 0.8])[:, None, None] * np.eye(4)
    weights = np.array([0.55, 0.3, 0.15])
    return _of_mixture("three modes", GaussianMixture(weights, means, covariances), 1.5)


PROBLEMS: Mapping[str, Callable[[], MixtureProblem]] = {
    "two modes": _two_modes,
    "three modes": _three_modes,
    "banana": lambda: MixtureProblem(banana(), 4, None),
    "schools": lambda: MixtureProblem(schools(True), 3, None),
}


@cache
def problem(name: str) -> MixtureProblem:
    """The problem of this name."""
    return PROBLEMS[name]()


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method on each target."""
    names = ("two modes",) if quick else tuple(PROBLEMS)
    made = []
    for name, method in itertools.product(names, METHODS):
        budget = _BUDGETS[method] // (8 if quick else 1)
        settings: dict[str, Any] = {"target": name, "method": method, "budget": budget}
        settings["rate"] = stored().get(f"{method}, {name}", 0.1)
        made.append(Case(f"{name}: {method}", settings))
    return made


@cache
def stored() -> Mapping[str, float]:
    """Rates by "method, target" and the best ELBO by "best, target"."""
    return dict(json.loads(_STORED.read_text(encoding="utf-8"))) if _STORED.exists() else {}


def best(name: str) -> float:
    """Ln Z, or the best ELBO that any long run found."""
    known = problem(name).best
    return stored().get(f"best, {name}", np.nan) if known is None else known


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gap, evaluations and seconds along a run."""
    name, method, budget, rate = (case.settings[key] for key in ("target", "method", "budget", "rate"))
    return followed(name, method, budget, rate, seed)


def followed(name: str, method: str, budget: int, rate: float, seed: int) -> pd.DataFrame:
    """Return the records of one run; with an infinite gap at the end of one that failed.

    Parameters
    ----------
    name : the problem. method : `VBMC`, or a name in `DRAWS`. budget : evaluations. rate : of Adam.
    seed : of the run.
    """
    if method == VBMC:
        return pd.DataFrame([_by_vbmc(name, n, seed) for n in (budget // 4, budget // 2, budget)])
    posed, top = problem(name), best(name)
    settings: dict[str, Any] = {"start_from": posed.start(seed), "seed": seed}
    estimator = DRAWS[method]()
    each = estimator.samples * (1 if method == "score" else posed.components)
    steps = budget // each
    records = np.unique(np.geomspace(4, steps, _RECORDS).astype(int)).tolist()
    settings |= {"method": estimator, "schedule": bqvi.Adam(rate, decay=4.0 / steps)}
    record = bqvi.Record(records, metrics={"elbo_gap": lambda q: top - posed.elbo(q)})
    settings |= {"steps": steps, "record": record}
    failed = False
    with np.errstate(all="ignore"):  # a diverging run may overflow, which the table shows
        try:
            found = bqvi.fit(LogJoint(posed.target.log_density, posed.target.dimension), None, **settings)
        except bqvi.RunError as error:
            found, failed = error.result(), True
    columns = ("iteration", "seconds", "evaluations", "elbo_gap")
    table = pd.DataFrame(fitting.columns_of(found.trace, columns))
    if failed:
        table.loc[table.index[-1], "elbo_gap"] = np.inf
    return table[table["evaluations"] > 0].reset_index(drop=True)


def _by_vbmc(name: str, budget: int, seed: int) -> dict[str, float]:
    """The record at the end of a run: the gap of its mixture, without importance weights, from its draws."""
    posed, began = problem(name), time.perf_counter()
    found = bqvi.vbmc(
        lambda theta: posed.target.log_density(theta[None])[0], **posed.box(), gradient="autodiff",
        budget=budget, seed=seed,
    )  # fmt: skip
    seconds, q = time.perf_counter() - began, replace(found.posterior, draws=None)
    theta = q.sample(_POINTS * posed.components, seed)
    f = posed.target.log_density(torch.as_tensor(theta)).numpy()
    return {"iteration": len(found.trace), "seconds": seconds, "evaluations": found.n_evaluations,
            "elbo_gap": best(name) - float((f - q.log_prob(theta)).mean())}  # fmt: skip


def _tune() -> None:
    """Fill `_STORED` where it has gaps: about five minutes."""
    found = dict(stored())
    for name, posed in ((name, problem(name)) for name in PROBLEMS):
        if posed.best is None and f"best, {name}" not in found:
            found[f"best, {name}"] = max(_long_run(posed, seed) for seed in (*_TUNING_SEEDS, 1002, 1003))
            _STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            stored.cache_clear()
        for method in DRAWS:
            if f"{method}, {name}" in found:
                continue
            ends = {
                rate: np.mean([
                    followed(name, method, _BUDGETS[method], rate, seed)["elbo_gap"].iloc[-1]
                    for seed in _TUNING_SEEDS
                ])
                for rate in _RATES
            }  # fmt: skip
            found[f"{method}, {name}"] = min(ends, key=lambda rate: np.nan_to_num(ends[rate], nan=np.inf))
            _STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    stored.cache_clear()


def _long_run(posed: MixtureProblem, seed: int) -> float:
    """The ELBO at the end of `_LONG` steps of STL with 10 draws in each component."""
    model = LogJoint(posed.target.log_density, posed.target.dimension)
    schedule = bqvi.Adam(0.05, decay=20.0 / _LONG)
    found = bqvi.fit(
        model, None, Pathwise(10, _STL), start_from=posed.start(seed), seed=seed, steps=_LONG,
        schedule=schedule, record=[_LONG],
    )  # fmt: skip
    return posed.elbo(found.q)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap against evaluations."""
    names = list(results["target"].unique())
    figure, axes = drawing.figure(1, len(names), size=(2.7, 2.7))
    shown = results.assign(elbo_gap=results["elbo_gap"].clip(lower=_LEAST))
    for ax, name in zip(axes[0], names, strict=True):
        drawing.curves(
            ax, shown[shown["target"] == name], "evaluations", "elbo_gap", by="method", lines=_LINE_STYLES,
            steps=False, x_scale="log", y_scale="log", x_label="evaluations of the log joint", y_label="",
        )  # fmt: skip
        posed = problem(name)
        ax.set_title(f"{name}: K = {posed.components}, D = {posed.target.dimension}")
    axes[0][0].set_ylabel("ELBO gap (nats)")
    drawing.mark_ends(axes.flat, _LEAST)
    drawing.legend_below(figure, axes)
    caption = (
        "q a mixture of Gaussians. Gap to ln Z of two and three modes, and of the others to the best ELBO of "
        f"long runs. `vbmc` is untuned, with up to {_BUDGETS[VBMC]} evaluations, as many components as it "
        "chooses, and a run for each budget; STL and pathwise have one draw in each of K components a step, "
        "the score function 10 of q, and the step size of a grid that suits each target best on two other "
        "seeds. "
        f"Gaps below {_LEAST:g} are drawn as that. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("gaps", figure, caption)]


def tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the evaluations to each level, and the gaps and times at the end."""
    ends = last_records(results).assign(
        each=lambda rows: 1e3 * rows["seconds"] / rows["evaluations"]
    )  # fmt: skip
    columns = {"elbo_gap": "ELBO gap at the end (nats)", "each": "ms an evaluation"}
    for level in _LEVELS:
        reached = _reached(results, level).set_index(["case", "seed"])["evaluations_to"]
        keys = pd.MultiIndex.from_frame(ends[["case", "seed"]])
        ends[f"to {level:g}"] = reached.reindex(keys).to_numpy()
        columns[f"to {level:g}"] = f"evaluations to {level:g} nats"
    frame = quartiles(ends, columns, by=("target", "method"))
    worst = ends.groupby(["target", "method"], sort=False)["elbo_gap"].max()
    frame["worst gap"] = [f"{gap:.2g}" for gap in worst]
    caption = (
        "Median [quartiles] over seeds; evaluations to the first record from which a run stays below, inf: "
        "never. Recording is not in the times."
    )
    return [Table("costs", frame, caption)]


def _reached(results: pd.DataFrame, level: float) -> pd.DataFrame:
    """A row for each run, with its evaluations to ``level``."""
    ordered = results.sort_values(["case", "seed", "evaluations"])
    return runs(ordered, "elbo_gap", level, keep=("target", "method"))


_CLAIMS = tuple(
    Statement("7.3.2", f"`vbmc` is within {level:g} nats after fewer evaluations than draws need.",
              f"its gap stays below {level:g} nats after fewer than with tuned draws of either kind",
              "evaluations_to", {VBMC: list(DRAWS)}, shown="evaluations", rows=partial(_reached, level=level))
    for level in _LEVELS
)  # fmt: skip

experiment = Experiment(
    name="bq-mixture-q",
    title="Mixtures of Gaussians as q",
    summary="""Which ELBO gap is reached with q a mixture of Gaussians, by number of evaluations of the log
    joint with its gradient? `vbmc`, untuned, is compared with stratified pathwise gradients and the score
    function, which have the best step size for each target. Where q can be the posterior, draws find it to
    rounding after thousands of evaluations; `vbmc` corrects its mixture by importance weights, which the gap
    does not contain.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=tables,
    claims=statements.of(_CLAIMS, by="method", each="target"),
)

if __name__ == "__main__":
    _tune()
