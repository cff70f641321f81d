"""Stochastic natural gradients: sizes of mini-batches, two schedules (Figure 6.4)."""

from __future__ import annotations

import pandas as pd

from experiments.harness import comparison, evidence
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case
from experiments.harness.statements import Statement
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_SIZES = (10, 50, 100, 350)
_SCHEDULES = {"exponential": "exp", "robbins-monro": "Robbins-Monro"}


def _cases(steps: int) -> list[Case]:
    """Return SNGD at each S with both schedules, and SGD to compare with."""
    natural = [
        thesis.case(_name(size, kind), "sngd", minibatch=size, schedule=kind, steps=steps)
        for kind in _SCHEDULES
        for size in _SIZES
    ]
    plain = [thesis.case(f"SGD, S = {size}", "sgd", minibatch=size, steps=steps) for size in _SIZES]
    return [*natural, *plain]


def _name(size: int, kind: str = "exponential") -> str:
    return f"S = {size}, {_SCHEDULES[kind]}"


def _part(kind: str, steps: str) -> thesis.Part:
    return lambda rows: (rows["method"] == "sngd") & (rows["schedule"] == kind), f"SNGD with {steps}."


_ENDS = thesis.claims_on_ends(
    Statement("6.3", "With steps exp(-0.01 t), SNGD is poor compared with SGD.",
              "SGD with the same S ends more than 10 nats below", "log_likelihood_error",
              {f"SGD, S = {size}": [_name(size)] for size in _SIZES}, margin=10.0, shown="final error"),
    Statement("6.3", "SNGD takes large jumps, particularly with small mini-batches.",
              "with S = 10 the error rises further above the lowest it had been than with S = 350", "rise",
              {_name(350, kind): [_name(10, kind)] for kind in _SCHEDULES}),
)  # fmt: skip


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the ends of runs, and what other steps make of them."""
    table = comparison.ends(results)
    statement = "SNGD is poor compared with SGD because its step size is not tuned."
    criterion = "with Robbins-Monro steps SNGD ends at most 10 nats above SGD, with exp(-0.01 t) not"
    return [*_ENDS(results), Claim("6.3", statement, criterion, [_step_size(table, s) for s in _SIZES])]


def _step_size(table: pd.DataFrame, size: int) -> Check:
    plain = f"SGD, S = {size}"
    repaired, broken = (
        evidence.better(
            table, _name(size, kind), plain, "log_likelihood_error", plain, margin=-10.0, shown="final error"
        )
        for kind in ("robbins-monro", "exponential")
    )
    return Check(f"S = {size}", repaired.true and not broken.true, f"{repaired.numbers}; {broken.numbers}")


experiment = thesis.comparison_of(
    "sngd-batch-sizes",
    "Sizes of mini-batches and schedules for SNGD",
    "6.4",
    """How do stochastic natural gradients depend on the size S of their mini-batches? These are
    drawn uniformly without replacement. The thesis' steps exp(-0.01 t) begin at 1, where an iterate is
    replaced by the estimate of one mini-batch. They are compared with the package's default (t + 10)^-0.7,
    which fulfils Robbins and Monro's conditions and is not tuned to this problem.""",
    cases=_cases,
    parts={
        "exponential": _part("exponential", "the thesis' steps, exp(-0.01 t)"),
        "robbins-monro": _part("robbins-monro", "Robbins-Monro steps, (t + 10)^-0.7"),
    },
    claims=_claims,
)
