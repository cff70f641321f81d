"""Constants of `gp.fit` that decide results, with the study on which they were chosen.

Figures such as "2 of 35" are from 35 fits: seven simulated data sets of 1 to 8 columns and 25 to 250 rows (a
wave, a product, Friedman's function, a period with a trend, two waves, one active column of eight, two
scales), seeds 0 to 4. They count the fits whose log evidence ends more than .1 nats below the highest that
any setting of the study reached. With the present settings it is 2 of 35, both of the period with a trend.

Figures such as "1 of 24" are from 24 later fits in the same way: data sets of these kinds and one of 25 rows,
seeds 1500 to 1502; with the present settings it is 0 of 24. Constants without figures, but for ``degrees``,
which was not compared, are tolerances and limits of what is reported, which change no fit. Limits of searches
are in `gp.search.Search`, the widths of priors in `gp.priors`.
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
    """Nats below the first value from which on an objective is tempered. With 20 and with 1000: 2 of 35."""
    period_scale: float = 0.01
    """The scale of a period in a search, relative to other parameters. With ten periods in the data its
    standard deviation is a hundredth of that of a lengthscale. With .1: 2 of 35; with 1: 1."""
    grid_lengthscales: tuple[float, ...] = (-0.7, 0.5, 1.7)
    """Log lengthscales of starting points on a grid, in units of the data times the root of D. With the
    middle one alone: 3 of 35."""
    grid_noises: tuple[float, ...] = (log(1e-4), log(0.1))
    """Log noise variances of starting points on a grid, over the variance of the targets. With ln .01
    alone: 2 of 35."""
    smaller_noises: tuple[float, ...] = (log(1e-2), log(1e-4))
    """Logarithms of factors by which the present noise variance is multiplied in further starting points.
    Without them: 2 of 35."""
    random_lengthscales: tuple[float, float] = (-2.0, 1.0)
    """The range of random starting points, in logarithms of units of the data; other parameters are N(0, 1).
    From -1 to 0: 3 of 35."""
    random_noises: tuple[float, float] = (log(1e-4), log(0.3))
    """The range of random starting points for noise variances, in logarithms. From ln .001 to ln .1: 0 of 24;
    from ln 1e-6 to 0: 2."""
    few_starts: int = 3
    """The default number of starting points for up to ``many`` observations; three more for each dimension
    above 5. With 1 here and 1 in ``many_starts``: 7 of 35 in .5 of the time; with 2 and 3: 3 in .6; with
    twice as many: 2 in 1.8."""
    many_starts: int = 6
    """The default number of starting points for more than ``many`` observations. With 3: 0 of 24 in .8 of the
    time; with 12: 0 in 1.4."""
    many: int = 200
    """The number of observations above which ``many_starts`` applies. With 100 and 400: 0 of 24 in 1.1 and .8
    of the time."""
    most_starts: int = 12
    """The largest default number of starting points."""
    cycles: int = 150
    """The most cycles in the range of the points for which periods are scanned."""
    peaks: int = 3
    """The number of peaks of a scan of periods from which climbs start."""
    value_tolerance: float = 1e-10
    """The relative change of the log posterior at which the last climb ends."""
    first_noise: float = 0.01
    """Noise variance at which its search starts, over the kernel's largest variance. With .001 and .1: 1 of
    24 each."""
    steps: tuple[float, ...] = (1e-3, 1e-2, 3e-2, 0.1)
    """Steps of the differences that give curvatures, tried in this order. With .001 alone, .01 alone, and .03
    and .1: 0 of 24."""
    smooth: float = 0.01
    """Differences of gradients are used whose error is below this fraction of the curvature. With .003 and
    .03: 0 of 24."""
    rough: float = 0.05
    """An error above this fraction of the curvature is not due to rounding alone. With .02 and .15: 0 of
    24."""
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
