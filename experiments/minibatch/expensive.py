"""Mini-batches where a datum costs a millisecond: choosing in seconds, set-up counted."""

from __future__ import annotations

import pandas as pd

from experiments import fitting
from experiments.harness.claims import Claim
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.minibatch import runs as minibatch_runs
from experiments.minibatch.problems import PROBLEMS
from experiments.minibatch.runs import REFERENCE
from experiments.problems.pharmacokinetics import optimum

__all__ = ["BUDGET", "GAPS", "NAMES", "SIZE", "experiment"]

SIZE = 20
BUDGET = 6000
GAPS = (3.0, 1.0, 0.3)
NAMES = (
    "reshuffled", "balanced", "GP control variate", "GP control variate, balanced",
    "GP control variate, partition",
)  # fmt: skip


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each strategy, and the optimum."""
    budget = 300 if quick else BUDGET
    settings = {"problem": "drug", "strategy": REFERENCE, "budget": budget}
    return [
        Case(f"{REFERENCE}: drug", settings),
        *(
            minibatch_runs.case("drug", name, SIZE, budget, minibatch_runs.schedule_of("drug", name))
            for name in (NAMES[:2] if quick else NAMES)
        ),
    ]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """One run, or the optimum as a run of one record."""
    if case.settings["strategy"] != REFERENCE:
        return minibatch_runs.run(case, seed)
    setting = PROBLEMS["drug"](seed)
    elbo = setting.model.elbo(optimum(setting.data), setting.data)
    costs = dict.fromkeys((*fitting.KEPT, *fitting.STRATEGY, "with_setup"), 0.0)
    return pd.DataFrame([{**costs, "elbo": elbo}])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap against evaluations and seconds."""
    return [minibatch_runs.panels(minibatch_runs.gaps(results), "drug", "gap-drug", GAPS)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the costs to each gap."""
    measured = minibatch_runs.gaps(results)
    return [
        Table(
            f"cost-drug-{level:g}".replace(".", "-"),
            minibatch_runs.arrivals(measured, "drug", level),
            f"Patients, S = {SIZE}: cost until the ELBO gap stays at or below {level:g} nats; medians over "
            "seeds, inf: never.",
        )
        for level in GAPS
    ]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check whether choosing halves the seconds, and what the memory of gradients adds to the choice."""
    measured = minibatch_runs.gaps(results)
    goals = [("drug", level) for level in GAPS]
    chosen = [(name, "reshuffled") for name in NAMES[1:]]
    remembering = [(name, "balanced") for name in NAMES[2:]]
    proposed = (
        (
            "7.3.4",
            "Where a datum is expensive, choosing mini-batches halves the time.",
            "it stays within the gap in less than half the seconds of random reshuffling, set-up counted",
            minibatch_runs.compared(measured, goals, chosen, "with_setup", "seconds", 0.5),
        ),
        (
            "7.3.4",
            "Where a datum is expensive, choosing mini-batches saves time.",
            "it stays within the gap in fewer seconds than random reshuffling, set-up counted",
            minibatch_runs.compared(measured, goals, chosen, "with_setup", "seconds"),
        ),
        (
            "7.3.2",
            "Where a datum is expensive, the memory of earlier gradients saves time beyond the choice.",
            "it stays within the gap in fewer seconds than a balanced partition, set-up counted",
            minibatch_runs.compared(measured, goals, remembering, "with_setup", "seconds"),
        ),
    )
    return [Claim(*parts) for parts in proposed if parts[-1]]


experiment = Experiment(
    name="minibatch-expensive",
    title="Mini-batches where a datum costs a millisecond",
    summary="""Does choosing mini-batches save time where a datum takes a millisecond? Two thousand
    patients are each a differential equation solved with its sensitivities: most of the time of a run is that
    of its evaluations, and what a strategy takes beside them, in the tables, is small. The gradient of a
    patient is affine in the measurements and smooth in dose and weight, and so is the kernel, whose features
    are dose, weight and the residuals of the measurements on these. There are three passes over the data, and
    each strategy has the schedule that was best for it on seeds that are not shown. The claims decide whether
    choosing then saves time, and by how much at each gap. The control variate on a partition has a bias
    within an epoch; the one on balanced batches drawn with replacement has
    none.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
