"""A memory-mapped data set of 10 million rows of 8 columns in float32: memory used beyond the map."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.paired import Line, alone
from benchmarks.peak import peak as peak_now

ROWS, COLUMNS = 10_000_000, 8


def run() -> Iterator[Line]:
    """Measure the peak of a process of its own, read off at its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        _write(path)
        gibibytes, sngd_seconds, pass_seconds = alone(_measure, path)
    yield Line(
        f"{ROWS} x {COLUMNS} float32 memory map: SNGD and a full CAVI pass, memory beyond the map",
        f"{gibibytes:.2f} GiB (SNGD 1000 steps {sngd_seconds:.1f} s, one pass {pass_seconds:.1f} s)",
        "under 1 GiB",
        gibibytes < 1.0,
    )


def _write(path: Path) -> None:
    table = np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, COLUMNS))
    rng = np.random.default_rng(0)
    centres = (5.0 * rng.standard_normal((16, COLUMNS))).astype(np.float32)
    for start in range(0, ROWS, 1_000_000):
        labels = rng.integers(16, size=1_000_000)
        noise = rng.standard_normal((1_000_000, COLUMNS), np.float32)
        table[start : start + 1_000_000] = centres[labels] + noise
    table.flush()


def _measure(path: Path) -> tuple[float, float, float]:
    import bqvi
    from bqvi.models import GaussianMixture

    data = np.load(path, mmap_mode="r")
    model = GaussianMixture(16, np.eye(COLUMNS))
    first = bqvi.fit(model, data, "sngd", minibatch=100, steps=1000, record=[0])
    second = bqvi.fit(model, data, "cavi", steps=1, record=[0], start_from=first.q)
    peak = peak_now() / 2**10
    mapped = ROWS * COLUMNS * 4 / 2**30  # mapped pages count as resident while memory is free
    return peak - mapped, first.state.seconds, second.state.seconds
