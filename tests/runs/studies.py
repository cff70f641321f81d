"""Two studies that are too long for the suite.

    python -m tests.runs.studies kills --times 50      kill -9 at random moments of runs with ``checkpoint``
    python -m tests.runs.studies files --times 1000    saved runs and results, cut off or with a bit flipped

The first says how many evaluations that had returned are not in the checkpoint; at most one may be missing,
the one whose entry was being written. The second opens each damaged file: a clear error, or the same run.
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
    """Run one of the studies; 1 if a condition was violated."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("kills", "files"))
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--doors", nargs="+", choices=CASES, default=tuple(CASES))
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        study = kills if chosen.study == "kills" else files
        return 0 if study(chosen.doors, chosen.times, rng, Path(folder)) else 1


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


def files(doors: Sequence[str], times: int, rng: np.random.Generator, folder: Path) -> bool:
    """``times`` damaged files of each door."""
    fine = True
    for door in doors:
        path = folder / "run.npz"
        found = CASES[door].run(CASES[door].function)
        found.save(path)
        content, right = path.read_bytes(), CASES[door].numbers(found)
        outcomes: Counter[str] = Counter()
        for i in range(times):
            path.write_bytes(_damaged(content, rng, i % 2 == 0))
            try:
                run = CASES[door].steps(CASES[door].function, resume=path)
                outcomes["read, the same" if CASES[door].numbers(run.result()) == right else "ANOTHER"] += 1
            except ValueError as error:
                outcomes["refused" if str(path) in str(error) else f"UNCLEAR {error}"] += 1
            except Exception as error:
                outcomes[f"FOREIGN {type(error).__name__}: {error}"] += 1
        print(f"{door}: {dict(outcomes)}", flush=True)
        fine &= not any(name[:3].isupper() for name in outcomes)
    return fine


def _damaged(content: bytes, rng: np.random.Generator, flipped: bool) -> bytes:
    at = int(rng.integers(len(content)))
    if not flipped:
        return content[:at]
    changed = bytearray(content)
    changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


if __name__ == "__main__":
    sys.exit(main())
