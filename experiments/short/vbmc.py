"""VBMC in the plane: the evidence of two known posteriors, a small form of `vbmc-2d` and `vbmc-targets`."""

from __future__ import annotations

import pandas as pd

from experiments.harness import evidence
from experiments.harness.claims import Claim
from experiments.harness.experiment import Case, Experiment, Resources
from experiments.vbmc import two_dimensions

__all__ = ["experiment"]

_NAMES = ("Rosenbrock 2", "lumpy 2")
_BUDGETS = (15, 30, 45)
_NEAR = 0.1
"""The largest error in nats, with which a Bayes factor is known to a tenth."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the targets."""
    return [
        Case(name, {"problem": name, "budgets": list(_BUDGETS)}) for name in _NAMES[: 1 if quick else None]
    ]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check whether the log evidence is near the truth at the end."""
    rows = results[results["part"] == "evidence"]
    last = rows[rows["n"] == rows.groupby(["case", "seed"])["n"].transform("max")]
    return [
        Claim(
            "7.3.1",
            "VBMC finds the evidence of a posterior in the plane from some tens of evaluations.",
            f"after {max(_BUDGETS)} evaluations the log evidence is within {_NEAR} nats of the truth",
            [
                evidence.at_most(last, name, "error", _NEAR, name, shown="error of the log evidence")
                for name in last["case"].unique()
            ],
        )
    ]


experiment = Experiment(
    name="short-vbmc",
    title="In short: evidence of an expensive model",
    summary="""Where does VBMC evaluate, what are its surrogates, and is the evidence right after 45
    evaluations? `bqvi run vbmc-2d vbmc-targets` are the whole studies.""",
    cases=_cases,
    run=two_dimensions.run,
    draw=two_dimensions.draw,
    claims=_claims,
    seeds=5,
    quick_seeds=1,
)
