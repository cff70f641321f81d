"""An experiment in its quick form, for the tests: run, drawn and tabulated; a folder of posteriors.

Figures are made here and not rendered, which would cost as much again; `.ci/run` renders every one of them
in the report.
"""

import json

import numpy as np
import pandas as pd
import torch

from experiments.harness import drawing, store
from experiments.harness.experiment import Gif, Resources
from experiments.harness.results import _labelled
from experiments.problems.laplace import laplace
from experiments.problems.reference import MODELS

POSTERIOR = "kidscore_interaction"


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


def folder_of_posteriors(folder):
    """The model of the children's scores with simulated data, in the layout of `problems.reference.folder`.

    Its evidence and moments are those of Laplace's approximation, whose error is O(1/n): a tenth of a nat at
    n = 60 and five parameters. Return that evidence.
    """
    rng, n = np.random.default_rng(0), 60
    school, iq = rng.integers(0, 2, n).astype(float), rng.normal(0, 1, n)
    scores = 1 + school + 0.5 * iq + rng.normal(0, 1, n)
    data = {"kid_score": scores.tolist(), "mom_hs": school.tolist(), "mom_iq": iq.tolist()}
    target = MODELS[POSTERIOR](data)
    found = laplace(target.log_density, np.zeros(5))
    free = {"mean": found.gaussian.mean.tolist(), "covariance": found.gaussian.covariance.tolist()}
    known = {
        "log_evidence": {"logz": found.log_evidence, "se": 0.1},
        "unconstrained": free | {"test_points": []},
    }
    place = folder / POSTERIOR
    place.mkdir()
    (place / "data.json").write_text(json.dumps(data))
    (place / "reference.json").write_text(json.dumps(known))
    draws = target.constrain(torch.as_tensor(found.gaussian.sample(1000, 0))).numpy()
    np.savez(place / "draws.npz", draws=draws)
    return found.log_evidence
