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
    counts: float = 1.0
    """Nats from which a difference of log densities or of bounds, or a divergence, counts: a dip between two
    modes, a posterior that has not been found, a mode that is no Gaussian, a rise of the ELBO by a search,
    the sd of a log estimate that few particles dominate."""
    sds: float = 3.0
    """Standard deviations beyond which an error is not expected."""
    groups: int = 16
    """Groups of draws, whose spread gives a standard deviation due to the draws."""
    wider: float = 1.5
    """The scale of candidates for an evaluation, in units of that of the answer or of the measure."""
    gain: float = 0.3
    """The least gain of a climb or of a step of a fit, in nats, after which there is another."""
    draws: int = 512
    """Draws of a posterior by which hyperparameters and maps of scales are compared, and of a measure."""
    further: int = 256
    """Draws of each further proposal of a posterior, and candidates among them."""
    iterations: int = 10
    """The most rounds of a population of draws, and steps of the search for the rate of a map of scales."""
    grown: float = 1.5
    """The growth of an answer's standard deviation by its test with which the answer does not stand."""


ENGINES = EngineSettings()
