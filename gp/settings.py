"""Constants of `gp.fit` that decide results: what each is.

None of them is studied: no figures were kept of what they were chosen on. The limits of searches stand in
`gp.search.Search`, the widths of priors in `gp.priors`.
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
    """Nats above the first value from which on an objective is tempered."""
    period_scale: float = 0.01
    """The evidence is that much steeper in a period than in other parameters: ten periods in the data
    tell it to a hundredth of what a lengthscale is known to."""
    grid_lengthscales: tuple[float, ...] = (-0.7, 0.5, 1.7)
    """Of starting points on a grid: log lengthscales, in units of the data times the root of D."""
    grid_noises: tuple[float, ...] = (log(1e-4), log(0.1))
    """Of starting points on a grid: log noise variances, over the variance of the targets."""
    smaller_noises: tuple[float, ...] = (log(1e-2), log(1e-4))
    """Logarithms of the factors of the present noise variance, of further starting points."""
    random_lengthscales: tuple[float, float] = (-2.0, 1.0)
    """Where random starting points lie, in logarithms of units of the data; others are N(0, 1)."""
    random_noises: tuple[float, float] = (log(1e-4), log(0.3))
    """The same of noise variances."""
    few_starts: int = 3
    """Starting points by default, up to ``many`` observations; and three more for each dimension above 5."""
    many_starts: int = 6
    """The same of more observations."""
    many: int = 200
    """Observations from which on these are the starting points."""
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
