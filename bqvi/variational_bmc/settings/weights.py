"""Importance weights, and the proposals of the draws that are weighted.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.weights.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightSettings:
    """Importance weights, and the estimates from them (`correction`)."""

    resampled: int = 256
    """The number of draws at which the covariance of f is computed."""
    rounds: int = 4
    """The number of rounds of population Monte Carlo."""
    tail: float = 10.0
    """The largest depth of evaluated points that count as a tail, in nats below the top beyond D / 2."""
    lacking: float = 2.0
    """The least deficit of q's density there, in nats, for an additional component of the proposal."""
    beside: int = 8
    """The largest number of such components."""
    longer: float = 3.0
    """The scales of their second copies over those of q's component."""
    covered: float = 0.9
    """The effective share of the draws above which the proposal is not adapted any further."""
    best_known: float = 0.05
    """The share of the draws of least variance, from which the reference level of the variance is taken."""
    whole: float = 2.0
    """The scale of the Gaussian with the moments of all of q: thin curved tails lie along this Gaussian, not
    along any component."""
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
