"""A study that is too long for the suite: kill -9 at random moments of runs with ``checkpoint``.

    python -m tests.runs.studies --times 50

It says how many evaluations that had returned are not in the checkpoint; at most one may be missing, the one
whose entry was being written. Damaged files are opened in `test_saved_runs`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bqvi import Run
from tests.runs.doors import CASES

_SECONDS = 0.01
"""Of an evaluation, so that kills fall into evaluations, into writing and into the rest alike."""


def main() -> int:
    """Run the study; 1 if the condition was violated."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--doors", nargs="+", choices=CASES, default=tuple(CASES))
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if kills(chosen.doors, chosen.times, rng, Path(folder)) else 1


def kills(doors: Sequence[str], times: int, rng: np.random.Generator, folder: Path) -> bool:
    """``times`` kills over the ``doors``, each at a moment drawn from the whole of the run."""
    lost: Counter[int] = Counter()
    whole = {}
    for door in doors:
        began = time.monotonic()
        _run(door, folder / f"first {door}.npz", folder / "first.txt")
        whole[door] = time.monotonic() - began
    for i in range(times):
        door, path, log = doors[i % len(doors)], folder / f"{i}.npz", folder / f"{i}.txt"
        process = multiprocessing.get_context("fork").Process(target=_run, args=(door, path, log))
        process.start()
        time.sleep(float(rng.uniform(0.0, whole[door])))
        assert process.pid is not None  # a process that has started has a pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        returned = len(log.read_bytes()) if log.exists() else 0
        kept = CASES[door].steps(CASES[door].function, resume=path).n_evaluations if path.exists() else 0
        lost[returned - kept] += 1
        if path.exists():
            again = CASES[door].run(CASES[door].function, resume=path)
            assert again.n_evaluations == CASES[door].budget
        print(f"{door}: killed after {returned} evaluations returned, {kept} kept", flush=True)
    print(f"lost evaluations -> how often: {dict(sorted(lost.items()))}")
    return max(lost) <= 1


def _run(door: str, path: Path, log: Path) -> None:
    """A run with a checkpoint; each evaluation that returns is a byte in ``log``."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def function(x: Any) -> Any:
        time.sleep(_SECONDS)
        value = CASES[door].function(x)
        os.write(file, b".")
        return value

    CASES[door].run(function, run=Run(checkpoint=path))


if __name__ == "__main__":
    sys.exit(main())
