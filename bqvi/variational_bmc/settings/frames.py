"""Units and axes in which the log joint is modelled, and scales that depend on a coordinate.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.frames.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrameSettings:
    """Units and axes (`frame`)."""

    correlated: float = 6.0
    """The condition number of the correlations below which axes are not rotated."""
    divergence: float = 2.0
    """The divergence of a Gaussian without the correlations, in nats, beyond which a run with gradients
    begins in rotated axes."""


@dataclass(frozen=True)
class ScalingSettings:
    """Scales that depend on a coordinate (`scaling`, `rescaling`, `learning`)."""

    change: float = 0.35
    """The change of the logarithms of the scales over a standard deviation of the leading coordinate, at
    which leading coordinates are compared."""
    steepest: float = 3.0
    """The largest change of these logarithms."""
    search: int = 10
    """The number of steps of the search for the rate."""
    draws: int = 512
    """The number of draws of the posterior of which the moments and centres of maps are computed."""
    gain: float = 2.0
    """The gain of evidence, in nats for each dimension, from which another map is used."""
    often: float = 1.4
    """The growth of the evaluations after which another map is tried."""
    before_convergence: float = 1.1
    """This growth in a run that may soon converge: without it two funnels in five dimensions, boxes 2000 and
    3000, converged with the log evidence .18 and .11 too low."""
    unlike: float = 0.1
    """The change of the logarithm of a scale, as sd over draws, from which a further map is tried at once."""


FRAMES = FrameSettings()
SCALINGS = ScalingSettings()
