"""Conditions on the result, and warnings about it.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.result.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultSettings:
    """Conditions on the final result (`thorough`, `vbmc_run`)."""

    needed: int = 2
    """The least number of good evaluations at the beginning."""
    tolerance: float = 0.05
    """The sd of the log evidence, in nats, by which convergence is judged where the user gives none."""
    corrected: float = 100.0
    """The number of effective draws from which the posterior is corrected by its weights."""
    located: float = 1.0
    """The sd of the log evidence, in nats, below which the posterior may suggest plausible intervals."""


@dataclass(frozen=True)
class DiagnosticSettings:
    """Agreement of runs, and warnings (`diagnostics`)."""

    unbounded: float = 100.0
    """The standard deviation of q, in half widths of the plausible interval, from which the posterior counts
    as unbounded: along the flat direction of -x_0^2 in D = 2 it was 1e8 after 60 evaluations."""
    near_mmtv: float = 0.2
    """The mean marginal total variation below which posteriors agree (Acerbi 2018)."""
    near_gskl: float = 0.125
    """The Gaussianised symmetric KL below which posteriors agree, in nats."""
    beside: float = 0.01
    """The share of a bounded interval that counts as beside a bound."""


RESULT = ResultSettings()
DIAGNOSTICS = DiagnosticSettings()
