"""Gradient descent with steps of several scales (Figure 6.2)."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import and_

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

__all__ = ["SOUND", "experiment"]

_SCALES = (0.3, 1, 3, 5, 10, 20, 30)
SOUND = (0.3, 1, 3, 5)
"""The scales for which the thesis reports no instability."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return GD at each scale, and CAVI."""
    steps = thesis.QUICK_STEPS if quick else thesis.STEPS
    return [
        *(thesis.case(_name(s), "gd", s=s, steps=steps) for s in _SCALES),
        thesis.case(comparison.REFERENCE, "cavi", steps=steps),
    ]


def _name(s: float) -> str:
    return f"s = {s:g}"


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw error and ELBO gap against the costs."""
    return comparison.drawings(results, "schedules", "Gradient descent, steps s exp(-0.01 t).")


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs at each scale."""
    return [comparison.table(results)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims of Section 6.2."""
    table = evidence.runs(results)
    return [
        Claim(
            "6.2",
            "Larger steps are faster and more accurate, as long as they are stable.",
            "of two neighbouring scales up to 5 the larger is the better one",
            [
                _in_order(table, "iterations_to", "faster (iterations to the truth)", "iterations"),
                _in_order(table, "log_likelihood_error", "more accurate (final error)", "final error"),
            ],
        ),
        Claim(
            "6.2",
            "Large steps are unstable: s = 10 starts well, then wanders.",
            "the error rises more than 10 nats above the lowest it had been",
            [evidence.at_least(table, _name(s), "rise", 10.0, _name(s), shown="rise") for s in (10, 20)],
        ),
        Claim(
            "6.2",
            "s = 20 does not converge at all.",
            "it ends more than 100 nats from the truth, or at infinity",
            [
                evidence.at_least(
                    table, _name(s), "log_likelihood_error", 100.0, _name(s), shown="final error"
                )
                for s in (20, 30)
            ],
        ),
    ]


def _in_order(table: pd.DataFrame, column: str, setting: str, shown: str) -> Check:
    steps = [
        evidence.less(table, _name(larger), _name(smaller), column, setting, shown=shown)
        for smaller, larger in pairwise(SOUND)
    ]
    return reduce(and_, steps)


experiment = Experiment(
    name="gd-schedules",
    title="Scales of steps for gradient descent (Figure 6.2)",
    source="Gutteridge (2021), Figure 6.2",
    summary="""How do speed and accuracy of gradient descent with exact gradients of all data depend on its
    steps? They are rho_t = s exp(-0.01 t), for several s.

    The curvature of the ELBO in m_k is N_k + 1, about 101 here, so steps along it are stable below 2 / 101;
    the thesis' steps are 1e-3 s.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
