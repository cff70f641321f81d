"""The importance-weighted bound with several samples (Figure 6.7): IWAE's gradient and DReG's."""

from __future__ import annotations

from experiments.harness import comparison
from experiments.harness.evidence import LEVEL
from experiments.harness.experiment import Case
from experiments.harness.statements import Statement, claims
from experiments.thesis import settings as thesis

__all__ = ["experiment"]

_SAMPLES = (1, 20)
_KINDS = {"IWAE": "iwae", "DReG": "dreg"}
_BETWEEN = 5
"""A further L, for IWAE."""
_EARLY = 1000.0
"""Log-likelihood error, nats, that marks initial convergence; runs start beyond 5000."""


def _cases(steps: int) -> list[Case]:
    """Return both estimators at each L, IWAE at one more."""
    chosen = [*((kind, n) for kind in _KINDS for n in _SAMPLES), ("IWAE", _BETWEEN)]
    return [thesis.case(_name(kind, n), _KINDS[kind], samples=n, steps=steps) for kind, n in chosen]


def _name(kind: str, samples: int) -> str:
    return f"{kind}, L = {samples}"


def _part(kind: str) -> thesis.Part:
    return lambda rows: rows["method"] == _KINDS[kind], f"{kind}, steps exp(-0.01 t)."


_LATE = Statement(
    "6.4", "With importance weighting, too, a single sample converges sooner in wall-clock time.",
    f"no other L stays within {LEVEL:g} nats sooner", "seconds_to",
    {_name(kind, 1): [_name(kind, n) for n in _SAMPLES[1:]] for kind in _KINDS}, shown="seconds",
)  # fmt: skip
_FIRST = Statement(
    "6.4", "With importance weighting, several samples converge slightly faster at first.",
    f"L = {_SAMPLES[-1]} stays below {_EARLY:g} nats after fewer iterations than L = 1", "iterations_to",
    {_name(kind, _SAMPLES[-1]): [_name(kind, 1)] for kind in _KINDS}, shown="iterations",
)  # fmt: skip

experiment = thesis.comparison_of(
    "iwae-samples",
    "Samples of the importance-weighted bound",
    "6.7",
    """How does the importance-weighted bound depend on the number L of samples? Compared
    are its gradient (IWAE) and the doubly reparameterised estimator of the same gradient (DReG). With L = 1
    the bound is the ELBO: IWAE is then the pathwise estimator, DReG sticking-the-landing.

    Both ascend a bound of their own, tighter than the ELBO; the figure shows the ELBO of q, which need not
    increase with L.""",
    cases=_cases,
    parts={method: _part(kind) for kind, method in _KINDS.items()},
    claims=lambda results: [
        *claims(comparison.ends(results), [_LATE]),
        *claims(comparison.ends(results, _EARLY), [_FIRST]),
    ],
    steps=thesis.SAMPLING_STEPS,
)
