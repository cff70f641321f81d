"""Cost against n for each operation of a posterior, with its slope: d log seconds / d log n.

One thread, D = 5, squared exponential with a lengthscale a dimension. The slope leaves out the smallest size,
where overheads count. Operations with O(n^3) arithmetic stay below slope 3 as long as LAPACK grows more
efficient with n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

import gp
from benchmarks.paired import Line, paired
from experiments.problems.simulated_regression import simulated
from gp.regression.problem import EvidenceProblem

SIZES = (125, 250, 500, 1000, 2000)
OPERATIONS: Mapping[str, float] = {
    "condition": 3.0,
    "mean at 1000 points": 1.0,
    "variance at 1000 points": 2.0,
    "add one point": 2.0,
    "evidence and gradient": 3.0,
    "path of 1024 features": 2.0,
}
"""Each operation, and the exponent of its count of arithmetic operations."""


def run() -> Iterator[Line]:
    """One line for each operation, D = 5. Slopes lie below the exponents as far as overheads still count."""
    seconds: dict[str, list[float]] = {name: [] for name in OPERATIONS}
    for n in SIZES:
        times = paired(operations(n), rounds=7, calls=5 if n <= 250 else 1)
        for name in OPERATIONS:
            seconds[name].append(times.median(name))
    for name, limit in OPERATIONS.items():
        found = slope(SIZES, seconds[name])
        costs = ", ".join(f"{s * 1e3:.3g}" for s in seconds[name])
        yield Line(
            f"{name}, n = {', '.join(map(str, SIZES))}",
            f"slope {found:.2f} (ms: {costs})",
            f"at most {limit:g} + 0.2 for the clock",
            found <= limit + 0.2,
        )


def operations(n: int, seed: int = 0) -> dict[str, Callable[[], object]]:
    """Return what there is to time on n observations, by the names of `OPERATIONS`."""
    x, y = simulated(n + 1, 5, seed)
    at = np.random.default_rng(seed + 1).standard_normal((1000, 5))
    kernel = gp.kernels.SquaredExponential(np.full(5, 1.5), 2.0)
    process = gp.GaussianProcess(kernel, noise=0.01)
    posterior = process.condition(x[:n], y[:n])
    problem = EvidenceProblem(x[:n], y[:n], kernel, gp.means.Constant(), noise=None, profiled=True)
    vector = problem.pack()
    return {
        "condition": lambda: process.condition(x[:n], y[:n]),
        "mean at 1000 points": lambda: posterior.mean(at),
        "variance at 1000 points": lambda: posterior.variance(at),
        "add one point": lambda: posterior.extend(x[n:], y[n:]),
        "evidence and gradient": lambda: problem.objective.expanded(vector).gradient,
        "path of 1024 features": lambda: posterior.sample_path(0),
    }


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return d log seconds / d log n, without the smallest size."""
    order = np.argsort(sizes)[1:]
    return float(np.polyfit(np.log(np.asarray(sizes)[order]), np.log(np.asarray(seconds)[order]), 1)[0])
