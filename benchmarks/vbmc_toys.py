"""Errors of VBMC's log evidence beside GPry's on toys of cosmology packages, in one process.

Six posteriors in the plane, from values. GPry (El Gammal, Schoeneberg, Torrado and Fidler 2023) learns a
density in a box by a Gaussian process and estimates its evidence by nested sampling of the process; it is
given a box (the bounds, or where there are none the plausible box of ours), as many evaluations as ours
takes, and `LIMIT` seconds of processor time: where these do not suffice, its last surrogate is sampled. Its
options are the defaults; UltraNest is its nested sampler, as PolyChord, which it prefers, is not installed
with it. dynesty (nested sampling of the density itself, 500 live points) shows that the evidence with which
both are compared is right.
"""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import bqvi
from benchmarks.paired import Line, missing
from experiments.problems.known_posteriors import Problem, bounded_banana
from experiments.vbmc.hard import FIRST_LAYOUT, HARD

NAMES = ("Himmelblau", "eggbox", "shells", "ring", "clusters", "banana")
"""Of `HARD`, and a banana in a box."""
BUDGET = 400
SEED = 0
"""Of the layout and of all runs."""
LIMIT = 150.0
"""Seconds of GPry's processor time."""
LIVE = 500
INITIAL = 84
"""GPry's default limit of evaluations before its loop in the plane."""


class _OutOfTimeError(BaseException):
    """The limit of processor time; no Exception, as packages catch those."""


@dataclass(frozen=True)
class Peer:
    """What GPry found: its evidence, its sd, evaluations, seconds of the processor, and how the run ended."""

    log_evidence: float
    sd: float
    evaluations: int
    seconds: float
    ended: str


def run() -> Iterator[Line]:
    """Two lines for each toy; a single line where a peer is not installed."""
    absent = missing("GPry and dynesty", "gpry dynesty", "gpry", "dynesty")
    if absent is not None:
        yield absent
        return
    for name in NAMES:
        yield from _beside(name, toy(name))


def toy(name: str) -> Problem:
    """Of that name, in its own box."""
    return bounded_banana() if name == "banana" else HARD[name].make(FIRST_LAYOUT + SEED)


def box(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corners of the bounds, or of the plausible box where there are none."""
    if np.isfinite(problem.lower).all() and np.isfinite(problem.upper).all():
        return problem.lower, problem.upper
    return problem.plausible_lower, problem.plausible_upper


def _beside(name: str, problem: Problem) -> Iterator[Line]:
    began = time.process_time()
    ours = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=BUDGET, seed=SEED)
    spent = time.process_time() - began
    error = abs(ours.log_evidence - problem.log_evidence)
    mine = f"{error:.2g} (sd {ours.log_evidence_sd:.2g}, {ours.n_evaluations} evaluations, {spent:.0f} s"
    mine += ", converged)" if ours.converged else ")"
    what = f"size of the error of ln Z, {name}"
    try:
        theirs = gpry(problem, ours.n_evaluations)
    except Exception as failure:  # whatever a peer raises is reported
        yield Line(what, f"{mine}; GPry failed: {failure}", "at most GPry's", True)
    else:
        other = abs(theirs.log_evidence - problem.log_evidence)
        measured = (
            f"{mine}; GPry {other:.2g} (sd {theirs.sd:.2g}, {theirs.evaluations} evaluations, "
            f"{theirs.seconds:.0f} s, {theirs.ended})"
        )
        yield Line(what, measured, "at most GPry's", bool(error <= other))
    began = time.process_time()
    found, sd, count = nested(problem)
    apart = found - problem.log_evidence
    measured = f"{apart:+.2g} (sd {sd:.2g}, {count} evaluations, {time.process_time() - began:.0f} s)"
    yield Line(f"nested sampling less the known ln Z, {name}", measured, "3 sd", bool(abs(apart) < 3.0 * sd))


def gpry(problem: Problem, budget: int) -> Peer:
    """GPry with at most ``budget`` evaluations; its evidence is that of a density times a uniform prior."""
    from gpry import Runner

    lower, upper = box(problem)
    options = {"max_total": budget, "max_initial": min(budget, INITIAL)}
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of GPry and its sampler
        run = Runner(
            problem.log_joint,
            bounds=np.column_stack([lower, upper]).tolist(),
            options=options,
            seed=SEED,
            verbose=1,
        )
        with limited(LIMIT) as within:
            run.run()
        run.generate_mc_sample()
    ended = (
        f"stopped after {LIMIT:.0f} s"
        if not within()
        else "converged"
        if run.has_converged
        else "at the budget"
    )
    log_evidence, sd = run.last_mc_logZ()
    volume = float(np.log(upper - lower).sum())
    seconds = time.process_time() - began
    return Peer(float(log_evidence) + volume, float(sd), int(run.surrogate.n_total), seconds, ended)


@contextmanager
def limited(seconds: float) -> Iterator[Callable[[], bool]]:
    """End the block after ``seconds`` of the processor; what is returned says whether it ended by itself."""
    ended = False

    def stop(*_: Any) -> None:
        raise _OutOfTimeError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield lambda: ended
        ended = True
    except _OutOfTimeError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def nested(problem: Problem) -> tuple[float, float, int]:
    """The log evidence by dynesty, its sd, and the number of evaluations."""
    from dynesty import NestedSampler

    lower, upper = box(problem)
    width = upper - lower
    sampler = NestedSampler(
        problem.log_joint, lambda u: lower + width * u, problem.dimension, nlive=LIVE,
        rstate=np.random.default_rng(SEED),
    )  # fmt: skip
    sampler.run_nested(print_progress=False)
    found = sampler.results
    return float(found.logz[-1] + np.log(width).sum()), float(found.logzerr[-1]), int(np.sum(found.ncall))
