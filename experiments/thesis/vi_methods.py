"""The methods of variational inference on the thesis' problem (Figure 6.1), and the score function."""

from __future__ import annotations

from typing import Any

from experiments.harness.evidence import LEVEL
from experiments.harness.experiment import Case
from experiments.harness.statements import Statement
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_METHODS = ("CAVI", "GD", "SGD", "SNGD", "pathwise")
_SCORES = ("score, L = 100", "score, L = 10", "score, L = 10, no baseline")
_BATCH = 100
_STEPS = 200
"""Iterations: enough for all that converge with these steps to do so."""


def _cases(steps: int) -> list[Case]:
    """Return each method with the thesis' steps and, for methods with a step size, tuned ones."""
    few: dict[str, Any] = {"samples": 10, "steps": steps}
    made = [thesis.case("SNGD", "sngd", minibatch=_BATCH, steps=steps, group="both")]
    for tag in thesis.TAGS:
        group, scale = ("tuned", thesis.TUNED) if tag else ("thesis", dict.fromkeys(thesis.TUNED, 1.0))
        made += [
            thesis.case(f"GD{tag}", "gd", s=scale["gd"], steps=steps, group=group),
            thesis.case(f"SGD{tag}", "sgd", minibatch=_BATCH, s=scale["sgd"], steps=steps, group=group),
            thesis.case(
                f"pathwise{tag}", "pathwise", samples=1, s=scale["pathwise"], steps=steps, group=group
            ),
            thesis.case(
                f"{_SCORES[0]}{tag}", "score", samples=100, s=scale["score"], steps=steps, group=group
            ),
        ]
    return [
        *made,
        thesis.case(_SCORES[1], "score", **few, group="thesis"),
        thesis.case(_SCORES[2], "score", **few, baseline=False, group="thesis"),
        thesis.case(f"{_SCORES[1]}, s = 0.3", "score", s=0.3, **few, group="tuned"),
        thesis.case(f"{_SCORES[2]}, s = 0.1", "score", s=0.1, **few, baseline=False, group="tuned"),
    ]


def _part(group: str, caption: str) -> thesis.Part:
    return lambda rows: rows["group"].isin(["both", group]), caption


def _others(method: str, among: tuple[str, ...] = _METHODS) -> dict[str, list[str]]:
    """By the method's name with each kind of steps the others, of which SNGD and CAVI have one."""
    return {_named(method, tag): [_named(m, tag) for m in among if m != method] for tag in thesis.TAGS}


def _named(method: str, tag: str) -> str:
    return method if method in ("CAVI", "SNGD") else method + tag


_BY = {
    "log_likelihood_error": ("by final error", "final error"),
    "elbo_gap": ("by final ELBO", "ELBO gap"),
    "seconds_to": (f"by seconds to {LEVEL:g} nats", "seconds"),
}
_FEWER: dict[str, Any] = {"column": "iterations_to", "shown": "iterations"}
_CLAIMS = (
    *(
        Statement("6.1", "Of CAVI, GD, SGD, SNGD and pathwise, the pathwise estimator performs worst.",
                  "every other method does better", column, _others("pathwise"), higher=True, setting=by,
                  shown=shown)
        for column, (by, shown) in _BY.items()
    ),
    *(
        Statement("6.1", "CAVI is by far the most accurate.", "it ends more than 10 nats below each of them",
                  column, {"CAVI": others}, margin=10.0, setting=f"against {words}, {_BY[column][0]}",
                  shown=_BY[column][1])
        for column in ("log_likelihood_error", "elbo_gap")
        for words, others in (
            *(
                (f"GD, SGD and pathwise {steps}", [f"{m}{tag}" for m in ("GD", "SGD", "pathwise")])
                for tag, steps in thesis.TAGS.items()
            ),
            ("SNGD", ["SNGD"]),
        )
    ),
    *(
        Statement("6.1", "CAVI needs the fewest iterations.",
                  f"it stays within {LEVEL:g} nats of the truth after fewer than each of the others",
                  of={"CAVI": [_named(m, tag) for m in _METHODS[1:]]}, setting=steps, **_FEWER)
        for tag, steps in thesis.TAGS.items()
    ),
    *(
        Statement("6.1", "CAVI is faster than pathwise in seconds.",
                  f"it is the first to stay within {LEVEL:g} nats", "seconds_to",
                  {"CAVI": [f"pathwise{tag}"]}, setting=steps, shown="seconds")
        for tag, steps in thesis.TAGS.items()
    ),
    *(
        Statement("6.1", "SGD needs more iterations than SNGD.",
                  f"SNGD is the first to stay within {LEVEL:g} nats, S = {_BATCH} in both",
                  of={"SNGD": [f"SGD{tag}"]}, setting=steps, **_FEWER)
        for tag, steps in thesis.TAGS.items()
    ),
    Statement("5.1, 6.1", "The score function fails to converge.",
              "it ends more than 100 nats from the truth", "log_likelihood_error",
              [_SCORES[2], f"{_SCORES[2]}, s = 0.1", _SCORES[1], f"{_SCORES[1]}, s = 0.3", _SCORES[0],
               f"{_SCORES[0]}, tuned"],
              level=100.0, higher=True, shown="final error"),
    Statement("6", "The algorithms eliminate the superfluous components.",
              "the run ends with at most 7 weights E[pi_k] above 1 %", "components",
              list(dict.fromkeys(_named(m, tag) for tag in thesis.TAGS for m in _METHODS)), level=7.0),
)  # fmt: skip

experiment = thesis.comparison_of(
    "vi-methods",
    "The methods compared",
    "6.1",
    """Which method comes nearest to the truth on the thesis' mixture, and how fast? CAVI, gradient
    descent (GD), its stochastic form (SGD), stochastic natural gradients (SNGD) and the pathwise estimator
    have the same starts on the same data. The thesis leaves out the score function as it did not converge; it
    is included here, with its formulas corrected, with and without a baseline.

    All Euclidean methods share the thesis' schedule in the first figure; in the second each has the scale of
    steps that was best on seeds that are not reported.""",
    cases=_cases,
    parts={
        "thesis-steps": _part(
            "thesis", "The thesis' steps, exp(-0.01 t). SGD and SNGD with S = 100, pathwise with L = 1."
        ),
        "tuned-steps": _part(
            "tuned",
            "Each method with the scale s that was best on other seeds: "
            + ", ".join(f"{m.upper() if 'gd' in m else m} {s:g}" for m, s in thesis.TUNED.items())
            + ".",
        ),
    },
    claims=thesis.claims_on_ends(*_CLAIMS),
    steps=_STEPS,
)
