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


@dataclass(frozen=True)
class GradientScalingSettings:
    """Scales that depend on a coordinate, from gradients at evaluated points (`gradient_scaling`)."""

    leading: int = 2
    """The number of leading coordinates, those of the largest gains, with which maps are fitted; with further
    ones than the first only maps of nearly all coordinates are used."""
    refined: int = 6
    """The number of refinements of the best rate, each with ``narrower`` times the step before."""
    least_rate: float = 0.2
    """The least change of the logarithm of a scale over a standard deviation of the points: at tiny rates the
    difference of the regression's two terms is bilinear in x_j and x_k, as on curved ridges."""
    steepest: float = 8.0
    """The largest such change."""
    rounds: int = 4
    """The number of rounds of reweighted least squares."""
    spare: int = 2
    """The least number of points beyond 2 D."""
    range: float = 2.0
    """The least change of the logarithm of each coordinate's scale over the points."""
    floor: float = 1e-3
    """The floor of the mean squared residual."""
    beside: float = 0.25
    """The least gain of a coordinate to be scaled at first, as a share of the largest gain with the same
    leading coordinate."""
    each: float = 2.5
    """The least gain of misfit by the map, in nats for each coordinate that is scaled."""
    most: float = 0.85
    """The least share of the D - 1 coordinates that counts as nearly all."""
    fewest: int = 4
    each_of_most: float = 1.25
    """The least gain for each coordinate of a map of nearly all of them."""
    range_of_most: float = 0.5
    """The least change of the logarithm of a scale by such a map: .6 to 3.0 and .3 at most, on the same."""
    at_first: float = 0.3
    """This gain of the first set of coordinates, for others to be tried."""
    better: float = 0.1
    """The least gain of misfit, in nats, of another map, or of one with a coordinate more or less."""
    affine: float = 0.2
    """The mean squared residual below which the gradient of a coordinate counts as affine in it."""
    deepest: float = 1000.0
    """The largest depth of points that are used, in nats below the top for each dimension."""
    beyond: int = 30
    """The largest number of points beyond 2 D."""

    @property
    def least_gain(self) -> float:
        """A gain of misfit, nats, that is too small for any map."""
        return min(self.each, self.each_of_most * self.fewest)

    def least_gain_of(self, dimension: int, count: int) -> float:
        """A gain of misfit, nats, that is too small for a map of ``count`` of D coordinates."""
        return (self.each_of_most if self.of_most(dimension, count) else self.each) * count

    def accepts(self, dimension: int, count: int, gain: float, change: float) -> bool:
        """Whether a map is used.

        Parameters
        ----------
        dimension : the number D of coordinates. count : the number of those that the map scales.
        gain : the gain of misfit, nats. change : the least change of the logarithm of a scale.
        """
        enough = self.range_of_most if self.of_most(dimension, count) else self.range
        return gain > self.least_gain_of(dimension, count) and change > enough

    def of_most(self, dimension: int, count: int) -> bool:
        """Whether a map of ``count`` of D coordinates is one of nearly all of them."""
        return count >= max(self.fewest, self.most * (dimension - 1))


FRAMES = FrameSettings()
SCALINGS = ScalingSettings()
GRADIENT_SCALINGS = GradientScalingSettings()
