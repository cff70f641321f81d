"""Constants of `gp.fit` that decide results, with the study on which they were chosen.

The studies behind them are rows of `experiments/studies/gp.regression.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitSettings:
    """The search of hyperparameters (`screening`, `hyperparameters`, `marginal`)."""

    grid_lengthscales: tuple[float, ...] = (-0.7, 0.5, 1.7)
    """Log lengthscales of starting points on a grid, in units of the data times the root of D. With the
    middle one alone: 3 of 35."""
    random_lengthscales: tuple[float, float] = (-2.0, 1.0)
    """The range of random starting points, in logarithms of units of the data; other parameters are N(0,
    1)."""
    few_starts: int = 3
    """The default number of starting points for up to ``many`` observations; three more for each dimension
    above 5."""
    most_starts: int = 12
    """The largest default number of starting points."""
    first_noise: float = 0.01
    """Noise variance at which its search starts, over the kernel's largest variance."""
    undetermined: float = 0.7
    """Posterior over prior standard deviation above which a parameter is reported as undetermined."""
    open_ended: float = 2.0
    """Nats below the mode within which an end of a prior is reported as equally likely."""
    few_equal: int = 20
    """The most targets that may all be equal although the function varies."""
    degrees: int = 6
    """Degrees of freedom of the Student t from which hyperparameters are proposed (`marginal`)."""


FIT = FitSettings()
