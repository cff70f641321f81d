"""Errors of VBMC's log evidence beside PyVBMC's on posteriors that are hard, in one process.

Both with default options on the layouts of `experiments.vbmc.hard`, from values; PyVBMC is given as many
evaluations as ours takes, and noisy values with their standard deviation, as it asks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import bqvi
from benchmarks.paired import Line, missing
from benchmarks.vbmc import pyvbmc_result
from experiments.vbmc.hard import HARD, HardProblem

NAMES = ("Himmelblau", "clusters", "shells", "Rosenbrock 2, noise 1", "funnel 5", "ring")
"""Of `HARD`. PyVBMC takes one to ten minutes on each."""
SEED = 0
"""Of the layout and of both runs."""


def run() -> Iterator[Line]:
    """A line for each problem; a single line where PyVBMC is not installed."""
    absent = missing("PyVBMC", "pyvbmc", "pyvbmc")
    if absent is not None:
        yield absent
        return
    for name in NAMES:
        yield _beside(name, HARD[name])


def _beside(name: str, asked: HardProblem) -> Line:
    problem, sd = asked.problem(SEED), asked.noise_sd
    log_joint = problem.log_joint if sd is None else problem.noisy(sd, SEED)
    began = time.process_time()
    ours = bqvi.vbmc(log_joint, **problem.bounds(), budget=asked.budget, noise_sd=sd, seed=SEED)
    spent = time.process_time() - began
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of PyVBMC
        theirs = peer(asked, ours.n_evaluations)
    other = time.process_time() - began
    errors = [abs(found - problem.log_evidence) for found in (ours.log_evidence, theirs["elbo"])]
    stable = "said to be stable" if theirs["success_flag"] else "said to be unstable"
    measured = (
        f"{errors[0]:.2g} (sd {ours.log_evidence_sd:.2g}, {spent:.0f} s); PyVBMC {errors[1]:.2g} "
        f"(sd {theirs['elbo_sd']:.2g}, {other:.0f} s, {stable}); {ours.n_evaluations} evaluations"
    )
    what = f"size of the error of ln Z, {name}"
    return Line(what, measured, "at most PyVBMC's", bool(errors[0] <= errors[1]))


def peer(asked: HardProblem, budget: int) -> dict[str, Any]:
    """The result of PyVBMC with at most ``budget`` evaluations."""
    problem, sd = asked.problem(SEED), asked.noise_sd
    one = problem.log_joint if sd is None else problem.noisy(sd, SEED)

    def log_joint(theta: np.ndarray) -> Any:
        value = one(np.ravel(theta))
        return value if sd is None else (value, sd)

    noisy = sd is not None
    return pyvbmc_result(problem, log_joint, SEED, max_fun_evals=budget, specify_target_noise=noisy)
