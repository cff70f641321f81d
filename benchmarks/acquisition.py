"""Time to choose a node: one step at n = 400."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import acquisition as aq
import gp
from benchmarks.paired import Line, paired
from experiments.quadrature.criteria import LinearisedWarpedUncertainty, MutualInformation
from gp.kernels import SquaredExponential
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Gaussian

CRITERIA: dict[str, aq.pointwise.Criterion] = {
    "integral-variance reduction": aq.IntegralVarianceReduction(),
    "uncertainty sampling": aq.UncertaintySampling(),
    "mutual information": MutualInformation(),
    "WSABI-L uncertainty": LinearisedWarpedUncertainty(),
}


def run() -> Iterator[Line]:
    """Bind and search, n = 400, D = 10."""
    posterior, measure = _posterior(400, 10), _measure(10)

    def step(criterion: aq.pointwise.Criterion) -> Callable[[], object]:
        search = aq.ContinuousSearch()
        return lambda: search.maximise(aq.bind(criterion, posterior, measure), seed=0)

    times = paired({name: step(criterion) for name, criterion in CRITERIA.items()})
    for name in CRITERIA:
        milliseconds = 1e3 * times.median(name)
        what = f"one acquisition step, {name}, n = 400, D = 10"
        yield Line(what, f"{milliseconds:.1f} ms", "under 50 ms", milliseconds < 50)


def _measure(dimension: int) -> Gaussian:
    return Gaussian(np.zeros(dimension), np.ones(dimension))


def _posterior(n: int, dimension: int) -> gp.Posterior:
    x = _measure(dimension).from_unit_cube(scrambled_sobol(dimension, n, 0))
    process = gp.GaussianProcess(SquaredExponential(np.full(dimension, 1.5)), noise=1e-8)
    return process.condition(x, np.exp(-0.5 * (x**2).sum(axis=1)))
