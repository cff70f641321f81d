"""Estimates of one integral by one method, at growing numbers of evaluations.

The records of the experiments on quadrature: a row for each number of evaluations n,

    n  mean  sd  log_mean  log_sd  converged  seconds

as `bqvi.integrate` with that budget returns it. Methods that learn continue from each budget to the next
(`resume`), so a run to 160 evaluations has the estimates at 20, 40 and 80 as well; sampling methods draw the
first n points of one sequence. The baseline of all comparisons, which has no standard deviation, is

    "sobol"     the plain average over the first n points of one scrambled Sobol sequence
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.quadrature.integral import unlogged
from bqvi.quadrature.integrate import SAMPLING
from experiments.harness import drawing
from experiments.harness.experiment import Case
from experiments.problems.integrands import Integrand, integrands
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Measure

__all__ = [
    "BASELINE", "BUDGETS", "LABELS", "LINE_STYLES", "STATING_SD", "against_truth", "estimates", "known",
    "method_cases",
]  # fmt: skip

BASELINE = "sobol"
LABELS: Mapping[str, str] = {
    "monte-carlo": "simple Monte Carlo",
    BASELINE: "scrambled Sobol",
    "qmc": "Sobol, 8 blocks",
    "bq": "Bayesian quadrature",
    "wsabi-l": "WSABI-L",
    "wsabi-m": "WSABI-M",
}
_NON_NEGATIVE = ("wsabi-l", "wsabi-m")
"""Methods for integrands that are nowhere negative."""
STATING_SD = ("monte-carlo", "qmc", "bq", "wsabi-l")
"""Methods that state a standard deviation; WSABI-M has the nodes of WSABI-L and almost its estimates."""
BUDGETS = (20, 40, 80, 160)
LINE_STYLES = drawing.line_styles(LABELS.values())
"""The line style of each method, the same in all figures."""


def estimates(
    f: Callable[[Any], Any],
    measure: Measure,
    method: str,
    budgets: Sequence[int],
    seed: int,
    *,
    log: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Return a row for each of the growing ``budgets``; see the module's docstring.

    Parameters
    ----------
    f, measure, log, options : as of `bqvi.integrate`. Without ``log``, log_mean and log_sd are NaN
        where the method gives none.
    method : one of `LABELS`.
    """
    if method == BASELINE:
        return _baseline(f, measure, budgets, seed, log)
    rows, found, seconds = [], None, 0.0
    for n in budgets:
        began = time.perf_counter()
        found = bqvi.integrate(
            f, measure, n, method, log=log, seed=seed,
            resume=None if method in SAMPLING else found, **options,
        )  # fmt: skip
        spent = time.perf_counter() - began
        seconds = spent if method in SAMPLING else seconds + spent
        rows.append(_row(found, seconds))
    return pd.DataFrame(rows)


def _row(found: bqvi.Integral, seconds: float) -> dict[str, Any]:
    return {
        "n": found.n_evaluations,
        "mean": float(found.mean),
        "sd": float(found.sd),
        "log_mean": np.nan if found.log_mean is None else found.log_mean,
        "log_sd": np.nan if found.log_sd is None else found.log_sd,
        "converged": found.converged,
        "seconds": seconds,
    }


def _baseline(
    f: Callable[[Any], Any], measure: Measure, budgets: Sequence[int], seed: int, log: bool
) -> pd.DataFrame:
    began = time.perf_counter()
    x = measure.from_unit_cube(scrambled_sobol(measure.dimension, max(budgets), seed))
    values, shift = unlogged(np.asarray(f(x))) if log else (np.asarray(f(x)), 0.0)
    seconds = time.perf_counter() - began
    rows = []
    for n in budgets:
        mean = float(values[:n].mean())
        log_mean = float(np.log(mean)) + shift if log and mean > 0 else np.nan
        scaled = mean * float(np.exp(min(shift, 700.0)))
        rows.append({"n": n, "mean": scaled, "log_mean": log_mean, "seconds": seconds, "converged": True})
    return pd.DataFrame(rows).assign(sd=np.nan, log_sd=np.nan)


@cache
def known() -> Mapping[str, Integrand]:
    """Return the integrands with known integrals by name."""
    return {problem.name: problem for problem in integrands()}


def method_cases(problems: Iterable[str], methods: Sequence[str], budgets: Sequence[int]) -> list[Case]:
    """Return a case for each problem and each method that suits it.

    Parameters
    ----------
    problems, methods : their names. budgets : numbers of evaluations.
    """
    return [
        Case(
            f"{name}: {LABELS[method]}",
            {
                "problem": name,
                "kind": known()[name].kind,
                "method": LABELS[method],
                "key": method,
                "dimension": known()[name].measure.dimension,
                "budgets": list(budgets),
            },
        )
        for name in problems
        for method in methods
        if method not in _NON_NEGATIVE or known()[name].non_negative
    ]


def against_truth(case: Case, seed: int) -> pd.DataFrame:
    """Return the estimates of a case of `method_cases`, with the error and the error relative to |truth|."""
    settings = case.settings
    problem = known()[settings["problem"]]
    rows = estimates(problem.function, problem.measure, settings["key"], settings["budgets"], seed)
    error = rows["mean"] - problem.truth
    return rows.assign(error=error, relative=error.abs() / abs(problem.truth))
