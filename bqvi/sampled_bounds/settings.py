"""Constants that affect results, with the problems that they were chosen on.

The studies behind them are rows of `experiments/studies/bqvi.sampled_bounds.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BoundsSettings:
    """Constants of the pilot run, of resampling and of credibility."""

    pilot_share: float = 0.2
    """The largest share of the budget that the pilot run uses."""
    pilot_particles: int = 128
    """The largest number of particles of the pilot run, for each problem."""
    pilot_moves: int = 5
    """The number of moves at each temperature of the pilot run; step sizes are adapted after each."""
    near_best: float = 1.1
    """The factor of the least predicted variance at equal cost up to which fewer temperatures are chosen."""
    effective: float = 0.5
    """The effective sample size, over L, from one temperature of the pilot run to the next, and below which
    particles are resampled."""
    leapfrog: int = 2
    """The number of leapfrog steps of a move; the more, the fewer temperatures are affordable."""
    hamiltonian_acceptance: float = 0.8
    """The rate of acceptance to which step sizes are adapted."""


SETTINGS = BoundsSettings()
