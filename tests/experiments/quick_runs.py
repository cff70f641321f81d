"""An experiment in its quick form, for the tests: run, drawn and tabulated."""

import pandas as pd

from experiments.harness import report, store
from experiments.harness.experiment import Resources
from experiments.harness.results import _labelled


def table(experiment, resources=Resources()):  # noqa: B008  # it is frozen
    frames = []
    for case in experiment.checked_cases(True, resources):
        planned = store.PlannedCase(case.name, case.settings, store.digest(experiment.name, case, "test"))
        frames.append(_labelled({seed: experiment.run(case, seed) for seed in range(2)}, planned))
    return pd.concat(frames, ignore_index=True)


def looked_at(experiment, found):
    """Draw it and return its tables."""
    with report.drawing.style():
        for drawn in experiment.draw(found):
            assert len(report.picture(drawn).data) > 1000
    made = {made.name: made.frame for made in experiment.tables(found)}
    assert all(len(frame) for frame in made.values())
    return made
