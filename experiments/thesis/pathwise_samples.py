"""The pathwise estimator with several samples a step (Figure 6.6)."""

from __future__ import annotations

from experiments.harness.evidence import LEVEL
from experiments.harness.experiment import Case
from experiments.harness.statements import Statement
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_SAMPLES = (1, 5, 20)
_SCALES = {"": 1.0, ", tuned": thesis.TUNED["pathwise"]}


def _cases(steps: int) -> list[Case]:
    """Return pathwise at each L, with the thesis' steps and tuned ones, and GD, its limit."""
    made = []
    for tag, s in _SCALES.items():
        made += [thesis.case(_name(n, tag), "pathwise", samples=n, s=s, steps=steps) for n in _SAMPLES]
        made.append(thesis.case(f"GD{tag}", "gd", s=s, steps=steps))
    return made


def _name(samples: int, tag: str) -> str:
    return f"L = {samples}{tag}"


def _part(tag: str, steps: str) -> thesis.Part:
    caption = f"Pathwise gradients with L samples, and gradient descent with exact ones. {steps}"
    return lambda rows: rows["s"] == _SCALES[tag], caption


experiment = thesis.comparison_of(
    "pathwise-samples",
    "Monte Carlo samples for the pathwise estimator",
    "6.6",
    """Does the pathwise estimator gain from more than one sample? It has L samples of pi and mu a
    step, on all the data. The assignments z are summed out exactly, so the data enter through their expected
    statistics and a further sample costs
    nothing per datum: data evaluations do not depend on L.""",
    cases=_cases,
    parts={
        "thesis-steps": _part("", "With the thesis' steps, exp(-0.01 t)."),
        "tuned-steps": _part(", tuned", "With steps 5 exp(-0.01 t)."),
    },
    claims=thesis.claims_on_ends(
        Statement("6.4", "A single sample is generally enough for the pathwise estimator to converge.",
                  f"L = 1 ends at most 10 nats above L = {_SAMPLES[-1]}", "log_likelihood_error",
                  {_name(1, tag): [_name(_SAMPLES[-1], tag)] for tag in _SCALES}, margin=-10.0,
                  shown="final error"),
        Statement("6.4", "A single sample is optimal in wall-clock time.",
                  f"no other L stays within {LEVEL:g} nats sooner", "seconds_to",
                  {_name(1, tag): [_name(n, tag) for n in _SAMPLES[1:]] for tag in _SCALES}, shown="seconds"),
    ),
    steps=thesis.SAMPLING_STEPS,
)  # fmt: skip
