"""The importance-weighted bound with several samples (Figure 6.7): IWAE's gradient and DReG's."""

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

_SAMPLES = (1, 20)
_KINDS = {"IWAE": "iwae", "DReG": "dreg"}
_BETWEEN = 5
"""A further L, for IWAE."""
_EARLY = 1000.0
"""Log-likelihood error, nats, that marks initial convergence; runs start beyond 5000."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return both estimators at each L, IWAE at one more, and CAVI."""
    steps = thesis.QUICK_STEPS if quick else thesis.SAMPLING_STEPS
    return [
        *(
            thesis.case(_name(kind, n), method, samples=n, steps=steps)
            for kind, method in _KINDS.items()
            for n in _SAMPLES
        ),
        thesis.case(_name("IWAE", _BETWEEN), "iwae", samples=_BETWEEN, steps=steps),
        thesis.case(comparison.REFERENCE, "cavi", steps=steps),
    ]


def _name(kind: str, samples: int) -> str:
    return f"{kind}, L = {samples}"


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw each estimator in a figure of its own."""
    return [
        drawn
        for kind, method in _KINDS.items()
        for drawn in comparison.drawings(
            comparison.part(results, results["method"] == method), method, f"{kind}, steps exp(-0.01 t)."
        )
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs of each."""
    return [comparison.table(results)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims on importance weighting of Section 6.4."""
    late, early = evidence.runs(results), evidence.runs(results, level=_EARLY)
    most = _SAMPLES[-1]
    return [
        Claim(
            "6.4",
            "With importance weighting, too, a single sample converges sooner in wall-clock time.",
            f"no other L stays within {evidence.LEVEL:g} nats sooner",
            [
                evidence.less(
                    late, _name(kind, 1), [_name(kind, n) for n in _SAMPLES[1:]], "seconds_to", kind,
                    shown="seconds",
                )
                for kind in _KINDS
            ],
        ),
        Claim(
            "6.4",
            "With importance weighting, several samples converge slightly faster at first.",
            f"L = {most} stays below {_EARLY:g} nats after fewer iterations than L = 1",
            [
                evidence.less(
                    early, _name(kind, most), _name(kind, 1), "iterations_to", kind, shown="iterations"
                )
                for kind in _KINDS
            ],
        ),
    ]  # fmt: skip


experiment = Experiment(
    name="iwae-samples",
    title="Samples of the importance-weighted bound (Figure 6.7)",
    source="Gutteridge (2021), Figure 6.7",
    summary="""How does the importance-weighted bound depend on the number L of samples? Compared
    are its gradient (IWAE) and the doubly reparameterised estimator of the same gradient (DReG). With L = 1
    the bound is the ELBO: IWAE is then the pathwise estimator, DReG sticking-the-landing.

    Both ascend a bound of their own, tighter than the ELBO; the figure shows the ELBO of q, which need not
    increase with L.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
