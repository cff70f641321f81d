"""The pathwise estimator with several samples a step (Figure 6.6)."""

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

_SAMPLES = (1, 5, 20)
_SCALES = {"": 1.0, ", tuned": thesis.TUNED["pathwise"]}
_SETTINGS = {"": "with the thesis' steps", ", tuned": "with tuned steps"}


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return pathwise at each L, with the thesis' steps and tuned ones, GD, its limit, and CAVI."""
    steps = thesis.QUICK_STEPS if quick else thesis.SAMPLING_STEPS
    made = []
    for tag, s in _SCALES.items():
        made += [thesis.case(_name(n, tag), "pathwise", samples=n, s=s, steps=steps) for n in _SAMPLES]
        made.append(thesis.case(f"GD{tag}", "gd", s=s, steps=steps))
    return [*made, thesis.case(comparison.REFERENCE, "cavi", steps=steps)]


def _name(samples: int, tag: str) -> str:
    return f"L = {samples}{tag}"


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the thesis' steps and the tuned ones in two figures."""
    captions = {"": "With the thesis' steps, exp(-0.01 t).", ", tuned": "With steps 5 exp(-0.01 t)."}
    names = {"": "thesis-steps", ", tuned": "tuned-steps"}
    return [
        drawn
        for tag, caption in captions.items()
        for drawn in comparison.drawings(
            comparison.part(results, results["s"] == _SCALES[tag]),
            names[tag],
            f"Pathwise gradients with L samples, and gradient descent with exact ones. {caption}",
        )
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs at each L."""
    return [comparison.table(results)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims on the pathwise estimator of Section 6.4."""
    table = evidence.runs(results)
    most = _SAMPLES[-1]
    return [
        Claim(
            "6.4",
            "A single sample is generally enough for the pathwise estimator to converge.",
            f"L = 1 ends at most 10 nats above L = {most}",
            [
                evidence.within(
                    table, _name(1, tag), _name(most, tag), "log_likelihood_error", setting,
                    margin=10.0, shown="final error",
                )
                for tag, setting in _SETTINGS.items()
            ],
        ),
        Claim(
            "6.4",
            "A single sample is optimal in wall-clock time.",
            f"no other L stays within {evidence.LEVEL:g} nats sooner",
            [_soonest(table, tag, setting) for tag, setting in _SETTINGS.items()],
        ),
    ]  # fmt: skip


def _soonest(table: pd.DataFrame, tag: str, setting: str) -> Check:
    others = [_name(n, tag) for n in _SAMPLES[1:]]
    return evidence.less(table, _name(1, tag), others, "seconds_to", setting, shown="seconds")


experiment = Experiment(
    name="pathwise-samples",
    title="Monte Carlo samples for the pathwise estimator (Figure 6.6)",
    source="Gutteridge (2021), Figure 6.6",
    summary="""Does the pathwise estimator gain from more than one sample? It has L samples of pi and mu a
    step, on all the data. The assignments z are summed out exactly, so the data enter through their expected
    statistics and a further sample costs
    nothing per datum: data evaluations do not depend on L.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
