"""Natural against plain stochastic gradients (Figure 6.5)."""

from __future__ import annotations

from experiments.harness.evidence import LEVEL
from experiments.harness.experiment import Case
from experiments.harness.statements import Statement
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
_TUNED = {10: thesis.TUNED_SMALL_SGD, 100: thesis.TUNED["sgd"]}


def _cases(steps: int) -> list[Case]:
    """Return both kinds of gradient with two sizes."""
    return [
        thesis.case(
            _name(kind, size), method, schedule=schedule, minibatch=size, steps=steps,
            s=_TUNED[size] if kind == "SGD, tuned" else 1.0,
        )
        for size in _SIZES
        for kind, (method, schedule) in _KINDS.items()
    ]  # fmt: skip


def _name(kind: str, size: int) -> str:
    return f"{kind}, S = {size}"


def _part(size: int, caption: str) -> thesis.Part:
    return lambda rows: rows["minibatch"] == size, caption


_PAIRS = (("SNGD, exp", "SGD"), ("SNGD, Robbins-Monro", "SGD"), ("SNGD, Robbins-Monro", "SGD, tuned"))

experiment = thesis.comparison_of(
    "sngd-against-sgd",
    "Natural against plain stochastic gradients",
    "6.5",
    """Are stochastic natural gradients better than Euclidean ones? SNGD and SGD have
    mini-batches of 10, as in the thesis, and of 100. Each is also run with better steps than the
    thesis': Robbins-Monro for SNGD, the scale tuned on other seeds for SGD.""",
    cases=_cases,
    parts={
        "batches-of-10": _part(10, "S = 10, as in the thesis. Tuned SGD has s = 10."),
        "batches-of-100": _part(100, "The same with S = 100. Tuned SGD has s = 15."),
    },
    claims=thesis.claims_on_ends(
        *(
            Statement("6.3", "SNGD converges more accurately and in fewer iterations than SGD.",
                      f"it ends lower; it is the first to stay within {LEVEL:g} nats", column,
                      {_name(a, size): [_name(b, size)] for size in _SIZES}, setting=f"{how} than {b}",
                      shown=shown)
            for a, b in _PAIRS
            for column, how, shown in (
                ("log_likelihood_error", "more accurate", "final error"),
                ("iterations_to", "in fewer iterations", "iterations"),
            )
        ),
        Statement("6.3", "An iteration of SNGD is faster than one of SGD, which needs the Fisher matrix.",
                  "its time is less", "ms_per_iteration",
                  {_name("SNGD, exp", size): [_name("SGD", size)] for size in _SIZES}, shown="ms"),
        Statement("6.1", "SNGD and SGD are fast and accurate.", "the run ends at most 10 nats above CAVI",
                  "log_likelihood_error", {_name(kind, size): ["CAVI"] for size in _SIZES for kind in _KINDS},
                  margin=-10.0, shown="final error"),
    ),
)  # fmt: skip
