"""Fitting an ARD squared exponential at n = 100, D = 5; adding one point at n = 500."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import numpy as np

import gp
from benchmarks import gp_peers
from benchmarks.paired import Line, faster, paired
from benchmarks.setting import limit_torch
from experiments.problems.simulated_regression import simulated

_POSTERIORS = 200
"""Number of posteriors, each with a factor of 2 MB; fewer are extended."""


def run() -> Iterator[Line]:
    """The fit against BoTorch's default, the extension against conditioning again."""
    limit_torch()
    yield fit()
    yield from extend()


def fit() -> Line:
    """Both with their defaults, from data to hyperparameters."""
    x, y = simulated(100, 5)
    candidates = {"ours": lambda: gp_peers.ours(x, y), "BoTorch": lambda: gp_peers.botorch(x, y)}
    times = paired(candidates, rounds=9)
    gap = gp_peers.log_evidence(x, y, candidates["ours"]()) - gp_peers.log_evidence(
        x, y, candidates["BoTorch"]()
    )
    what = "MAP fit, ARD squared exponential, n = 100, D = 5"
    made = faster(what, times.seconds["ours"], times.seconds["BoTorch"], "BoTorch", 3.0)
    return replace(made, measured=f"{made.measured}, evidence {gap:+.2f} nats")


def extend() -> Iterator[Line]:
    """Add one point: to a posterior just made, or in a loop that adds one point after the other.

    In a loop the factor is in the cache. Of many posteriors, taken in turn, it is not, and each is
    extended for the first time.
    """
    x, y = simulated(501, 5)
    process = gp.GaussianProcess(gp.kernels.SquaredExponential(np.full(5, 1.5), 2.0), noise=0.01)
    for what, count in (("in a loop", 1), ("for the first time", _POSTERIORS)):
        yield _extension(what, cycle([process.condition(x[:500], y[:500]) for _ in range(count)]), process)


def _extension(what: str, posteriors: Iterator[gp.Posterior], process: gp.GaussianProcess) -> Line:
    x, y = simulated(501, 5)
    times = paired(
        {
            "extend": lambda: next(posteriors).extend(x[500:], y[500:]),
            "refit": lambda: process.condition(x, y),
        },
        rounds=9,
        calls=20,
    )
    what = f"add one point at n = 500, {what}"
    return faster(what, times.seconds["extend"], times.seconds["refit"], "a refit", 20.0)
