"""Quadrature: evidence of three reference posteriors, from a folder given by `--posteriors DIR`.

gp_regr (three hyperparameters of a Gaussian process), garch11 (four parameters of a time series, flat
priors) and kidscore_interaction (five parameters of a regression, strongly correlated), in the
unconstrained coordinates of `experiments.problems.reference`, whose module
`experiments.problems.reference.folder` describes the layout of the folder. Each is integrated against the two
proposals of `evidence` around the mode; there is no proper prior where priors are flat. The search for
the mode starts at the reference's mean, as this search is not part of the comparison.
"""

from __future__ import annotations

import pandas as pd

from experiments.harness.experiment import Case, Resources
from experiments.problems.reference import load_reference
from experiments.quadrature.evidence import (
    GAUSSIAN,
    HEAVY,
    evidence_cases,
    evidence_experiment,
    log_evidences,
    proposals,
)

__all__ = ["experiment"]

_NAMES = ("gp_regr", "garch11", "kidscore_interaction")
_METHODS = ("monte-carlo", "sobol", "qmc", "bq", "wsabi-l")
_BUDGETS = (20, 40, 80, 160)


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each method with each proposal on the three posteriors."""
    made = (
        evidence_cases(_NAMES, (GAUSSIAN,), ("sobol", "bq"), _BUDGETS[:2])
        if quick
        else evidence_cases(_NAMES, (GAUSSIAN, HEAVY), _METHODS, _BUDGETS)
    )
    return [Case(case.name, case.settings, resources.posteriors) for case in made]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return ln Z at each n with its error from the reference."""
    assert case.folder is not None  # `needs` requires the folder
    reference = load_reference(case.folder, case.settings["problem"])
    density = reference.target.log_density
    around_mode, log_evidence = proposals(density, reference.mean)
    measure = around_mode[case.settings["proposal"]]
    rows = log_evidences(density, measure, case, seed, reference.log_evidence)
    return rows.assign(laplace=log_evidence, reference_se=reference.log_evidence_se)


def _errors_of_references(results: pd.DataFrame) -> str:
    errors = results.groupby("problem", sort=False)["reference_se"].first()
    known = ", ".join(f"{name} {error:.1g}" for name, error in errors.items())
    return f"Standard errors of the references: {known}."


experiment = evidence_experiment(
    "quadrature-posteriors",
    "Quadrature: evidence of reference posteriors",
    """How accurate is the evidence of three reference posteriors from 20 to 160 evaluations of
        their log joint density? Quadrature is compared with importance sampling from Laplace's
        approximation.""",
    _cases,
    _run,
    "Error of the log evidence against the reference; columns: the proposal. Dotted: Laplace's "
    "approximation by itself.",
    _errors_of_references,
    needs=("posteriors",),
)
