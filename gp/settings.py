"""Constants of `gp.fit` that decide results: what each is, and what is known of it.

Where it says so, a constant was studied on 35 fits: seven simulated data sets of 1 to 8 columns and 25 to 250
rows (a wave, a product, Friedman's function, a period with a trend, two waves, one active column of eight,
two scales), seeds 0 to 4. What counts is in how many fits the log evidence ends more than .1 nats below the
highest that any setting of the study reached: 2 of 35 as it is, both of the period with a trend. Of the
others no figures were kept. The limits of searches stand in `gp.search.Search`, the widths of priors in
`gp.priors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

__all__ = ["FIT", "FitSettings"]


@dataclass(frozen=True)
class FitSettings:
    """The search of hyperparameters (`gp.screening`, `gp.hyperparameters`, `gp.marginal`)."""

    screening_rows: int = 300
    """Observations in the subset on which starting points are compared. With 100: 2 of 35 in .6 of the
    time."""
    tempered: float = 100.0
    """Nats above the first value from which on an objective is tempered. With 20 and with 1000: 2 of 35."""
    period_scale: float = 0.01
    """The evidence is that much steeper in a period than in other parameters: ten periods in the data
    tell it to a hundredth of what a lengthscale is known to. With .1: 2 of 35; with 1: 1."""
    grid_lengthscales: tuple[float, ...] = (-0.7, 0.5, 1.7)
    """Of starting points on a grid: log lengthscales, in units of the data times the root of D. With the
    middle one alone: 3 of 35."""
    grid_noises: tuple[float, ...] = (log(1e-4), log(0.1))
    """Of starting points on a grid: log noise variances, over the variance of the targets. With ln .01
    alone: 2 of 35."""
    smaller_noises: tuple[float, ...] = (log(1e-2), log(1e-4))
    """Logarithms of the factors of the present noise variance, of further starting points. Without them: 2
    of 35."""
    random_lengthscales: tuple[float, float] = (-2.0, 1.0)
    """Where random starting points lie, in logarithms of units of the data; others are N(0, 1). From -1 to 0:
    3 of 35."""
    random_noises: tuple[float, float] = (log(1e-4), log(0.3))
    """The same of noise variances."""
    few_starts: int = 3
    """Starting points by default, up to ``many`` observations; and three more for each dimension above 5. One
    here and beyond: 7 of 35 in .5 of the time; 2 and 3: 3 in .6; twice as many: 2 in 1.8."""
    many_starts: int = 6
    """The same of more observations."""
    many: int = 200
    """Observations from which on these are the starting points."""
    first_noise: float = 0.01
    """Noise variance where a search of one starts, over the kernel's largest variance."""
    steps: tuple[float, ...] = (1e-3, 1e-2, 3e-2, 0.1)
    """Of the differences that give curvatures, tried in this order."""
    smooth: float = 0.01
    """Differences of gradients are used that are off by less than this fraction of the curvature."""
    rough: float = 0.05
    """More than this fraction is not rounding alone."""
    undetermined: float = 0.7
    """Posterior over prior standard deviation above which the data are said to leave a parameter open."""
    open_ended: float = 2.0
    """Nats that an end of a prior may lie below the mode to be said to do as well."""
    same: float = 1e-6
    """Values that are the same but for rounding, in standard deviations of the targets."""
    small: int = 500
    """Up to so many rows matrices are factored by one thread."""
    degrees: int = 6
    """Of freedom, of the Student t from which hyperparameters are proposed (`gp.marginal`)."""
    negligible: float = 1e-6
    """Weight of a set of hyperparameters that is left out, times their number."""


FIT = FitSettings()
