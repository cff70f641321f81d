"""Overhead of the loop: stochastic natural gradient beyond the model's own arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import bqvi
from acquisition.minibatch import Uniform
from benchmarks.paired import Line, paired
from bqvi.models import GaussianMixture


def run() -> Iterator[Line]:
    """S = 100 of N = 20,000, D = 5, K = 20."""
    rng = np.random.default_rng(0)
    x = 3.0 * rng.standard_normal((15, 5))[rng.integers(15, size=20_000)] + rng.standard_normal((20_000, 5))
    model = GaussianMixture(20, np.eye(5))
    start = model.initial(x, "k-means++", rng)
    steps = 500
    batch, weights = x[:100].copy(), np.full(100, 200.0)

    def loop() -> None:
        bqvi.fit(
            model,
            x,
            "sngd",
            minibatch=Uniform(100),
            steps=steps,
            record=[0],
            start_from=start,
            elbo_samples=2,
        )

    def set_up() -> None:
        bqvi.fit(model, x, "sngd", minibatch=Uniform(100), steps=0, record=[0], start_from=start)

    def arithmetic() -> None:
        q = start
        for _ in range(steps):
            q = q.from_natural(q.natural)
            model.local_step(q, batch, weights)

    times = paired({"loop": loop, "set up": set_up, "arithmetic": arithmetic}, rounds=9)
    # a difference of small numbers: the least of each, because what else the machine does only adds
    least = {name: float(np.min(seconds)) / steps * 1e6 for name, seconds in times.seconds.items()}
    whole = least["loop"] - least["set up"]
    overhead = whole - least["arithmetic"]
    share = f"{whole:.0f} microseconds in all"
    yield Line(
        "SNGD, S = 100: loop beyond the local step",
        f"{overhead:.0f} microseconds an iteration ({share})",
        "under 100",
        overhead < 100.0,
    )
