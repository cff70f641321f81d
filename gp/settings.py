"""Constants of `gp.fit` that decide results, with the study on which they were chosen.

The studies behind them are rows of `experiments/studies/gp.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

__all__ = ["FIT", "FitSettings"]


@dataclass(frozen=True)
class FitSettings:
    """The search of hyperparameters (`gp.screening`, `gp.hyperparameters`, `gp.marginal`)."""

    screening_rows: int = 300
    """Observations in the subset on which starting points are compared."""
    tempered: float = 100.0
    """Nats below the first value from which on an objective is tempered."""
    period_scale: float = 0.01
    """The scale of a period in a search, relative to other parameters."""
    grid_lengthscales: tuple[float, ...] = (-0.7, 0.5, 1.7)
    """Log lengthscales of starting points on a grid, in units of the data times the root of D. With the
    middle one alone: 3 of 35."""
    grid_noises: tuple[float, ...] = (log(1e-4), log(0.1))
    """Log noise variances of starting points on a grid, over the variance of the targets."""
    smaller_noises: tuple[float, ...] = (log(1e-2), log(1e-4))
    """Logarithms of factors by which the present noise variance is multiplied in further starting points."""
    random_lengthscales: tuple[float, float] = (-2.0, 1.0)
    """The range of random starting points, in logarithms of units of the data; other parameters are N(0,
    1)."""
    random_noises: tuple[float, float] = (log(1e-4), log(0.3))
    """The range of random starting points for noise variances, in logarithms."""
    few_starts: int = 3
    """The default number of starting points for up to ``many`` observations; three more for each dimension
    above 5."""
    many_starts: int = 6
    """The default number of starting points for more than ``many`` observations."""
    many: int = 200
    """The number of observations above which ``many_starts`` applies."""
    most_starts: int = 12
    """The largest default number of starting points."""
    cycles: int = 150
    """The most cycles in the range of the points for which periods are scanned."""
    peaks: int = 3
    """The number of peaks of a scan of periods from which climbs start."""
    value_tolerance: float = 1e-10
    """The relative change of the log posterior at which the last climb ends."""
    first_noise: float = 0.01
    """Noise variance at which its search starts, over the kernel's largest variance."""
    steps: tuple[float, ...] = (1e-3, 1e-2, 3e-2, 0.1)
    """Steps of the differences that give curvatures, tried in this order."""
    smooth: float = 0.01
    """Differences of gradients are used whose error is below this fraction of the curvature."""
    rough: float = 0.05
    """An error above this fraction of the curvature is not due to rounding alone."""
    undetermined: float = 0.7
    """Posterior over prior standard deviation above which a parameter is reported as undetermined."""
    open_ended: float = 2.0
    """Nats below the mode within which an end of a prior is reported as equally likely."""
    few_equal: int = 20
    """The most targets that may all be equal although the function varies."""
    same: float = 1e-6
    """The largest difference of values that is rounding, in standard deviations of the targets."""
    small: int = 500
    """The most rows of matrices that are factorised by one thread."""
    degrees: int = 6
    """Degrees of freedom of the Student t from which hyperparameters are proposed (`gp.marginal`)."""
    least_effective: float = 8.0
    """The fewest effective sets of hyperparameters in a weighted set, as one in so many of its points."""
    negligible: float = 1e-6
    """Weight times number of sets below which a set of hyperparameters is left out."""


FIT = FitSettings()
