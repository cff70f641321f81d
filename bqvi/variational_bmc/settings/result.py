"""Conditions on the result, and warnings about it.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.result.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultSettings:
    """Conditions on the final result (`thorough`, `vbmc_run`)."""

    tolerance: float = 0.05
    """The sd of the log evidence, in nats, by which convergence is judged where the user gives none."""
    corrected: float = 100.0
    """The number of effective draws from which the posterior is corrected by its weights."""


RESULT = ResultSettings()
