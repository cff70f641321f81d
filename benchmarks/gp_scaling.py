"""Cost against n for each operation of a posterior, with its slope: d log seconds / d log n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gp
from benchmarks.gp_fit import simulated
from benchmarks.paired import Line, paired
from gp.evidence import Problem, solve_with_gradient

SIZES = (125, 250, 500, 1000, 2000)
LIMITS = {
    "condition": 3.0,
    "mean at 1000 points": 1.0,
    "variance at 1000 points": 2.0,
    "add one point": 2.0,
    "evidence and gradient": 3.0,
    "path of 1024 features": 2.0,
}
"""Exponents of the operation counts; a measured slope is below, as far as overheads still count."""


def run() -> Iterator[Line]:
    """One line for each operation, D = 5."""
    seconds: dict[str, list[float]] = {name: [] for name in LIMITS}
    for n in SIZES:
        times = paired(_operations(n), rounds=7, calls=5 if n <= 250 else 1)
        for name in LIMITS:
            seconds[name].append(times.median(name))
    for name, limit in LIMITS.items():
        slope = float(np.polyfit(np.log(SIZES[1:]), np.log(seconds[name][1:]), 1)[0])
        costs = ", ".join(f"{s * 1e3:.3g}" for s in seconds[name])
        yield Line(
            f"{name}, n = {', '.join(map(str, SIZES))}",
            f"slope {slope:.2f} (ms: {costs})",
            f"at most {limit:g} + 0.2 for the clock",
            slope <= limit + 0.2,
        )


def _operations(n: int) -> dict[str, Callable[[], Any]]:
    x, y = simulated(n + 1, 5)
    at = np.random.default_rng(1).standard_normal((1000, 5))
    kernel = gp.kernels.SquaredExponential(np.full(5, 1.5), 2.0)
    process = gp.GaussianProcess(kernel, noise=0.01)
    posterior = process.condition(x[:n], y[:n])
    problem = Problem(x[:n], y[:n], kernel, gp.means.Constant(), noise=None, profiled=True)
    vector = problem.pack()
    return {
        "condition": lambda: process.condition(x[:n], y[:n]),
        "mean at 1000 points": lambda: posterior.mean(at),
        "variance at 1000 points": lambda: posterior.variance(at),
        "add one point": lambda: posterior.extend(x[n:], y[n:]),
        "evidence and gradient": lambda: solve_with_gradient(problem, vector),
        "path of 1024 features": lambda: posterior.sample_path(0),
    }
