"""Stochastic natural gradients: sizes of mini-batches, two schedules (Figure 6.4)."""

from __future__ import annotations

import pandas as pd

from experiments.harness import comparison, evidence
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_SIZES = (10, 50, 100, 350)
_SCHEDULES = {"exponential": "exp", "robbins-monro": "Robbins-Monro"}


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return SNGD at each S with both schedules, and SGD and CAVI to compare with."""
    steps = thesis.QUICK_STEPS if quick else thesis.STEPS
    natural = [
        thesis.case(_name(size, kind), "sngd", minibatch=size, schedule=kind, steps=steps)
        for kind in _SCHEDULES
        for size in _SIZES
    ]
    plain = [thesis.case(f"SGD, S = {size}", "sgd", minibatch=size, steps=steps) for size in _SIZES]
    return [*natural, *plain, thesis.case(comparison.REFERENCE, "cavi", steps=steps)]


def _name(size: int, kind: str = "exponential") -> str:
    return f"S = {size}, {_SCHEDULES[kind]}"


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw SNGD with each schedule in a figure of its own."""
    captions = {
        "exponential": "SNGD with the thesis' steps, exp(-0.01 t).",
        "robbins-monro": "SNGD with Robbins-Monro steps, (t + 10)^-0.7.",
    }
    return [
        drawn
        for kind, caption in captions.items()
        for drawn in comparison.drawings(
            comparison.part(results, (results["method"] == "sngd") & (results["schedule"] == kind)),
            kind,
            caption,
        )
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs of each."""
    return [comparison.table(results)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims on SNGD of Section 6.3."""
    table = evidence.runs(results)
    return [
        Claim(
            "6.3",
            "With steps exp(-0.01 t), SNGD is poor compared with SGD.",
            "SGD with the same S ends more than 10 nats below",
            [
                evidence.less(
                    table, f"SGD, S = {s}", _name(s), "log_likelihood_error", f"S = {s}",
                    margin=10.0, shown="final error",
                )
                for s in _SIZES
            ],
        ),
        Claim(
            "6.3",
            "SNGD is poor compared with SGD because its step size is not tuned.",
            "with Robbins-Monro steps SNGD ends at most 10 nats above SGD, with exp(-0.01 t) not",
            [_step_size(table, s) for s in _SIZES],
        ),
        Claim(
            "6.3",
            "SNGD takes large jumps, particularly with small mini-batches.",
            "the error rises further above the lowest it had been than with S = 350",
            [
                evidence.less(
                    table, _name(350, kind), _name(10, kind), "rise", f"S = 10, {_SCHEDULES[kind]} steps",
                    shown="rise",
                )
                for kind in _SCHEDULES
            ],
        ),
    ]  # fmt: skip


def _step_size(table: pd.DataFrame, size: int) -> Check:
    plain = f"SGD, S = {size}"
    repaired, broken = (
        evidence.within(
            table, _name(size, kind), plain, "log_likelihood_error", f"S = {size}", margin=10.0,
            shown="final error",
        )
        for kind in ("robbins-monro", "exponential")
    )  # fmt: skip
    return Check(f"S = {size}", repaired.true and not broken.true, f"{repaired.numbers}; {broken.numbers}")


experiment = Experiment(
    name="sngd-batch-sizes",
    title="Sizes of mini-batches and schedules for SNGD (Figure 6.4)",
    source="Gutteridge (2021), Figure 6.4",
    summary="""How do stochastic natural gradients depend on the size S of their mini-batches? These are
    drawn uniformly without replacement. The thesis' steps exp(-0.01 t) begin at 1, where an iterate is
    replaced by the estimate of one mini-batch. They are compared with the package's default (t + 10)^-0.7,
    which fulfils Robbins and Monro's conditions and is not tuned to this problem.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
