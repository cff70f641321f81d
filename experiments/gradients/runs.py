"""Runs of inference by evaluations of the log joint, as tables: gap to the best Gaussian, and costs.

    bq           rounds of 2 evaluations, q optimised on the surrogate in a KL ball; untuned
    bq values    the same from values alone, as in variational Bayesian Monte Carlo
    natural      natural gradients from sticking-the-landing estimates, cosine step ending at the budget
    adam         Adam on sticking-the-landing estimates, in the Cholesky coordinates

Step size and number of samples of "natural" and "adam" are the best of a grid *for each budget and target* by
the mean gap over two seeds that are not reported (`_tune`; the table is `tuned.json`); a user does not know
these. Evaluations are of the value and its gradient; of the value alone for "bq values".
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import bqvi
from bqvi.gradients import BayesianQuadrature, Pathwise
from bqvi.inference import Fit
from bqvi.models import LogJoint
from bqvi.models.log_joint import LogJointModel
from experiments import fitting
from experiments.gradients import references
from experiments.gradients.references import TargetWithOptimum
from experiments.harness.experiment import Case
from experiments.problems.gradient_targets import GradientTarget, targets

__all__ = [
    "BUDGETS", "STEPPED", "TUNING_SEEDS", "at_budgets", "budget_cases", "run_to_budgets", "setting",
    "stepped_ends", "stepped_run", "surrogate_run", "tune_on", "without_gradient",
]  # fmt: skip

_STL = "sticking-the-landing"
BUDGETS = (50, 100, 200, 500)
_TUNED = Path(__file__).with_name("tuned.json")
TUNING_SEEDS = (1000, 1001)
_GRIDS: Mapping[str, tuple[tuple[float, ...], tuple[int, ...]]] = {
    "natural": ((0.05, 0.1, 0.2, 0.4), (2, 5)),
    "adam": ((0.03, 0.1, 0.3), (1,)),
}
"""Step sizes and numbers of samples. On the banana and the logistic 10 samples, and 3 or 10 for Adam, were
tried as well, and never chosen."""


def without_gradient(target: GradientTarget) -> LogJoint:
    """The target as a function of NumPy arrays without a gradient."""

    def values(theta: np.ndarray) -> np.ndarray:
        return target.log_density(torch.from_numpy(theta)).numpy()

    return LogJoint(values, target.dimension, gradient=None)


def surrogate_run(
    problem: TargetWithOptimum,
    seed: int,
    evaluations: int,
    estimator: BayesianQuadrature | None = None,
    *,
    model: LogJointModel | None = None,
    radius: float = 1.0,
    records: Sequence[int] = (),
) -> pd.DataFrame:
    """Return gap and costs of Bayesian quadrature after about each of ``records`` evaluations.

    Parameters
    ----------
    estimator : by default the default of `bqvi.fit(method="bq")`.
    model : by default the target's, with gradients.
    radius : of the trust region.
    """
    target = problem.target
    used = estimator or BayesianQuadrature()
    first = used.initial_nodes or max(used.nodes, min(2 * target.dimension, 10))
    steps = [1 + max(0, round((n - first) / used.nodes)) for n in (*records, evaluations)]
    return _table(
        lambda: bqvi.fit(
            model or target.model(), method=used, geometry=bqvi.TrustRegion(radius),
            schedule=bqvi.Constant(1.0), start_from=target.start(), steps=max(steps),
            record=bqvi.Record(steps, metrics={"elbo_gap": problem.gap}, elbo_samples=32), seed=seed,
            tolerance=None,
        )
    )  # fmt: skip


def stepped_run(
    problem: TargetWithOptimum,
    seed: int,
    evaluations: int,
    method: str,
    size: float,
    samples: int,
) -> pd.DataFrame:
    """Return gap and costs of "natural" or "adam" at the end, in one row.

    Parameters
    ----------
    problem : the target, with its best Gaussian. seed : of the run. evaluations : in all. method : "natural"
        or "adam".
    size : the step size. samples : draws in a step.
    """
    target = problem.target
    steps = max(1, evaluations // samples)
    natural = method != "adam"
    return _table(
        lambda: bqvi.fit(
            target.model(), method=Pathwise(samples, _STL),
            geometry=bqvi.Riemannian() if natural else bqvi.Euclidean(),
            schedule=bqvi.Cosine(size, steps) if natural else bqvi.Adam(size, decay=4.0 / steps),
            start_from=target.start(), steps=steps,
            record=bqvi.Record([steps], metrics={"elbo_gap": problem.gap}, elbo_samples=32), seed=seed,
            tolerance=None,
        )
    )  # fmt: skip


def stepped_ends(
    problem: TargetWithOptimum,
    seed: int,
    method: str,
    budgets: Sequence[int],
    choices: Iterable[Sequence[float]],
) -> pd.DataFrame:
    """Return the end of a `stepped_run` for each budget, with its step size and samples.

    Parameters
    ----------
    problem : the target, with its best Gaussian. seed : of the run. method : "natural" or "adam".
    budgets : numbers of evaluations. choices : for each the step size and the number of samples.
    """
    return pd.concat(
        stepped_run(problem, seed, budget, method, size, int(samples)).tail(1).assign(budget=budget)
        for budget, (size, samples) in zip(budgets, choices, strict=True)
    )


def _table(fit: Callable[[], Fit]) -> pd.DataFrame:
    """The trace; with an infinite gap at the end of a run that failed."""
    failed = False
    with np.errstate(all="ignore"):  # a diverging run may overflow, which the table shows
        try:
            found = fit()
        except bqvi.RunError as error:
            found, failed = error.result(), True
    columns = ("iteration", "seconds", "evaluations", "elbo_gap")
    table = pd.DataFrame(fitting.columns_of(found.trace, columns if len(found.trace) else ()))
    if failed:
        state = found.state
        costs = (state.iteration + 1, state.seconds, state.step_evaluations)
        last = pd.DataFrame([(*costs, np.inf)], columns=columns)
        table = pd.concat([table, last], ignore_index=True)
    return table[table["evaluations"] > 0].reset_index(drop=True)


STEPPED = {"natural gradient, STL": "natural", "Adam, STL": "adam"}
"""The tuned methods by their labels."""


def budget_cases(
    label: str, tuned_as: str, methods: Iterable[str], budgets: Sequence[int], folder: Path | None = None,
    **settings: Any,
) -> list[Case]:  # fmt: skip
    """Return a case for each method; those of `STEPPED` have the best step size and samples for each budget.

    Parameters
    ----------
    label : of the target in names. tuned_as : its name in the table of step sizes. methods : their labels.
    budgets : numbers of evaluations. folder, settings : of each `Case`.
    """
    made = []
    for method in methods:
        chosen: dict[str, Any] = {**settings, "method": method, "budgets": list(budgets)}
        if method in STEPPED:
            chosen["tuned"] = [setting(STEPPED[method], tuned_as, budget) for budget in budgets]
        made.append(Case(f"{label}: {method}", chosen, folder))
    return made


def at_budgets(found: pd.DataFrame, budgets: Sequence[int]) -> pd.DataFrame:
    """A run's records, those nearest to the budgets marked in a column ``budget``."""
    nearest = {b: (found["evaluations"] - b).abs().idxmin() for b in budgets}
    found.loc[list(nearest.values()), "budget"] = list(nearest)
    return found


def run_to_budgets(
    problem: TargetWithOptimum, seed: int, case: Case, surrogates: Mapping[str, int]
) -> pd.DataFrame:
    """Return gap and costs of a case of `budget_cases`, a record for each budget.

    Parameters
    ----------
    problem : the target, with its best Gaussian. seed : of the run. case : with its budgets. surrogates :
        the nodes of a round of each method by quadrature.
    """
    method, budgets = case.settings["method"], case.settings["budgets"]
    if method in STEPPED:
        return stepped_ends(problem, seed, STEPPED[method], budgets, case.settings["tuned"])
    estimator = BayesianQuadrature(surrogates[method])
    return at_budgets(surrogate_run(problem, seed, budgets[-1], estimator, records=budgets[:-1]), budgets)


@cache
def _tuned() -> Mapping[str, Any]:
    """Step size and samples by "method, target, budget"."""
    return dict(json.loads(_TUNED.read_text(encoding="utf-8"))) if _TUNED.exists() else {}


def setting(method: str, name: str, budget: int) -> list[float]:
    """The best step size and samples.

    Parameters
    ----------
    method : "natural" or "adam". name : the target. budget : evaluations.
    """
    return list(_tuned().get(f"{method}, {name}, {budget}", (0.1, 5)))


def _tune(names: Sequence[str] | None = None) -> None:
    """Fill `_TUNED` where it has gaps: about two minutes."""
    for name in names or targets():
        tune_on(dict.fromkeys(TUNING_SEEDS, references.problem(name)), name, BUDGETS)


def tune_on(
    problems: Mapping[int, TargetWithOptimum], name: str, budgets: Sequence[int], beyond: bool = False
) -> None:
    """Fill `_TUNED` for a problem, given for each of the seeds: the best of each grid for each budget.

    Parameters
    ----------
    problems : the target with its best Gaussian, by seed. name : the target. budgets : numbers of
        evaluations. beyond : whether a third of the grid's smallest size is tried where that is the best, and
        so on.
    """
    found = dict(_tuned())
    for method, budget in itertools.product(_GRIDS, budgets):
        score = partial(_mean_gap, problems, method, budget)
        key, (sizes, counts) = f"{method}, {name}, {budget}", _GRIDS[method]
        if key not in found:
            found[key] = list(min(itertools.product(sizes, counts), key=lambda choice: score(*choice)))
        if beyond and found[key][0] == sizes[0]:
            found[key] = _descended(score, *found[key])
        _TUNED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    _tuned.cache_clear()


def _mean_gap(
    problems: Mapping[int, TargetWithOptimum], method: str, budget: int, size: float, samples: int
) -> float:
    """The mean gap at the end of the budget over the seeds."""
    runs = [stepped_run(of, seed, budget, method, size, samples) for seed, of in problems.items()]
    return float(np.mean([run["elbo_gap"].iloc[-1] for run in runs]))


def _descended(score: Callable[[float, int], float], size: float, samples: int) -> list[float]:
    """The last size, of thirds, that is better than the one before."""
    best = score(size, samples)
    while (smaller := score(size / 3.0, samples)) < best:
        size, best = size / 3.0, smaller
    return [float(f"{size:.3g}"), samples]


if __name__ == "__main__":
    _tune()
