"""Log evidences of VBMC beside PyVBMC's and dynesty's, and what each says of itself, in one process.

Three ordinary posteriors and four of several modes or rings, each seed with a layout or a plausible box of
its own (`experiments.vbmc.hard`), from values. VBMC and PyVBMC have default options and may take as many
evaluations as each other; each ends where it says that it is done. dynesty samples the density itself (nested
sampling, 500 live points) against a uniform prior on the bounds, or on three plausible boxes side by side
where there are none. A package that raises has no answer there: neither converged nor right.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

import bqvi
from benchmarks.paired import Line, missing
from benchmarks.vbmc import pyvbmc_result
from experiments.problems.known_posteriors import Problem
from experiments.vbmc.hard import HARD, HardProblem
from experiments.vbmc.runs import VALUES, problem_named

NAMES = (
    "Rosenbrock 2", "bounded banana", "logistic 5",
    "Himmelblau", "clusters", "shells", "ring",
)  # fmt: skip
"""The first three are ordinary."""
SEEDS = 3
ORDINARY = 200
"""Evaluations at most."""
LIVE = 500
NATS, SDS = 0.1, 3.0
"""Beyond both, an answer is wrong."""


@dataclass(frozen=True)
class Answer:
    """A log evidence less the known one, its stated sd, evaluations, processor seconds, what is claimed."""

    error: float
    sd: float
    evaluations: int
    seconds: float
    converged: bool

    @property
    def wrong(self) -> bool:
        """Whether the answer is wrong; one that is not a number is."""
        return not (abs(self.error) <= NATS or abs(self.error) <= SDS * self.sd)


def run() -> Iterator[Line]:
    """A line for each problem and one for each package; a single line where a peer is not installed."""
    absent = missing("PyVBMC and dynesty", "pyvbmc dynesty", "pyvbmc", "dynesty")
    if absent is not None:
        yield absent
        return
    every: dict[str, list[Answer]] = {}
    for name in NAMES:
        answers = beside(posed(name))
        for package, found in answers.items():
            every.setdefault(package, []).extend(found)
        yield _line(name, answers)
    for package, found in every.items():
        said = [answer for answer in found if answer.converged]
        false = sum(answer.wrong for answer in said)
        within = sum(abs(answer.error) <= 2.0 * answer.sd for answer in found)
        measured = f"{false} of {len(said)} that converged, of {len(found)} runs; {within} within 2 sd"
        what = f"{package}: converged, and wrong by more than {NATS:g} nats and {SDS:g} sd"
        yield Line(what, measured, "none", false == 0)


def posed(name: str) -> HardProblem:
    """The problem of that name with its budget; ordinary ones with other boxes by seed, as hard ones."""
    return HARD[name] if name in HARD else HardProblem(
        lambda _: problem_named(name), VALUES, ORDINARY, NATS
    )  # fmt: skip


def beside(asked: HardProblem) -> dict[str, list[Answer]]:
    """The answers of each package, one a seed."""
    packages = {"bqvi": ours, "PyVBMC": pyvbmc, "dynesty": nested}
    return {
        package: [timed(partial(answer, asked, asked.problem(seed), seed)) for seed in range(SEEDS)]
        for package, answer in packages.items()
    }


def timed(answer: Callable[[], Answer]) -> Answer:
    """The answer with the processor seconds it took; one that is not a number if the package raised."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers
        try:
            found = answer()
        except Exception:  # whatever a package raises
            found = Answer(np.nan, np.nan, 0, 0.0, False)
    return Answer(found.error, found.sd, found.evaluations, time.process_time() - began, found.converged)


def ours(asked: HardProblem, problem: Problem, seed: int) -> Answer:
    """`bqvi.vbmc` with its defaults."""
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=asked.budget, seed=seed)
    error = found.log_evidence - problem.log_evidence
    return Answer(error, found.log_evidence_sd, found.n_evaluations, 0.0, bool(found.converged))


def pyvbmc(asked: HardProblem, problem: Problem, seed: int) -> Answer:
    """PyVBMC with its defaults."""
    found = pyvbmc_result(
        problem, lambda theta: problem.log_joint(np.ravel(theta)), seed, max_fun_evals=asked.budget
    )
    error = float(found["elbo"]) - problem.log_evidence
    return Answer(error, float(found["elbo_sd"]), int(found["func_count"]), 0.0, bool(found["success_flag"]))


def nested(asked: HardProblem, problem: Problem, seed: int) -> Answer:
    """dynesty on a uniform prior on the bounds, or on three plausible boxes side by side."""
    del asked
    width = problem.plausible_upper - problem.plausible_lower
    lower = np.where(np.isfinite(problem.lower), problem.lower, problem.plausible_lower - width)
    upper = np.where(np.isfinite(problem.upper), problem.upper, problem.plausible_upper + width)
    return nested_sampling(problem, lower, upper, seed)


def nested_sampling(problem: Problem, lower: np.ndarray, upper: np.ndarray, seed: int) -> Answer:
    """dynesty with its defaults and `LIVE` points in a box; its rule for the end is its claim.

    Parameters
    ----------
    problem : the log joint. lower, upper : corners (D,) of the box. seed : of the run.
    """
    from dynesty import NestedSampler

    sampler = NestedSampler(
        problem.log_joint, lambda u: lower + (upper - lower) * u, problem.dimension, nlive=LIVE,
        rstate=np.random.default_rng(seed),
    )  # fmt: skip
    sampler.run_nested(print_progress=False)
    found = sampler.results
    log_evidence = float(found.logz[-1] + np.log(upper - lower).sum())
    error, count = log_evidence - problem.log_evidence, int(np.sum(found.ncall))
    return Answer(error, float(found.logzerr[-1]), count, 0.0, True)


def _line(name: str, answers: Mapping[str, list[Answer]]) -> Line:
    """Medians over seeds."""
    parts, size = [], {}
    for package, found in answers.items():
        rows = [(abs(a.error), a.sd, a.evaluations, a.seconds) for a in found]
        size[package], sd, n, seconds = np.nanmedian(np.array(rows), axis=0)
        claims = sum(a.converged for a in found)
        parts.append(
            f"{package} {size[package]:.2g} (sd {sd:.2g}, {n:.0f} evaluations, {seconds:.0f} s, "
            f"{claims} converged, {sum(a.converged and a.wrong for a in found)} of them wrong)"
        )
    what = f"size of the error of ln Z, {name}"
    return Line(what, "; ".join(parts), "at most PyVBMC's", bool(size["bqvi"] <= size["PyVBMC"]))
