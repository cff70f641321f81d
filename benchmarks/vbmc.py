"""Overhead of VBMC for each evaluation beside PyVBMC's, in turns, in one process.

Both with default options, on the same log joints, which cost some microseconds; ours is given as many
evaluations as PyVBMC takes, or stops before.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bqvi
from benchmarks.paired import Line, missing
from experiments.problems.known_posteriors import Problem, problems, rosenbrock

ROUNDS = 1
"""Of each target; PyVBMC takes about a minute on some."""
BAR = 5.0


def run() -> Iterator[Line]:
    """A line for each target; a single line where PyVBMC is not installed."""
    absent = missing("PyVBMC", "pyvbmc", "pyvbmc")
    if absent is not None:
        yield absent
        return
    # loads what is imported at the first call, so that no target is charged for it
    ours(rosenbrock(2), 15, 0)
    for problem in problems():
        yield _beside(problem)


def _beside(problem: Problem) -> Line:
    ratios, each = [], []
    for seed in range(ROUNDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of PyVBMC
            count, theirs = peer(problem, seed)
        spent, mine = ours(problem, count, seed)
        each.append((theirs / count, mine / spent, count, spent))
        ratios.append(each[-1][0] / each[-1][1])
    a, b, n, m = np.median(np.array(each), axis=0)
    measured = (
        f"{np.median(ratios):.1f} ({1e3 * a:.0f} ms of {n:.0f}, {1e3 * b:.0f} ms of {m:.0f} evaluations)"
    )
    what = f"overhead of PyVBMC / ours for each evaluation, {problem.name}"
    return Line(what, measured, f"at least {BAR:g}", bool(np.median(ratios) >= BAR))


def peer(problem: Problem, seed: int) -> tuple[int, float]:
    """Evaluations and seconds of PyVBMC."""
    began = time.perf_counter()
    result = pyvbmc_result(problem, problem.log_joint, seed)
    return int(result["func_count"]), time.perf_counter() - began


def pyvbmc_result(
    problem: Problem, log_joint: Callable[..., Any], seed: int, **options: Any
) -> dict[str, Any]:
    """The result of PyVBMC on a log joint within the box of a problem, with its ``options``."""
    from pyvbmc import VBMC

    start = 0.5 * (problem.plausible_lower + problem.plausible_upper)
    box: list[Any] = [start, *problem.bounds().values()]
    run = VBMC(log_joint, *(x[None] for x in box), options={"display": "off", **options}, seed=seed)
    _, result = run.optimize()
    return dict(result)


def ours(problem: Problem, budget: int, seed: int) -> tuple[int, float]:
    """Evaluations and seconds of ours."""
    began = time.perf_counter()
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=budget, seed=seed)
    return found.n_evaluations, time.perf_counter() - began
