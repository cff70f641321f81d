"""Inference with a surrogate: ten reference posteriors, from a folder given by `--posteriors DIR`.

The posteriors are those of `experiments.problems.reference`, in their unconstrained coordinates; its module
`experiments.problems.reference.folder` describes the layout of the folder.
Methods are those of `inference`: Bayesian quadrature is untuned; natural gradients and Adam have the best
step size and number of samples of a grid for each posterior and budget, on two seeds that are not reported;
where the smallest step size of the grid is the best, smaller ones are tried too.
`python -m experiments.gradients.posteriors DIR` fills the table of these.

A start is made of the plausible box that a user might guess, as for VBMC on the same posteriors
(`experiments.vbmc.posteriors.box`): its middle, which differs by seed, and an eighth of its width as standard
deviations. The gap is that to the best Gaussian on the same quasi-random points.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from bqvi.families import Gaussian
from bqvi.gradients.whitened import WhitenedFrame
from experiments.gradients.inference import CLAIMS, LEAST, SURROGATES, gap_panels, gaps
from experiments.gradients.references import GaussianTask, best_from, elbo
from experiments.gradients.runs import BUDGETS, STEPPED, TUNING_SEEDS, budget_cases, run_to_budgets, tune_on
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.problems.gradient_targets import GradientTarget
from experiments.problems.reference import MODELS, Reference, load_reference
from experiments.problems.reference.predator_prey import predator_prey
from experiments.vbmc.posteriors import WIDTH, box

__all__ = ["GRADIENTS", "QUICK", "experiment", "problem"]

QUICK = "kidscore_interaction"
GRADIENTS = ("BQ, 2 nodes", "BQ, 10 nodes")
_METHODS = (*GRADIENTS, *STEPPED)
_LINE_STYLES = drawing.line_styles(_METHODS)
_POINTS = 2**11
_DIFFERENTIAL = "lotka_volterra"
_STEPS_PER_UNIT = 10
"""The tolerance of the solver: an error of about 3e-4 in the log density, for a fourth of the time."""
_LEVEL = 0.1
_LEFT = 1e-7
"""Twice the nats still to be won at the best Gaussian."""
_WORST = 1e6
"""Gaps above are drawn as this."""


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each method on each posterior."""
    names, budgets = ((QUICK,), (20, 50)) if quick else (tuple(MODELS), BUDGETS)
    return [
        case
        for name in names
        for case in budget_cases(name, name, _METHODS, budgets, resources.posteriors, target=name)
    ]


@cache
def _known(folder: Path, name: str) -> tuple[Reference, GaussianTask]:
    """The reference and its problem, whose start is the reference's own moments."""
    reference = load_reference(folder, name)
    density = reference.target.log_density
    if name == _DIFFERENTIAL:
        data = json.loads((folder / name / "data.json").read_text())
        density = predator_prey(data, _STEPS_PER_UNIT).log_density
    sd = np.sqrt(np.diag(reference.covariance))
    target = GradientTarget(name, density, reference.mean, sd)
    best = best_from(target, Gaussian(reference.mean, reference.covariance), _POINTS, _LEFT)
    return reference, GaussianTask(target, elbo(target, WhitenedFrame.of(best), _POINTS), _POINTS)


def problem(folder: Path, name: str, seed: int) -> GaussianTask:
    """The posterior with the start of this seed."""
    reference, found = _known(folder, name)
    guess = box(reference, seed)
    lower, upper = guess["plausible_lower"], guess["plausible_upper"]
    start = replace(found.target, mean=0.5 * (lower + upper), scale=(upper - lower) / (2.0 * WIDTH))
    return replace(found, target=start)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gap, evaluations and seconds at each budget."""
    assert case.folder is not None  # `needs` requires the folder
    return run_to_budgets(problem(case.folder, case.settings["target"], seed), seed, case, SURROGATES)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap against evaluations."""
    figure = gap_panels(results, _LINE_STYLES, worst=_WORST, columns=5, size=(2.6, 2.3))
    caption = (
        "Gap to the best Gaussian against evaluations of the log joint with its gradient. Bayesian "
        "quadrature is untuned; natural gradients and Adam are tuned for each posterior and budget, a point "
        f"each. Gaps below {LEAST:g} are drawn as that, gaps above {_WORST:g} and failures as that. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("gaps", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the gaps, and the number of posteriors below `_LEVEL` by method and budget."""
    return [gaps(results), _counted(results)]


def _counted(results: pd.DataFrame) -> Table:
    """On how many posteriors the median gap is below `_LEVEL`."""
    median = results.groupby(["method", "budget", "target"], sort=False)["elbo_gap"].median()
    reached = (median <= _LEVEL).groupby(["method", "budget"], sort=False).agg(["sum", "size"])
    shown = reached["sum"].astype(str) + " of " + reached["size"].astype(str)
    frame = shown.unstack("budget").reset_index()
    frame.columns = [c if c in ("method", "target") else f"{int(c)} evaluations" for c in frame.columns]
    return Table("reached", frame, f"Posteriors whose median gap over seeds is at most {_LEVEL:g} nats.")


def _tune(folder: Path, names: Sequence[str] = tuple(MODELS)) -> None:
    """Fill the table of step sizes where it has gaps; half of the time is for one posterior."""
    for name in sorted(names, key=lambda each: each == _DIFFERENTIAL):
        tune_on({seed: problem(folder, name, seed) for seed in TUNING_SEEDS}, name, BUDGETS, beyond=True)


experiment = Experiment(
    name="bq-posteriors",
    title="Inference with a surrogate: reference posteriors",
    summary="""Which ELBO gap does Bayesian quadrature with memory reach, untuned, on the posteriors of
        a folder? Natural gradients and Adam have the best step size and number of samples for each
        posterior and each budget.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(CLAIMS, by="method", each=("target", "budget")),
    quick_seeds=1,
    needs=("posteriors",),
)

if __name__ == "__main__":
    _tune(Path(sys.argv[1]), sys.argv[2:] or tuple(MODELS))
