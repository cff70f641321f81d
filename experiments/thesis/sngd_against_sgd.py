"""Natural against plain stochastic gradients (Figure 6.5)."""

from __future__ import annotations

import pandas as pd

from experiments.harness import comparison, evidence
from experiments.harness.claims import Claim
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_SIZES = (10, 100)
_KINDS = {
    "SGD": ("sgd", "exponential"),
    "SGD, tuned": ("sgd", "exponential"),
    "SNGD, exp": ("sngd", "exponential"),
    "SNGD, Robbins-Monro": ("sngd", "robbins-monro"),
}
"""Method and schedule."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return both kinds of gradient with two sizes, and CAVI to compare with."""
    steps = thesis.QUICK_STEPS if quick else thesis.STEPS
    made = [
        thesis.case(
            _name(kind, size),
            method,
            schedule=schedule,
            minibatch=size,
            steps=steps,
            s=_scale(kind, size),
        )
        for size in _SIZES
        for kind, (method, schedule) in _KINDS.items()
    ]
    return [*made, thesis.case("CAVI", "cavi", steps=steps)]


def _scale(kind: str, size: int) -> float:
    if kind != "SGD, tuned":
        return 1.0
    return thesis.TUNED_SMALL_SGD if size == 10 else thesis.TUNED["sgd"]


def _name(kind: str, size: int) -> str:
    return f"{kind}, S = {size}"


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw each size in a figure of its own."""
    captions = {
        10: "S = 10, as in the thesis. Tuned SGD has s = 10.",
        100: "The same with S = 100. Tuned SGD has s = 15.",
    }
    return [
        drawn
        for size, caption in captions.items()
        for drawn in comparison.drawings(_one_size(results, size), f"batches-of-{size}", caption)
    ]


def _one_size(results: pd.DataFrame, size: int) -> pd.DataFrame:
    names = [_name(kind, size) for kind in _KINDS]
    return results[results["case"].isin([*names, "CAVI"])]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs of each."""
    return [comparison.table(results)]


_PAIRS = (("SNGD, exp", "SGD"), ("SNGD, Robbins-Monro", "SGD"), ("SNGD, Robbins-Monro", "SGD, tuned"))


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims on the two gradients of Sections 6.1 and 6.3."""
    table = evidence.runs(results)
    measures = {
        "log_likelihood_error": ("more accurate", "final error"),
        "iterations_to": ("in fewer iterations", "iterations"),
    }
    return [
        Claim(
            "6.3",
            "SNGD converges more accurately and in fewer iterations than SGD.",
            f"it ends lower; it is the first to stay within {evidence.LEVEL:g} nats",
            [
                evidence.less(
                    table, _name(a, size), _name(b, size), column,
                    f"{how}, {a} against {b}, S = {size}", shown=shown,
                )
                for size in _SIZES
                for a, b in _PAIRS
                for column, (how, shown) in measures.items()
            ],
        ),
        Claim(
            "6.3",
            "An iteration of SNGD is faster than one of SGD, which needs the Fisher matrix.",
            "its time is less",
            [
                evidence.less(
                    table, _name("SNGD, exp", size), _name("SGD", size), "ms_per_iteration", f"S = {size}",
                    shown="ms",
                )
                for size in _SIZES
            ],
        ),
        Claim(
            "6.1",
            "SNGD and SGD are fast and accurate.",
            "the run ends at most 10 nats above CAVI",
            [
                evidence.within(
                    table, _name(kind, size), "CAVI", "log_likelihood_error", _name(kind, size),
                    margin=10.0, shown="final error",
                )
                for size in _SIZES
                for kind in _KINDS
            ],
        ),
    ]  # fmt: skip


experiment = Experiment(
    name="sngd-against-sgd",
    title="Natural against plain stochastic gradients (Figure 6.5)",
    source="Gutteridge (2021), Figure 6.5",
    summary="""Are stochastic natural gradients better than Euclidean ones? SNGD and SGD have
    mini-batches of 10, as in the thesis, and of 100. Each is also run with better steps than the
    thesis': Robbins-Monro for SNGD, the scale tuned on other seeds for SGD.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
