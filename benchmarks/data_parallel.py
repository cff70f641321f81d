"""Coordinate ascent on 10 million rows of 8 columns: two processes against one, and an estimate for 64 nodes.

Seconds are those of the steps, and those of the processor in the slowest process: where other programs share
the machine, only the second shows the effect of dividing the rows. 64 nodes are not measured: a pass takes 1
/ 64 of one process' time, and an all-reduce among W nodes 2 (W - 1) messages one after the other (a ring),
each of half the time that an all-reduce takes between two processes here, or of 25 microseconds and 1 GB/s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.memory import COLUMNS, ROWS, _write
from benchmarks.paired import Line

COMPONENTS, STEPS, ROUNDS, MESSAGES = 16, 3, 2, 200
NODES, LATENCY, BANDWIDTH = 64, 25e-6, 1e9
LEAST = 1.6
ROUNDING = float(np.finfo(np.float32).eps)
"""The tolerance, as blocks of rows are summed in the precision of the data, and differ between shares."""


def run() -> Iterator[Line]:
    """One process and two in turn; the best round of each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        _write(path)
        alone, both = [], []
        for i in range(ROUNDS):
            alone += _processes(path, Path(folder) / f"alone{i}", 1)
            both.append(np.array(_processes(path, Path(folder) / f"both{i}", 2)).max(axis=0))
    one, two = np.min(alone, axis=0), np.min(both, axis=0)
    title = f"CAVI on {ROWS} x {COLUMNS}, {COMPONENTS} components"
    off = abs(one[2] - two[2]) / abs(one[2])
    yield Line(
        f"{title}: ELBO of two processes, relative to one's, data in float32",
        f"off by {off:.1g}",
        f"{ROUNDING:.1g}",
        off < ROUNDING,
    )
    seconds = f"{one[0]:.2f} s a step, two processes {two[0]:.2f} s"
    yield Line(f"{title}: seconds of a step", seconds, f"{LEAST} times", one[0] >= LEAST * two[0])
    seconds = f"{one[1]:.2f} s a step, two processes {two[1]:.2f} s each"
    yield Line(f"{title}: of the processor", seconds, f"{LEAST} times", one[1] >= LEAST * two[1])
    numbers = int(one[4])
    here, there = two[3], LATENCY + 8 * numbers / NODES / BANDWIDTH
    ring = 2 * (NODES - 1)
    step = [one[1] / NODES + ring * each for each in (here / 2, there)]
    measured = f"{one[1] / step[0]:.0f} times one process, {one[1] / step[1]:.0f} on the network"
    yield Line(f"{title}: {NODES} nodes, computed; a message is {8 * numbers} bytes", measured, "none", True)


def _processes(path: Path, store: Path, world: int) -> list[list[float]]:
    """The measurements of each process."""
    command = [sys.executable, "-m", "benchmarks.data_parallel", str(path), str(store), str(world)]
    begun = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(world)
    ]
    answers = [process.communicate()[0] for process in begun]
    if any(process.returncode for process in begun):
        raise RuntimeError("a process failed; its error is above")
    return [[float(word) for word in answer.split()] for answer in answers]


def _measure(path: str, store: str, world: int, rank: int) -> None:
    """Print seconds and processor's seconds of a step, the ELBO, seconds of a message, and its numbers."""
    from torch import distributed

    import bqvi
    from bqvi.inference.data_parallel import DataParallel, _message
    from bqvi.models import GaussianMixture

    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    data = np.load(path, mmap_mode="r")
    model = DataParallel(GaussianMixture(COMPONENTS, np.eye(COLUMNS)))
    first = bqvi.fit(model, data, "cavi", steps=1, record=[0], seed=0)
    run = bqvi.fit.steps(model, data, "cavi", steps=STEPS, record=[0], start_from=first.q, seed=0)
    next(run)  # the record of the start, which also reads the pages of the memory map
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(STEPS - 1):
        next(run)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    numbers = sum(np.size(part) for part in model.prior.natural) + 1
    distributed.barrier()
    began = time.perf_counter()
    for _ in range(MESSAGES):
        _message([np.zeros(numbers)])
    message = (time.perf_counter() - began) / MESSAGES
    elbo = run.finish().elbo
    distributed.destroy_process_group()
    print(wall / (STEPS - 1), processor / (STEPS - 1), elbo, message, numbers)


if __name__ == "__main__":
    _measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
