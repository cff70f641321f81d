"""Mini-batches: the error of the gradient on one mixture, a small form of `minibatch-gradients`."""

from __future__ import annotations

from experiments.harness.experiment import Case, Experiment, Resources
from experiments.minibatch import gradients

__all__ = ["experiment"]

_PLACES = {"start": 0, "late": 30}
_WINDOW = 12


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return the mixture with mini-batches of ten."""
    del quick, resources
    settings = {"problem": "mixture", "size": 10, "places": _PLACES, "window": _WINDOW}
    return [Case("mixture, S = 10", settings)]


experiment = Experiment(
    name="short-minibatches",
    title="In short: which mini-batch",
    summary="""Which ten of N data estimate the natural gradient of a mixture best, and is the estimate
    biased? `bqvi run minibatch-gradients` is the whole study.""",
    cases=_cases,
    run=gradients.run,
    draw=gradients.draw,
    tables=gradients.tables,
    claims=gradients.claims,
)
