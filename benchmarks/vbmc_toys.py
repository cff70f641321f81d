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
from functools import partial
from typing import Any

import numpy as np

from benchmarks.paired import Line, missing
from benchmarks.vbmc_peers import NATS, Answer, nested_sampling, ours, timed
from experiments.problems.known_posteriors import Problem, bounded_banana
from experiments.vbmc.hard import FIRST_LAYOUT, HARD, HardProblem
from experiments.vbmc.runs import VALUES

NAMES = ("Himmelblau", "eggbox", "shells", "ring", "clusters", "banana")
"""Of `HARD`, and a banana in a box."""
BUDGET = 400
SEED = 0
"""Of the layout and of all runs."""
LIMIT = 150.0
"""Seconds of GPry's processor time."""
INITIAL = 84
"""GPry's default limit of evaluations before its loop in the plane."""


class _OutOfTimeError(BaseException):
    """The limit of processor time; no Exception, as packages catch those."""


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
    asked = HardProblem(lambda _: problem, VALUES, BUDGET, NATS)
    mine = timed(partial(ours, asked, problem, SEED))
    what, measured, held = f"size of the error of ln Z, {name}", _words("ours", mine), True
    try:
        theirs, ended = gpry(problem, mine.evaluations)
    except Exception as failure:  # whatever a peer raises is reported
        measured += f"; GPry failed: {failure}"
    else:
        measured += f"; {_words('GPry', theirs)}" + f", {ended}" * (not theirs.converged)
        held = abs(mine.error) <= abs(theirs.error)
    yield Line(what, measured, "at most GPry's", held)
    known = timed(partial(nested_sampling, problem, *box(problem), SEED))
    what = f"nested sampling less the known ln Z, {name}"
    yield Line(what, _words("dynesty", known), "3 sd", bool(abs(known.error) < 3.0 * known.sd))


def _words(name: str, answer: Answer) -> str:
    said = ", converged" * answer.converged
    size = f"{abs(answer.error):.2g} (sd {answer.sd:.2g}, {answer.evaluations} evaluations"
    return f"{name} {size}, {answer.seconds:.0f} s{said})"


def gpry(problem: Problem, budget: int) -> tuple[Answer, str]:
    """GPry with at most ``budget`` evaluations, on a uniform prior on its box; and how the run ended."""
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
    error = float(log_evidence) + float(np.log(upper - lower).sum()) - problem.log_evidence
    seconds = time.process_time() - began
    return Answer(error, float(sd), int(run.surrogate.n_total), seconds, ended == "converged"), ended


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
