"""Constants that engines have in common.

The studies behind them are rows of `experiments/studies/bqvi.runs.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineSettings:
    """What `vbmc`, `integrate` and `fit(method="bq")` have in common."""

    tolerance: float = 0.05
    """The standard deviation, in nats, with which a run ends where the user gives none."""
    behind: float = 10.0
    """The deficit of evidence against the best, in nats, of a candidate that is not fitted any further."""
    grown: float = 1.5
    """The growth of an answer's standard deviation by its test with which the answer does not stand."""


ENGINES = EngineSettings()
