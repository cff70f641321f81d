"""VBMC in the plane: the evidence of two known posteriors, a small form of `vbmc-2d` and `vbmc-targets`."""

from __future__ import annotations

from experiments.harness import statements
from experiments.harness.experiment import Case, Experiment, Resources
from experiments.vbmc import two_dimensions

__all__ = ["experiment"]

_NAMES = ("Rosenbrock 2", "lumpy 2")
_BUDGETS = (15, 30, 45)


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the targets."""
    return [
        Case(name, {"problem": name, "budgets": list(_BUDGETS)}) for name in _NAMES[: 1 if quick else None]
    ]


experiment = Experiment(
    name="short-vbmc",
    title="In short: evidence of an expensive model",
    summary="""Where does VBMC evaluate, what are its surrogates, and is the evidence right after 45
    evaluations? `bqvi run vbmc-2d vbmc-targets` are the whole studies.""",
    cases=_cases,
    run=two_dimensions.run,
    draw=two_dimensions.draw,
    claims=statements.of(two_dimensions.CLAIMS),
    seeds=5,
    quick_seeds=1,
)
