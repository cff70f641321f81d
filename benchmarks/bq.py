"""Overhead of Bayesian quadrature: the time of a round beyond the evaluations of the log joint.

Evaluations are timed where they are made: replayed one after the other, with caches that nothing else has
used, they would take half as long. Records of the ELBO are in no step's time. Beside the
figure stands the Cholesky factor of a 200 x 200 matrix, which a process made anew at each round would need.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

import bqvi
from benchmarks.paired import Line, paired
from bqvi.gradients import bayesian_quadrature
from bqvi.gradients.evaluations import evaluate
from experiments.problems.gradient_targets import GradientTarget, targets
from gp.matrices import cholesky

EVALUATIONS = 200
SEEDS = (100, 101, 102)


def run() -> Iterator[Line]:
    """D = 10, two nodes a round, 200 evaluations, all of them in the process."""
    for name in ("schools-centred", "wine"):
        clocks = _clocks(targets()[name])
        # the least of each, as other processes of the machine only add time
        beyond, within = (1e3 * min(times) / EVALUATIONS for times in clocks)
        factor = paired({"factor": _factor}, rounds=9).seconds["factor"].min() * 1e3
        yield Line(
            f"Bayesian quadrature, {name}: a round beyond its evaluations",
            f"{beyond:.2f} ms an evaluation (itself {within:.2f} ms; a factor of 200 rows {factor:.2f} ms)",
            "at most 1",
            beyond <= 1.0,
        )


def _clocks(target: GradientTarget) -> tuple[list[float], list[float]]:
    """Seconds beyond the evaluations, and seconds of the evaluations, run by run."""
    model, beyond, within = target.model(), list[float](), list[float]()
    for seed in SEEDS * 3:
        clock = _Clock()
        with mock.patch.object(bayesian_quadrature, "evaluate", clock):
            found = bqvi.fit(
                model,
                method="bq",
                start_from=target.start(),
                budget=EVALUATIONS,
                tolerance=None,
                record=10**6,
                seed=seed,
            )
        beyond.append(found.state.seconds - clock.seconds)
        within.append(clock.seconds)
    return beyond, within


class _Clock:
    """`evaluate`, and how long it has taken."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **choices: Any) -> Any:
        began = time.perf_counter()
        found = evaluate(*arguments, **choices)
        self.seconds += time.perf_counter() - began
        return found


def _factor() -> None:
    cholesky(0.5 * np.ones((200, 200)) + np.eye(200))
