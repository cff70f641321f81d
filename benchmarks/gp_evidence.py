"""The log evidence that fits reach, in the units of the data, on 300 rows of each set.

The folder that the environment variable BQVI_SETS names, in the layout of
`experiments.problems.regression_sets`; else scikit-learn's diabetes set and two simulated ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gp_peers
from benchmarks.paired import Line
from benchmarks.setting import limit_torch
from experiments.problems import regression_sets
from experiments.problems.simulated_regression import simulated

ROWS, SUBSET = 300, 4
"""How many rows, and the seed of their choice: not one that defaults were chosen on."""
PEERS: dict[str, Callable[[Any, Any], gp_peers.Fitted]] = {
    "BoTorch": gp_peers.botorch,
    "BoTorch without priors": gp_peers.botorch_likelihood,
    "scikit-learn": gp_peers.scikit_learn,
    "scikit-learn, 3 restarts": gp_peers.scikit_learn_restarted,
}


def run() -> Iterator[Line]:
    """A line for each set: our log evidence less the best of the peers'."""
    limit_torch()
    for name, x, y in _sets():
        reached, seconds = {}, {}
        for method, fit in {"ours": gp_peers.ours, **PEERS}.items():
            began = time.perf_counter()
            reached[method] = gp_peers.log_evidence(x, y, fit(x, y))
            seconds[method] = time.perf_counter() - began
        best = max(PEERS, key=lambda method: reached[method])
        gap = reached["ours"] - reached[best]
        others = ", ".join(f"{method} {reached[method]:.2f} ({seconds[method]:.1f} s)" for method in PEERS)
        yield Line(
            f"log evidence, {name}, n = {len(y)}, D = {x.shape[1]}",
            f"{gap:+.3f} nats: {reached['ours']:.2f} ({seconds['ours']:.1f} s); {others}",
            "at least -0.1",
            gap >= -0.1,
        )


def _sets() -> Iterator[tuple[str, Any, Any]]:
    folder = os.environ.get("BQVI_SETS")
    if folder is None:
        data = regression_sets.diabetes()
        yield "diabetes", *_some_rows(data.x, data.y)
        for seed in (0, 1):
            yield f"simulated {seed}", *simulated(ROWS, 6, seed)
        return
    for path in regression_sets.find(Path(folder)):
        data = regression_sets.read(path)
        yield data.name, *_some_rows(data.x, data.y)


def _some_rows(x: Any, y: Any) -> tuple[Any, Any]:
    rows = np.sort(np.random.default_rng(SUBSET).choice(len(y), min(ROWS, len(y)), replace=False))
    return x[rows], y[rows]
