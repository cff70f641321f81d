"""Mini-batches: the error of one gradient by choice of data, a small form of `thesis-comparison`."""

from __future__ import annotations

from experiments.harness.experiment import Case, Experiment, Resources
from experiments.thesis import comparison

__all__ = ["experiment"]


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the choices of data, for exact expectations over theta."""
    return comparison.error_cases(quick, ("exact",))


experiment = Experiment(
    name="short-minibatches",
    title="In short: which mini-batch",
    summary="""Which fifty of N data estimate the natural gradient of a logistic regression best, and is the
    estimate biased? `bqvi run thesis-comparison` is the whole study.""",
    cases=_cases,
    run=comparison.run,
    draw=comparison.draw_errors,
    tables=comparison.tables,
    claims=comparison.claims,
)
