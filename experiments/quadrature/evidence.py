"""Quadrature: two evidences, of a regression on diabetes data and of a Gaussian process on the Nile.

The targets and their truths, by brute force, are in `experiments.problems.evidence_targets`; the proposals
against which they are integrated are in `evidence_runs`. The standard deviation of the likelihood of 442
patients is a twentieth of the prior's in each of four dimensions, so that it is hard to integrate against the
prior, but easy against a Gaussian around the mode. For the other evidence this is not so: the length scale of
the Nile's trend is weakly determined, and its posterior has heavier tails than Laplace's approximation.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.harness.experiment import Case, Resources
from experiments.problems.evidence_targets import TARGETS
from experiments.quadrature.evidence_runs import (
    GAUSSIAN,
    HEAVY,
    PRIOR,
    evidence_cases,
    evidence_experiment,
    log_evidences,
    proposals,
)

__all__ = ["experiment"]

_METHODS = ("monte-carlo", "sobol", "bq", "wsabi-l")
_BUDGETS = (20, 40, 80)


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each method with each proposal on both targets."""
    if quick:
        return evidence_cases(tuple(TARGETS), (PRIOR, GAUSSIAN), ("sobol", "wsabi-l"), _BUDGETS[:2])
    return evidence_cases(tuple(TARGETS), (PRIOR, GAUSSIAN, HEAVY), _METHODS, _BUDGETS)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return ln Z at each n with its error."""
    target = TARGETS[case.settings["problem"]]()
    around_mode, log_evidence = proposals(target.log_joint, np.zeros(target.prior.dimension))
    measure = {PRIOR: target.prior, **around_mode}[case.settings["proposal"]]
    return log_evidences(target.log_joint, measure, case, seed, target.log_evidence).assign(
        laplace=log_evidence
    )


experiment = evidence_experiment(
    "quadrature-evidence",
    "Quadrature: evidence of a regression and of a Gaussian process",
    """How accurate is the evidence of a Bayesian linear regression (diabetes data, three
        coefficients and the noise) and of a Gaussian process (the Nile's flow, three hyperparameters)?
        The references are sums over fine grids.""",
    _cases,
    _run,
    "Error of the log evidence; columns: the proposal. Dotted: Laplace's approximation by itself.",
    lambda _: "Truth: brute force.",
)
