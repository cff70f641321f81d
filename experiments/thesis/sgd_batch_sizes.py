"""Stochastic gradient descent with mini-batches of several sizes (Figure 6.3), and with more data."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from experiments.harness import comparison
from experiments.harness.claims import Claim
from experiments.harness.evidence import LEVEL
from experiments.harness.experiment import Case, Table
from experiments.harness.statements import Statement
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_SIZES = (1, 10, 50, 100, 350)
_MANY = 20_000
_MANY_SIZES = (10, 100, 1000)
_MANY_STEPS, _MANY_CAVI_STEPS = 150, 60
"""Iterations with 20 000 data; the second number is for CAVI, for comparison."""
_LONGER = 3.0
"""The scale of the steps with which all but a few runs converge (`gd-schedules`)."""


def _cases(steps: int) -> list[Case]:
    """Return SGD and GD on the thesis' 700 data with two scales of steps, and on 20 000 with CAVI."""
    few, many = (thesis.N, steps), (_MANY, min(steps, _MANY_STEPS))
    return [
        *(
            thesis.case(
                _name(size, s, n), "gd" if size == n else "sgd", minibatch=None if size == n else size,
                s=s, n=n, steps=most,
            )
            for s, (n, most), sizes in (
                (1.0, few, _SIZES), (_LONGER, few, _SIZES), (_LONGER, many, _MANY_SIZES),
            )
            for size in (*sizes, n)
        ),
        thesis.case(f"CAVI, N = {_MANY}", "cavi", steps=min(steps, _MANY_CAVI_STEPS), n=_MANY),
    ]  # fmt: skip


def _name(size: int, s: float, n: int = thesis.N) -> str:
    batch = "all" if size == n else f"S = {size}"
    return f"{batch}, s = {s:g}" + f", N = {n}" * (n != thesis.N)


def _part(s: float, n: int, caption: str) -> thesis.Part:
    return lambda rows: (rows["s"] == s) & (rows["n"] == n) & (rows["method"] != "cavi"), caption


def _per_datum(results: pd.DataFrame) -> pd.DataFrame:
    """Errors in proportion to N, so that one level serves both sizes of data."""
    return results.assign(log_likelihood_error=results["log_likelihood_error"] * thesis.N / results["n"])


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs at each size."""
    made = comparison.table(_per_datum(results))
    return [replace(made, caption=f"Errors for N = 20 000 are given times 700 / N. {made.caption}")]


_LARGE = {_name(350, s): [_name(10, s)] for s in (1.0, _LONGER)}
_SETTINGS = ((1.0, thesis.N), (_LONGER, thesis.N), (_LONGER, _MANY))
_ENDS = thesis.claims_on_ends(
    Statement("6.3", "Large mini-batches converge in fewer iterations.",
              f"S = 350 stays within {LEVEL:g} nats after fewer than S = 10", "iterations_to", _LARGE,
              shown="iterations"),
    Statement("6.3", "Large mini-batches end with a lower error.", "S = 350 ends lower than S = 10",
              "log_likelihood_error", _LARGE, shown="final error"),
    *(
        Statement("6.3", "Small mini-batches reach a similar accuracy in much less time.",
                  f"S = 10 stays within {LEVEL:g} nats (per 700 data) at under half the cost of all data",
                  f"{cost}_to", {_name(10, s, n): [_name(n, s, n)] for s, n in _SETTINGS}, factor=0.5,
                  setting=f"in {words}", shown=cost)
        for cost, words in (("seconds", "seconds"), ("evaluations", "data evaluations"))
    ),
)  # fmt: skip


def _claims(results: pd.DataFrame) -> list[Claim]:
    return _ENDS(_per_datum(results))


_STEPS = "SGD with N = 700, steps {:g} exp(-0.01 t)."
experiment = replace(
    thesis.comparison_of(
        "sgd-batch-sizes",
        "Sizes of mini-batches for SGD",
        "6.3",
        """How does stochastic gradient descent depend on the size S of its mini-batches? They are drawn
    uniformly without replacement, beside gradient descent on all data with the same steps s exp(-0.01 t).
    With the thesis' s = 1 many runs have not converged when the steps have become too short; with s = 3 they
    converge. In so small a problem most seconds are those of the loop and not of the data, so the same is
    done with N = 20 000.""",
        cases=_cases,
        parts={
            "thesis-steps": _part(1.0, thesis.N, _STEPS.format(1)),
            "longer-steps": _part(_LONGER, thesis.N, _STEPS.format(_LONGER)),
            "more-data": _part(
                _LONGER, _MANY,
                f"N = 20 000 from the same clusters, steps {_LONGER:g} (700 / N) exp(-0.01 t).",
            ),
        },
        claims=_claims,
    ),
    tables=_tables,
)  # fmt: skip
