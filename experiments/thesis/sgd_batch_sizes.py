"""Stochastic gradient descent with mini-batches of several sizes (Figure 6.3), and with more data."""

from __future__ import annotations

from dataclasses import replace

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

_SIZES = (1, 10, 50, 100, 350)
_MANY = 20_000
_MANY_SIZES = (10, 100, 1000)
_MANY_STEPS, _MANY_CAVI_STEPS = 150, 60
"""Iterations with 20 000 data; the second number is for CAVI, for comparison."""
_LONGER = 3.0
"""The scale of the steps with which all but a few runs converge (`gd-schedules`)."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return SGD and GD on the thesis' 700 data with two scales of steps, and on 20 000; CAVI on both."""
    steps = thesis.QUICK_STEPS if quick else thesis.STEPS
    plain = [
        thesis.case(
            _name(size, s, n),
            "gd" if size == n else "sgd",
            minibatch=None if size == n else size,
            s=s,
            n=n,
            steps=steps if n == thesis.N else min(steps, _MANY_STEPS),
        )
        for s, n, sizes in (
            (1.0, thesis.N, _SIZES),
            (_LONGER, thesis.N, _SIZES),
            (_LONGER, _MANY, _MANY_SIZES),
        )
        for size in (*sizes, n)
    ]
    few, many = comparison.REFERENCE, f"{comparison.REFERENCE}, N = {_MANY}"
    return [
        *plain,
        thesis.case(few, "cavi", steps=steps),
        thesis.case(many, "cavi", steps=min(steps, _MANY_CAVI_STEPS), n=_MANY),
    ]


def _name(size: int, s: float, n: int = thesis.N) -> str:
    batch = "all" if size == n else f"S = {size}"
    return f"{batch}, s = {s:g}" + f", N = {n}" * (n != thesis.N)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw both scales of steps and both sizes of data."""
    few, many = results[results["n"] == thesis.N], results[results["n"] == _MANY]
    steps = "SGD with N = 700, steps {:g} exp(-0.01 t)."
    return [
        *comparison.drawings(comparison.part(few, few["s"] == 1.0), "thesis-steps", steps.format(1)),
        *comparison.drawings(
            comparison.part(few, few["s"] == _LONGER), "longer-steps", steps.format(_LONGER)
        ),
        *comparison.drawings(
            many,
            "more-data",
            f"The same with N = 20 000 from the same clusters and steps {_LONGER:g} (700 / N) exp(-0.01 t).",
        ),
    ]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end and the costs at each size."""
    made = comparison.table(_per_datum(results))
    return [replace(made, caption=f"Errors for N = 20 000 are given times 700 / N. {made.caption}")]


def _per_datum(results: pd.DataFrame) -> pd.DataFrame:
    """Errors in proportion to N, so that one level serves both sizes of data."""
    return results.assign(log_likelihood_error=results["log_likelihood_error"] * thesis.N / results["n"])


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the claims on mini-batches of Section 6.3."""
    table = evidence.runs(_per_datum(results))
    scales = (1.0, _LONGER)
    return [
        Claim(
            "6.3",
            "Large mini-batches converge in fewer iterations.",
            f"S = 350 stays within {evidence.LEVEL:g} nats after fewer than S = 10",
            [_large(table, s, "iterations_to", "iterations") for s in scales],
        ),
        Claim(
            "6.3",
            "Large mini-batches end with a lower error.",
            "S = 350 ends lower than S = 10",
            [_large(table, s, "log_likelihood_error", "final error") for s in scales],
        ),
        Claim(
            "6.3",
            "Small mini-batches reach a similar accuracy in much less time.",
            f"S = 10 stays within {evidence.LEVEL:g} nats (per 700 data) at under half the cost of all data",
            [
                _cheaper(table, column, s, n)
                for column in ("seconds_to", "evaluations_to")
                for s, n in ((1.0, thesis.N), (_LONGER, thesis.N), (_LONGER, _MANY))
            ],
        ),
    ]


def _large(table: pd.DataFrame, s: float, column: str, shown: str) -> Check:
    return evidence.less(table, _name(350, s), _name(10, s), column, f"s = {s:g}", shown=shown)


def _cheaper(table: pd.DataFrame, column: str, s: float, n: int) -> Check:
    cost = column.removesuffix("_to")
    setting = f"in {'data evaluations' if cost == 'evaluations' else cost}, s = {s:g}, N = {n}"
    return evidence.less(table, _name(10, s, n), _name(n, s, n), column, setting, factor=0.5, shown=cost)


experiment = Experiment(
    name="sgd-batch-sizes",
    title="Sizes of mini-batches for SGD (Figure 6.3)",
    source="Gutteridge (2021), Figure 6.3",
    summary="""How does stochastic gradient descent depend on the size S of its mini-batches? They are drawn
    uniformly without replacement, beside gradient descent on all data with the same steps s exp(-0.01 t).
    With the thesis' s = 1 many runs have not converged when the steps have become too short; with s = 3 they
    converge. In so small a problem most seconds are those of the loop and not of the data, so the same is
    done with N = 20 000.""",
    cases=_cases,
    run=thesis.run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
