"""A slow toy, to be interrupted."""

import contextlib
import os
import time

import toy_experiment


def run(case, seed):
    if seed >= 2:
        # A method that returns what it has when interrupted must not pass for one that finished.
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
    return toy_experiment.run(case, seed)


experiment = toy_experiment.make(name="slow", run=run, seeds=4)
