"""An experiment in its quick form, for the tests: run, drawn and tabulated.

Figures are made here and not rendered, which would cost as much again; `.ci/run` renders every one of them
in the report.
"""

import pandas as pd

from experiments.harness import drawing, store
from experiments.harness.experiment import Gif, Resources
from experiments.harness.results import _labelled


def table(experiment, resources=Resources(), seeds=1, cases=None):  # noqa: B008  # it is frozen
    """The results, as the report reads them."""
    frames = []
    for case in cases or experiment.checked_cases(True, resources):
        planned = store.PlannedCase(case.name, case.settings, store.digest(experiment.name, case, "test"))
        frames.append(_labelled({seed: experiment.run(case, seed) for seed in range(seeds)}, planned))
    return pd.concat(frames, ignore_index=True)


def has_content(figure):
    return bool(figure.data if isinstance(figure, Gif) else figure.axes)


def looked_at(experiment, found):
    """Draw the experiment and return its tables."""
    with drawing.style():
        drawings = experiment.draw(found)
    assert all(has_content(drawn.figure) for drawn in drawings)
    assert not any(set(shown.caption) & set("{}") for shown in (*drawings, *experiment.tables(found)))
    made = {made.name: made.frame for made in experiment.tables(found)}
    assert all(len(frame) for frame in made.values())
    return made
