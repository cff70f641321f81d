"""Units and axes in which the log joint is modelled, and scales that depend on a coordinate."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FRAMES",
    "GRADIENT_SCALINGS",
    "SCALINGS",
    "FrameSettings",
    "GradientScalingSettings",
    "ScalingSettings",
]


@dataclass(frozen=True)
class FrameSettings:
    """Units and axes (`frame`).

    ``divergence`` was chosen on correlated Gaussians of 20 dimensions, layouts 3000, 6000 and 6001, whose
    condition numbers are 14 to 15, and from which a Gaussian without correlations differs by 2.4 nats.
    """

    correlated: float = 6.0
    """The condition number of the correlations below which axes are not rotated."""
    divergence: float = 2.0
    """The divergence of a Gaussian without the correlations, in nats, beyond which a run with gradients
    begins in rotated axes."""
    thin: float = 50.0
    """The condition number of the correlations beyond which axes are rotated."""
    plausible: float = 0.25
    """The variance of a coordinate in the plausible box, which is two standard deviations to either side."""
    least_correlation: float = 1e-12
    """The least eigenvalue of the correlations. In the same runs the least of 111 matrices was 7e-4."""
    elite: tuple[int, int] = (2, 2)
    """The number of evaluated points, 2 D + 2, that locate the posterior without better information. The
    factor of one step, at seven states of clusters, cigar 4, three Gaussians 4 and funnel 5 where these
    points are used, is .93 +- .04 with D + 2 and 1.13 +- .13 with 4 D + 2."""
    elite_effective: float = 0.5
    """The effective share of these points under their weights. At the same states .93 +- .04 with half and
    1.18 +- .13 with .8."""
    elite_temperatures: tuple[float, float] = (-20.0, 60.0)
    """The range of binary logarithms of the temperatures that are tried, in nats: it contains every scale of
    a log joint."""
    elite_rounder: float = 0.05
    """The share of their mean variance that is added in every direction. At the same states .98 +- .02 with
    half and 1.02 +- .03 with twice."""
    elite_least: float = 1e-10
    """The variance that is added in every direction besides. At the same states 1.00 with half and twice; it
    is for points that coincide."""
    elite_shallow: float = 1e-6
    """The least mean depth of these points, in nats. It prevents a division by zero where all values are
    equal."""


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
    effective: float = 0.05
    """The least effective share of these draws."""
    gain: float = 2.0
    """The gain of evidence, in nats for each dimension, from which another map is used."""
    often: float = 1.4
    """The growth of the evaluations after which another map is tried."""
    before_convergence: float = 1.1
    """This growth in a run that may soon converge: without it two funnels in five dimensions, boxes 2000 and
    3000, converged with the log evidence .18 and .11 too low."""
    least_spread: float = 1e-9
    """The share of the variances of the draws that is added to them."""
    unlike: float = 0.1
    """The change of the logarithm of a scale, as sd over draws, from which a further map is tried at once."""
    cut: float = 30.0
    """The largest logarithm of a scale."""
    parts: int = 31
    """The number of parts of a component along the leading coordinate, in which the map is linearised."""


@dataclass(frozen=True)
class GradientScalingSettings:
    """Scales that depend on a coordinate, from gradients at evaluated points (`gradient_scaling`).

    They were chosen on the points of the first climb on funnels (D = 5 and 8) and the centred eight schools,
    in three boxes each, and on runs on 17 posteriors with other shapes, in two boxes each, of 5 to 61
    evaluations.
    """

    leading: int = 2
    """The number of leading coordinates, those of the largest gains, with which maps are fitted; with further
    ones than the first only maps of nearly all coordinates are used. On the centred schools, box 11, the
    standard deviation of the effects has the second largest gain at 22 points. Of the 131 steps named at
    ``rates`` one, on three Gaussians in D = 4, has a map of two coordinates with the second."""
    rates: int = 12
    """The number of rates of each sign that are compared at first. From the points of 131 steps on 17
    posteriors (seeds 1500 and 1501), with eight maps, 8, 12, 16 and 24 find the same maps, or none, with
    rates that differ by 3e-5; 12 take .65 of the time of 24."""
    refined: int = 6
    """The number of refinements of the best rate, each with ``narrower`` times the step before."""
    finer: int = 11
    """The number of rates that a refinement compares, from one step below the best to one above; not
    compared."""
    narrower: float = 0.2
    """The step of a refinement over that of the one before: the distance of the rates compared there."""
    furthest: float = 30.0
    """The largest logarithm of a scale at a point, so that squares of its exponential do not overflow."""
    compared: int = 3
    """The number of refinements where sets of coordinates are compared: rates are then known to .003. With 3
    and with 6 the same maps, or none, were found from the points of 27 steps on six posteriors (a funnel, the
    centred schools, three Gaussians in D = 4, Rosenbrock 4, cigar 4, logistic 5)."""
    least_rate: float = 0.2
    """The least change of the logarithm of a scale over a standard deviation of the points: at tiny rates the
    difference of the regression's two terms is bilinear in x_j and x_k, like the gradient of Rosenbrock 4."""
    steepest: float = 8.0
    """The largest such change."""
    rounds: int = 4
    """The number of rounds of reweighted least squares."""
    rounds_compared: int = 2
    """This number where sets of coordinates are compared. The steps named at ``rates`` have the same maps
    with 2, 3 and 4, and 2 take .55 of the time of 4."""
    ridge: float = 1e-20
    """The ridge of least squares: with 1e-8 and 24 rates the errors of slopes of the schools were 3e-4, with
    this 6e-6."""
    spare: int = 2
    """The least number of points beyond 2 D."""
    range: float = 2.0
    """The least change of the logarithm of each coordinate's scale over the points. It was 4.7 to 12 on the
    first climbs on funnels and schools (boxes 23000 to 23005 of `experiments.vbmc.hard`)."""
    floor: float = 1e-3
    """The floor of the mean squared residual."""
    beside: float = 0.25
    """The least gain of a coordinate to be scaled at first, as a share of the largest gain with the same
    leading coordinate."""
    each: float = 2.5
    """The least gain of misfit by the map, in nats for each coordinate that is scaled. It was 3.0 to 3.8 on
    the first climbs on funnels and schools in boxes 23000 to 23005 (2.5 in one case). Where several modes
    have points, a map with a step between them makes gradients affine: the gain was 1.6 to 2.5 on three
    Gaussians in D = 4 and 6, layouts 0 to 19 and 23000 to 23005; on other posteriors .84 at most."""
    most: float = 0.85
    """The least share of the D - 1 coordinates that counts as nearly all. A map that scales these, and
    at least ``fewest``, may be gentler. On three Gaussians in D = 6, layout 23004, one of 4 of 5 would be."""
    fewest: int = 4
    each_of_most: float = 1.25
    """The least gain for each coordinate of a map of nearly all of them. It was 1.2 to 2.1 on the non-centred
    schools (three boxes, 22 to 50 points), 1.7 at most on three Gaussians in D = 6."""
    range_of_most: float = 0.5
    """The least change of the logarithm of a scale by such a map: .6 to 3.0 and .3 at most, on the same."""
    at_first: float = 0.3
    """This gain of the first set of coordinates, for others to be tried: .6 to 3 on funnels and schools."""
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
