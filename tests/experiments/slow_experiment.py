"""A slow toy, to be interrupted."""

import contextlib
import os
import time
from pathlib import Path

import toy_experiment


def run(case, seed):
    if seed >= 2:
        # A method that returns what it has when interrupted must not pass for one that finished.
        with contextlib.suppress(KeyboardInterrupt):
            if marks := os.environ.get("SLOW_MARKS"):
                (Path(marks) / f"{case.name}-{seed}").touch()
            time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
    return toy_experiment.run(case, seed)


experiment = toy_experiment.make(name="slow", run=run, seeds=4)
