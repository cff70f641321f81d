"""The data of a surrogate, its hyperparameters, and a cheap model as its prior mean.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.surrogate.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShapingSettings:
    """The data of a surrogate (`surrogate`, `frame_selection`)."""

    least_noise: float = 1e-6
    """The noise variance that an exact value is given, nats squared."""
    rounding: float = 1e-9
    """The fraction of the largest prior variance that is added as noise."""
    rounding_with_gradients: float = 1e-11
    """This fraction where there are gradients, to which the noise is added, too."""
    deep: float = 10.0
    """The first threshold, in nats below the best value for each dimension."""
    deepest: float = 1000.0
    """The largest threshold in nats, for any dimension."""
    most_rows: int = 1200
    """The number of observations beyond which only the gradients at the points of highest density stay."""


@dataclass(frozen=True)
class FittingSettings:
    """Hyperparameters (`surrogate`, `frame_selection`, `hyperuncertainty`)."""

    enough: int = 200
    """The number of observations to which hyperparameters are fitted where there are gradients."""
    top_variance: float = 100.0
    """The prior variance of f at the origin of the frame."""
    first_iterations: int = 6
    """The number of iterations after which a candidate that is ``behind`` the best is not fitted any
    further."""
    behind: float = 10.0
    """The deficit of evidence of such a candidate against the best, in nats."""
    many: int = 100
    """The number of observations from which hyperparameters are fitted only when evaluations have grown by
    ``often``."""
    often: float = 1.08
    """The factor by which the evaluations have to grow for such a fit."""
    turn: tuple[int, int] = (2, 4)
    """Another frame and threshold are fitted, too, in one step of two of up to 80 evaluations, later in
    one of four, as then are new fits of an unknown noise."""
    sets: int = 8
    """The number of draws of the hyperparameters, for the standard deviation of the evidence due to them."""
    set_draws: int = 512
    """The number of draws of the posterior on which they are compared."""
    furthest: float = 2.0
    """The largest distance of drawn hyperparameters from their mean, in standard deviations."""
    lengthscale: tuple[float, float] = (2.0, 1.0)
    """The median of the prior of a lengthscale, and the sd of its logarithm."""
    shorter: float = 1.0 / 3.0
    """The lengthscales of the kernel's second term, in units of those of the first."""
    share: tuple[float, float] = (1e-6, 3.0)
    """Median and sd of the prior of the share that this term has in the variance, in the same way."""
    noise: tuple[float, float] = (0.3, 2.0)
    """Median and sd of the prior of the noise, where it is fitted."""


@dataclass(frozen=True)
class CheapSettings:
    """A cheap approximate model (`surrogate`, `cheap_first`)."""

    scale_sd: float = 0.5
    """The prior standard deviation of its scale, whose prior mean is 1."""
    seconds: float = 0.5
    """The largest share of ``max_seconds`` for the run on the cheap model."""


SHAPING = ShapingSettings()
FITTING = FittingSettings()
CHEAP = CheapSettings()
