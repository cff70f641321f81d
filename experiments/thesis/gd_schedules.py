"""Gradient descent with steps of several scales (Figure 6.2)."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import and_

import pandas as pd

from experiments.harness import comparison, evidence
from experiments.harness.claims import Check, Claim
from experiments.harness.statements import Statement
from experiments.thesis import settings as thesis

__all__ = ["SOUND", "experiment"]

_SCALES = (0.3, 1, 3, 5, 10, 20, 30)
SOUND = (0.3, 1, 3, 5)
"""The scales for which the thesis reports no instability."""


def _name(s: float) -> str:
    return f"s = {s:g}"


_ENDS = thesis.claims_on_ends(
    Statement("6.2", "Large steps are unstable: s = 10 starts well, then wanders.",
              "the error rises more than 10 nats above the lowest it had been",
              "rise", [_name(10), _name(20)], level=10.0, higher=True),
    Statement("6.2", "s = 20 does not converge at all.",
              "it ends more than 100 nats from the truth, or at infinity", "log_likelihood_error",
              [_name(20), _name(30)], level=100.0, higher=True, shown="final error"),
)  # fmt: skip


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check each step from a scale to the next, and the ends of runs with large ones."""
    table = comparison.ends(results)
    statement = "Larger steps are faster and more accurate, as long as they are stable."
    criterion = "of two neighbouring scales up to 5 the larger is the better one"
    checks = [
        _in_order(table, "iterations_to", "faster (iterations to the truth)", "iterations"),
        _in_order(table, "log_likelihood_error", "more accurate (final error)", "final error"),
    ]
    return [Claim("6.2", statement, criterion, checks), *_ENDS(results)]


def _in_order(table: pd.DataFrame, column: str, setting: str, shown: str) -> Check:
    steps = [
        evidence.better(table, _name(larger), _name(smaller), column, setting, shown=shown)
        for smaller, larger in pairwise(SOUND)
    ]
    return reduce(and_, steps)


experiment = thesis.comparison_of(
    "gd-schedules",
    "Scales of steps for gradient descent",
    "6.2",
    """How do speed and accuracy of gradient descent with exact gradients of all data depend on its
    steps? They are rho_t = s exp(-0.01 t), for several s.

    The curvature of the ELBO in m_k is N_k + 1, about 101 here, so steps along it are stable below 2 / 101;
    the thesis' steps are 1e-3 s.""",
    cases=lambda steps: [thesis.case(_name(s), "gd", s=s, steps=steps) for s in _SCALES],
    parts={"schedules": (lambda rows: rows["method"] == "gd", "Gradient descent, steps s exp(-0.01 t).")},
    claims=_claims,
)
