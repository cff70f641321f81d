"""The methods of variational inference on the thesis' problem (Figure 6.1), and the score function."""

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

_METHODS = ("CAVI", "GD", "SGD", "SNGD", "pathwise")
_SCORES = ("score, L = 100", "score, L = 10", "score, L = 10, no baseline")
_BATCH = 100
_STEPS = 200
"""Iterations: enough for all that converge with these steps to do so."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method with the thesis' steps and, for methods with a step size, tuned ones."""
    steps = thesis.QUICK_STEPS if quick else _STEPS
    made = [
        thesis.case("CAVI", "cavi", steps=steps, group="both"),
        thesis.case("SNGD", "sngd", minibatch=_BATCH, steps=steps, group="both"),
    ]
    for group in ("thesis", "tuned"):
        tag = ", tuned" if group == "tuned" else ""

        def s(method: str, group: str = group) -> float:
            return thesis.TUNED[method] if group == "tuned" else 1.0

        made += [
            thesis.case(f"GD{tag}", "gd", s=s("gd"), steps=steps, group=group),
            thesis.case(f"SGD{tag}", "sgd", minibatch=_BATCH, s=s("sgd"), steps=steps, group=group),
            thesis.case(f"pathwise{tag}", "pathwise", samples=1, s=s("pathwise"), steps=steps, group=group),
        ]
    return [*made, *_scores(steps)]


def _scores(steps: int) -> list[Case]:
    return [
        thesis.case(_SCORES[0], "score", samples=100, steps=steps, group="thesis"),
        thesis.case(
            f"{_SCORES[0]}, tuned", "score", samples=100, s=thesis.TUNED["score"], steps=steps, group="tuned"
        ),
        thesis.case(_SCORES[1], "score", samples=10, steps=steps, group="thesis"),
        thesis.case(_SCORES[2], "score", samples=10, baseline=False, steps=steps, group="thesis"),
        thesis.case(f"{_SCORES[1]}, s = 0.3", "score", samples=10, s=0.3, steps=steps, group="tuned"),
        thesis.case(
            f"{_SCORES[2]}, s = 0.1", "score", samples=10, s=0.1, baseline=False, steps=steps, group="tuned"
        ),
    ]


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the thesis' steps and the tuned ones in two figures."""
    captions = {
        "thesis": "The thesis' steps, exp(-0.01 t). SGD and SNGD with S = 100, pathwise with L = 1.",
        "tuned": "Each method with the scale s that was best on other seeds: "
        + ", ".join(f"{name.upper() if 'gd' in name else name} {s:g}" for name, s in thesis.TUNED.items())
        + ".",
    }
    return [
        drawn
        for group, caption in captions.items()
        for drawn in comparison.drawings(
            results[results["group"].isin(["both", group])], f"{group}-steps", caption
        )
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs of each method."""
    return [comparison.table(results)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims of Section 6.1, with the thesis' steps and with tuned ones."""
    table = evidence.runs(evidence.with_gap(results), keep=("elbo_gap", "components"))
    return [*_pathwise(table), *_cavi(table), *_fast(table), _score(table), _elimination(table)]


def _named(method: str, tag: str) -> str:
    return method if method in ("CAVI", "SNGD") else method + tag


_TAGS = {"": "with the thesis' steps", ", tuned": "with tuned steps"}
_MEASURES = {
    "log_likelihood_error": ("by final error", "final error"),
    "elbo_gap": ("by final ELBO", "ELBO gap"),
    "seconds_to": (f"by seconds to {evidence.LEVEL:g} nats", "seconds"),
}


def _pathwise(table: pd.DataFrame) -> list[Claim]:
    """Check that pathwise is above all others in a measure."""
    checks = []
    for tag, steps in _TAGS.items():
        others = [_named(m, tag) for m in _METHODS if m != "pathwise"]
        for column, (by, shown) in _MEASURES.items():
            checks.append(
                evidence.more(table, f"pathwise{tag}", others, column, f"{steps}, {by}", shown=shown)
            )
    return [
        Claim(
            "6.1",
            "Of CAVI, GD, SGD, SNGD and pathwise, the pathwise estimator performs worst.",
            "every other method does better",
            checks,
        )
    ]


def _cavi(table: pd.DataFrame) -> list[Claim]:
    others = {tag: [_named(m, tag) for m in _METHODS if m != "CAVI"] for tag in _TAGS}
    return [
        _most_accurate(table),
        Claim(
            "6.1",
            "CAVI needs the fewest iterations.",
            f"it stays within {evidence.LEVEL:g} nats of the truth after fewer than each of the others",
            [
                evidence.less(table, "CAVI", others[tag], "iterations_to", steps, shown="iterations")
                for tag, steps in _TAGS.items()
            ],
        ),
        Claim(
            "6.1",
            "CAVI is faster than pathwise in seconds.",
            f"it is the first to stay within {evidence.LEVEL:g} nats",
            [
                evidence.less(table, "CAVI", f"pathwise{tag}", "seconds_to", steps, shown="seconds")
                for tag, steps in _TAGS.items()
            ],
        ),
    ]


def _most_accurate(table: pd.DataFrame) -> Claim:
    checks = []
    for column in ("log_likelihood_error", "elbo_gap"):
        by, shown = _MEASURES[column]
        for tag, steps in _TAGS.items():
            plain = [f"{m}{tag}" for m in ("GD", "SGD", "pathwise")]
            setting = f"against GD, SGD and pathwise {steps}, {by}"
            checks.append(evidence.less(table, "CAVI", plain, column, setting, margin=10.0, shown=shown))
        setting = f"against SNGD, {by}"
        checks.append(evidence.less(table, "CAVI", "SNGD", column, setting, margin=10.0, shown=shown))
    return Claim(
        "6.1",
        "CAVI is by far the most accurate.",
        "it ends more than 10 nats below each of them",
        checks,
    )


def _fast(table: pd.DataFrame) -> list[Claim]:
    return [
        Claim(
            "6.1",
            "SGD needs more iterations than SNGD.",
            f"SNGD is the first to stay within {evidence.LEVEL:g} nats, S = {_BATCH} in both",
            [
                evidence.less(table, "SNGD", f"SGD{tag}", "iterations_to", steps, shown="iterations")
                for tag, steps in _TAGS.items()
            ],
        )
    ]


def _score(table: pd.DataFrame) -> Claim:
    settings = {
        _SCORES[2]: "without a baseline, L = 10",
        f"{_SCORES[2]}, s = 0.1": "without a baseline, L = 10, steps a tenth as long",
        _SCORES[1]: "with a leave-one-out baseline, L = 10",
        f"{_SCORES[1]}, s = 0.3": "with the baseline, L = 10, steps a third as long",
        _SCORES[0]: "with the baseline, L = 100",
        f"{_SCORES[0]}, tuned": "with the baseline, L = 100, steps three times as long",
    }
    return Claim(
        "5.1, 6.1",
        "The score function fails to converge.",
        "it ends more than 100 nats from the truth",
        [
            evidence.at_least(table, case, "log_likelihood_error", 100.0, setting, shown="final error")
            for case, setting in settings.items()
        ],
    )


def _elimination(table: pd.DataFrame) -> Claim:
    return Claim(
        "6",
        "The algorithms eliminate the superfluous components.",
        "the run ends with at most 7 weights E[pi_k] above 1 %",
        [
            evidence.at_most(table, _named(m, tag), "components", 7, _named(m, tag), shown="components")
            for tag in _TAGS
            for m in _METHODS
            if tag == "" or m not in ("CAVI", "SNGD")
        ],
    )


experiment = Experiment(
    name="vi-methods",
    title="The methods compared (Figure 6.1)",
    source="Gutteridge (2021), Figure 6.1",
    summary="""Which method comes nearest to the truth on the thesis' mixture, and how fast? CAVI, gradient
    descent (GD), its stochastic form (SGD), stochastic natural gradients (SNGD) and the pathwise estimator
    have the same starts on the same data. The thesis leaves out the score function as it did not converge; it
    is included here, with its formulas corrected, with and without a baseline.

    All Euclidean methods share the thesis' schedule in the first figure; in the second each has the scale of
    steps that was best on seeds that are not reported.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
