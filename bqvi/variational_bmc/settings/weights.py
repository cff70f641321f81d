"""Importance weights, and the proposals of the draws that are weighted.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.weights.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightSettings:
    """Importance weights, and the estimates from them (`correction`)."""

    covered: float = 0.9
    """The effective share of draws above which no shape of their weights' tail prevents convergence."""
    corrected: float = 100.0
    """The number of effective draws from which the posterior is corrected by its weights."""
    blended: float = 200.0
    """The number of effective draws below which the posterior's moments are blended with those of q."""


@dataclass(frozen=True)
class PooledSettings:
    """Draws beyond those of q (`pooled_draws`)."""

    wider: float = 4.0
    """The factor of q's scales."""
    draws: int = 256
    """The number of draws of each of the two proposals."""
    places: int = 64
    """The number of points at each of which the second proposal has a Gaussian."""
    temper: float = 0.75
    """The power of the density by which these points are chosen."""
    known: float = 10.0
    """The largest standard deviation of f, in nats, at a draw that is kept."""


WEIGHTS = WeightSettings()
POOLED = PooledSettings()
