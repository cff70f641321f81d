"""The default strategy at a million data: seconds and memory once, microseconds a step."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.paired import Line, alone, paired

ROWS, COLUMNS, SIZE = 1_000_000, 5, 100


def run() -> Iterator[Line]:
    """Measure the peak of a process of its own, read off at its end."""
    features, partition, gibibytes, draw, whole = alone(_measure)
    what = f"Balanced, N = {ROWS}, S = {SIZE}"
    yield Line(
        f"{what}: set-up",
        f"{features + partition:.0f} s (features {features:.0f}, partition {partition:.0f})",
        "under 60 s",
        features + partition < 60.0,
    )
    yield Line(
        f"{what}: memory of the set-up beyond the data",
        f"{gibibytes:.2f} GiB",
        "under 2 GiB",
        gibibytes < 2.0,
    )
    yield Line(
        f"{what}: overhead of a step against uniform sampling",
        f"{whole:.0f} microseconds (the draw itself {draw:.0f})",
        "under 200",
        max(draw, whole) < 200.0,
    )


def _measure() -> tuple[float, float, float, float, float]:
    import time

    import bqvi
    from acquisition.minibatch import Balanced, Features, Uniform
    from bqvi.models import GaussianMixture

    rng = np.random.default_rng(0)
    centres = 3.0 * rng.standard_normal((15, COLUMNS))
    x = centres[rng.integers(15, size=ROWS)] + rng.standard_normal((ROWS, COLUMNS))
    model = GaussianMixture(20, np.eye(COLUMNS))
    q = model.initial(x, "random", rng)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    strategy = Balanced(SIZE, Features.of(x))
    began = time.perf_counter()
    state = strategy.start(ROWS, rng)
    partition = time.perf_counter() - began
    gibibytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20

    def draws() -> None:
        at = state
        for _ in range(2000):
            _, at = strategy.draw(at, rng)

    class Ready:
        """A strategy whose partition is made beforehand, so that only steps are timed."""

        size = SIZE
        draw = staticmethod(strategy.draw)
        observe = staticmethod(strategy.observe)

        def start(self, n: int, rng: np.random.Generator) -> object:
            return state

    def seconds_a_step(chosen: Any) -> float:
        found = bqvi.fit(model, x, "sngd", minibatch=chosen, steps=1000, record=[0], start_from=q)
        return found.state.seconds / 1000

    beyond = float(np.median([seconds_a_step(Ready()) - seconds_a_step(Uniform(SIZE)) for _ in range(3)]))
    draw = paired({"draws": draws}, rounds=3).median("draws") / 2000
    return strategy.features.seconds, partition, gibibytes, 1e6 * draw, 1e6 * beyond
