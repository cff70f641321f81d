"""Constants of VBMC that affect results: what each is, and what it was chosen on.

Unless it says otherwise, a constant was chosen when VBMC was built, on Rosenbrock, cigar and lumpy targets of
2 to 6 dimensions and the bounded banana (`experiments.problems.known_posteriors`) at 40 to 160 evaluations,
by the error of the log evidence, gsKL and time, with a few seeds each; no study of these choices was kept.
The settings that a caller may change are in `state.Settings`.

A factor of one step is the geometric mean, with its standard error, of errors of the log evidence (.001 nats
at least) after one step from the same state with another value, over those with the value here. Its 51 states
are of runs with seed 1101 on Rosenbrock 2, lumpy 2, Himmelblau, the half plane and cigar 4 from values, and
on Rosenbrock 2, cigar 4 and logistic 5 with gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gp.search import Search

__all__ = [
    "CHEAP", "CLIMBING", "CLOCK", "COMPARISON", "COMPONENTS", "CONVERGENCE", "DIAGNOSTICS", "EXPLORATION",
    "FEASIBILITY", "FITTING", "FRAMES", "FRESH_START", "GRADIENT_SCALINGS", "LOCAL", "MODES", "NODES",
    "NOISE", "POOLED", "PREDICTIONS", "RESTARTS", "RESULT", "SCALINGS", "SHAPING", "WEIGHTS", "CheapSettings",
    "ClockSettings", "ComparisonSettings", "ComponentSettings", "ConvergenceSettings", "DiagnosticSettings",
    "ExplorationSettings", "FeasibilitySettings", "FirstClimbSettings", "FittingSettings", "FrameSettings",
    "FreshStartSettings", "GradientScalingSettings", "LocalSettings", "ModeSettings", "NodeSettings",
    "PooledSettings", "PredictionSettings", "RestartSettings", "ResultSettings", "ScalingSettings",
    "ShapingSettings", "UndeclaredNoiseSettings", "WeightSettings",
]  # fmt: skip


@dataclass(frozen=True)
class ShapingSettings:
    """The data of a surrogate (`surrogate`, `frame_selection`)."""

    least_noise: float = 1e-6
    """The noise variance that an exact value is given, nats squared."""
    rounding: float = 1e-9
    """The fraction of the largest prior variance that is added as noise. With 1e-11 the errors of variances
    of f on a thin ring, where the prior variance is 1e6, were .004 to .6 nats squared, and the acquisition
    was determined by rounding; with 1e-9 they were 1e-7. 42 unimodal runs (seeds 60 to 62) did not change."""
    rounding_with_gradients: float = 1e-11
    """This fraction where there are gradients, to which the noise is added, too: on Rosenbrock 2 with 20
    gradients (12 seeds) the root mean square error of ln Z was .0048 with 1e-11 and .0105 with 1e-9."""
    steep: float = 0.1
    """The sd of a value deeper than the threshold r, over r log(depth / r) (Acerbi 2020)."""
    unknown: float = 1e12
    """The noise variance that a derivative is given where it could not be computed."""
    deep: float = 10.0
    """The first threshold, in nats below the best value for each dimension. Deeper values are not used to
    locate the posterior."""
    deepest: float = 1000.0
    """The largest threshold in nats, for any dimension."""
    shallowest: float = 15.0
    """The least threshold, in nats beyond D / 2, the mean depth of a Gaussian's draws."""
    slope_noise: float = 1e-8
    """The variance of an exact derivative, over its square. The factor of one step is 1.01 +- .01 with half
    and with twice (18 states with gradients)."""
    nothing: float = 0.1
    """The factor of ``least_noise`` below which a variance of f counts as zero. The factor of one step is
    1.00 with half and twice."""


@dataclass(frozen=True)
class FittingSettings:
    """Hyperparameters (`surrogate`, `frame_selection`, `hyperuncertainty`)."""

    enough: int = 200
    """The number of observations to which hyperparameters are fitted where there are gradients."""
    fewest: int = 10
    """The least number of points whose gradients are among these observations."""
    top_variance: float = 100.0
    """The prior variance of f at the origin of the frame."""
    gain: float = 1e-3
    """The gain of evidence, in nats, without which a fit ends after a step."""
    gain_with_gradients: float = 1e-2
    """This gain where a step takes long. On logistic 5, cigar 4 and Rosenbrock 4, two seeds each, 1e-3 and
    1e-2 ended at the same errors (.0002 to .026 and .0002 to .013), the second in .85 of the time."""
    first_iterations: int = 6
    """The number of iterations after which a candidate that is ``behind`` the best is not fitted any further.
    With ``gain_with_gradients`` this took .70 to .77 of the time on logistic 5 and cigar 4, with the same
    number of evaluations and errors within seed noise (seeds 2 and 3)."""
    behind: float = 10.0
    """The deficit of evidence of such a candidate against the best, in nats."""
    many: int = 100
    """The number of observations from which hyperparameters are fitted only when evaluations have grown by
    ``often``."""
    often: float = 1.08
    """The factor by which the evaluations have to grow for such a fit."""
    turn: tuple[int, int] = (2, 4)
    """Another frame and threshold are fitted, too, in one step of two while evaluations are ``few``, later in
    one of four, as then are new fits of an unknown noise. In 24 runs on Rosenbrock 2, lumpy 2, Himmelblau and
    the half plane from values, and on Rosenbrock 2 and cigar 4 with gradients (seeds 1101 to 1104), errors
    are 1.2 +- .1 times as large with (1, 2), 1.2 +- .2 times with (4, 8), and evaluations .99 +- .02 and .99
    +- .01 times as many."""
    few: int = 80
    """The number of evaluations up to which they are few. No run on Himmelblau, clusters and Rosenbrock 2
    with noise differs with half and twice (two seeds)."""
    sets: int = 8
    """The number of draws of the hyperparameters, for the standard deviation of the evidence due to them."""
    set_draws: int = 512
    """The number of draws of the posterior on which they are compared."""
    furthest: float = 2.0
    """The largest distance of drawn hyperparameters from their mean, in standard deviations."""
    heaviest: float = 2.0
    """The largest logarithm of the weight of such a draw over that of the mean. With half the standard
    deviation is .97 +- .02 times as large, with twice 1.01 +- .01 (17 thorough estimates of runs on eight
    problems, seeds 1120 and 1121)."""
    lengthscale: tuple[float, float] = (2.0, 1.0)
    """The median of the prior of a lengthscale, and the sd of its logarithm. In the runs named at ``turn``
    errors are 1.2 +- .3 times as large with a median of 1 and 1.3 +- .2 times with 4, and evaluations .96 +-
    .03 and .97 +- .02 times as many; the factor of one step is .85 +- .08 and .97 +- .08."""
    interaction: tuple[float, float] = (1.0, 1.5)
    """Median and sd of the prior of the weight of interactions, in the same way. The factor of one step is
    1.01 +- .03 with half the median and .95 +- .04 with twice."""
    variance: tuple[float, float] = (10.0, 4.0)
    """Median and sd of the prior of the variance. The factor of one step is .99 +- .01 and 1.00."""
    quadratic: tuple[float, float] = (0.5, 4.0)
    """Median and sd of the prior of the quadratic trend. The factor of one step is 1.00 and 1.00."""
    shorter: float = 1.0 / 3.0
    """The lengthscales of the kernel's second term, in units of those of the first. With gradients the kernel
    has this term once the posterior has been found, as a squared exponential alone is smoother than most log
    densities. In twenty dimensions
    with logistic-like coordinates (tilted 20, box 24010, 114 evaluations) the error of the log evidence was
    -.107 without this term. With lengthscales of 1/2 and shares of the variance of .0003, .003 and .03 it was
    -.050, -.023 and -.044, with 1/3 and .0001, .001 and .01 -.013, -.008 and -.043. With the term from the
    first step, funnels that are turned were recognised later as not to be fitted with gradients."""
    share: tuple[float, float] = (1e-6, 3.0)
    """Median and sd of the prior of the share that this term has in the variance, in the same way. Fits find
    .03 to .05 on tilted 20 and 1e-7 on the smooth centred schools, which with a fixed share of .001 kept an
    sd of 2 after 120 evaluations (box 1). With medians of 1e-4 and 1e-6 Rosenbrock 4 took 84 and 80
    evaluations on average (70 without the term; boxes 87 to 94), and the mean error on logistic 5 was .006
    and .005 (.010 without)."""
    noise: tuple[float, float] = (0.3, 2.0)
    """Median and sd of the prior of the noise, where it is fitted. With half the median errors are .7 +- .3
    times as large, with twice .9 +- .3 (16 runs on Rosenbrock 2 and lumpy 2 with noise of unknown sd .3 and
    1, seeds 1101 to 1104)."""
    iterations: int = 40
    """The largest number of iterations of a fit. It is used where a noise that was not declared is looked
    for, and gives the same gains of evidence, to .001 nats, with 20 and 80 (33 fits in runs on 20 problems,
    seed 1101)."""
    longest: float = 2.0
    """The largest length of a step of a fit, in logarithms of hyperparameters. The factor of one step is
    1.001 +- .002 with 1 and 1.005 +- .004 with 4."""
    jitters: tuple[float, ...] = (0.0, 1e-9, 1e-7, 1e-5)
    """The fractions of the prior variances that are added, in turn, until the covariance has a factor. In the
    runs named at ``iterations`` all 398 covariances had one without."""


@dataclass(frozen=True)
class CheapSettings:
    """A cheap approximate model (`surrogate`, `cheap_first`)."""

    scale_sd: float = 0.5
    """The prior standard deviation of its scale, whose prior mean is 1."""
    iterations: int = 6
    """The number of iterations of the fit of the cheap model's hyperparameters in a new frame."""
    beyond: int = 3
    """The number of evaluations of the first design of the log joint beyond D."""
    seconds: float = 0.5
    """The largest share of ``max_seconds`` for the run on the cheap model."""


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
    ridge: float = 1e-12
    """The share of its variance that is added to each variance of a component, where scales depend on a
    coordinate: with a map from ten points of three Gaussians (D = 4, layout 2033 of `experiments.vbmc.hard`)
    correlations had eigenvalues of -2e-16 to 1e-16, and the run ended in an error."""
    thin: float = 50.0
    """The condition number of the correlations beyond which axes are rotated."""
    plausible: float = 0.25
    """The variance of a coordinate in the plausible box, which is two standard deviations to either side."""
    least_correlation: float = 1e-12
    """The least eigenvalue of the correlations. In the same runs the least of 111 matrices was 7e-4."""
    pieces: int = 20
    """The number of parts of a component along a coordinate on which scales depend. Relative to the density
    of q after the map, that of the parts has a divergence of .71 nats with 7 parts and a share ``between`` of
    .8 (the values before), .34 with 14 and .9, .22 with 20 and .95, and .14 with 30 and .95, by the mean of
    24 mixtures of one and four components after maps fitted to exact draws (funnels 5 and 8, centred schools;
    seeds 1100 to 1103). In nine runs with gradients on these, seeds 1110 to 1112, the divergence of the
    posterior's density from the exact one was .67 with 7 and .8, .23 with 20 and .95; in two of funnel 5 from
    values .42 and .40."""
    between: float = 0.95
    """The share of the component's variance in that coordinate that is between the parts. With 20 parts the
    mean divergence at ``pieces`` is .26 with .9; with 7 parts .81 with .6, .76 with .9 and 1.05 with .95."""
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
    """Scales that depend on a coordinate (`scaling`, `learning`).

    They were chosen on the funnel (D = 5) from values, in boxes 300 to 302 of `experiments.vbmc.hard`, and on
    exact draws of funnel, centred schools and five other posteriors. After 185 to 246 evaluations the errors
    of ln Z were 0, 0 and -.006 with sds of .02 (with constant scales -.72, with a stated sd of .04, in the
    first box); in four boxes not chosen on, 1000 to 1003, 0, -.002, -.018 and -.004.
    """

    least_gain: float = 0.03
    """The least gain, in nats for each draw, of a variance that depends on another coordinate."""
    together: float = 0.3
    """The least total gain of all coordinates with one leading coordinate: for less, the evidences of other
    maps are not computed (the centred schools have .5, clusters in the plane less)."""
    beside: float = 0.25
    """The least gain of one coordinate, as a share of the largest gain with the same leading coordinate."""
    steepest: float = 2.0
    """The largest change of the logarithm of a scale over a standard deviation of the leading coordinate."""
    rounds: int = 6
    """The number of rounds of weighted least squares."""
    draws: int = 512
    """The number of draws of the posterior to which the map is fitted."""
    effective: float = 0.05
    """The least effective share of these draws."""
    further: float = 1.4
    """A factor of the rates that is tried, too: rates from draws of a posterior that lacks its tails are too
    small."""
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
    newton: int = 4
    """The number of Newton steps of a scale's logarithm in each round. With half and with twice this,
    ``longest`` and ``cut`` and with hundredths and 100 times ``ridge`` and 1000 times ``least_square``, the
    same coordinates, or none, are scaled by the same leading one for all of 100 samples of 512 exact draws
    (funnels 5, 8 and turned, both forms of the schools, Rosenbrock 2 and 4, lumpy 4, logistic 5, three
    Gaussians 4; seeds 1100 to 1109). Rates differ by 4e-4 or less by the median."""
    longest: float = 0.5
    """The largest length of such a step."""
    ridge: float = 1e-6
    """The number that is added, for each draw, to the diagonals of both regressions."""
    least_square: float = 1e-12
    """The number that is added to squared residuals of standardised coordinates. Without it the logarithm of
    a coordinate that is a linear function of others would be infinite."""
    cut: float = 30.0
    """The largest logarithm of a scale. The largest on these samples was 12."""


@dataclass(frozen=True)
class UndeclaredNoiseSettings:
    """The test whether values that were declared exact are noisy (`undeclared_noise`)."""

    at: float = 1.0 / 3.0
    """The share of the budget that is spent when it may be made, unless the run is about to converge before.
    With half of it exploration used what was left of budgets of 40."""
    excluded: float = -5.0
    """The gain of evidence by a noise, in nats, below which it is not made. In exact runs with 24 to 60
    evaluations the gain was -80 to -25 on Gaussians, -16 to -2.5 on Rosenbrock 2 and Himmelblau, -7 to 0 on
    logistic 5, -10 to 11 on lumpy 4, Rosenbrock 4, clusters and the eggbox. In 96 runs with noise of sd .1 to
    1 on five of these it was -4.2 to 92."""
    displaced: float = 1e-9
    """The displacement of the point in each coordinate, over half of the plausible interval: a slope of 1e6
    changes the value by .001."""
    near: float = 1e-8
    """The largest difference in a coordinate of points that count as the same."""
    same: float = 0.001
    """The largest difference of the two values, in nats, that may be due to rounding; that of the sd of
    `ShapingSettings.least_noise`."""
    first: float = 0.1
    """The variance at which the search for a noise begins, nats squared."""


@dataclass(frozen=True)
class GradientScalingSettings:
    """Scales that depend on a coordinate, from gradients at evaluated points (`gradient_scaling`).

    They were chosen on the points of the first climb on funnels (D = 5 and 8) and the centred eight schools,
    in three boxes each, and on runs on 17 posteriors with other shapes, in two boxes each, of 5 to 61
    evaluations.
    """

    rates: int = 24
    """The number of rates of each sign that are compared at first."""
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
        return (self.each_of_most if self._of_most(dimension, count) else self.each) * count

    def accepts(self, dimension: int, count: int, gain: float, change: float) -> bool:
        """Whether a map is used.

        Parameters
        ----------
        dimension : the number D of coordinates. count : the number of those that the map scales.
        gain : the gain of misfit, nats. change : the least change of the logarithm of a scale.
        """
        enough = self.range_of_most if self._of_most(dimension, count) else self.range
        return gain > self.least_gain_of(dimension, count) and change > enough

    def _of_most(self, dimension: int, count: int) -> bool:
        """Whether a map of ``count`` of D coordinates is one of nearly all of them."""
        return count >= max(self.fewest, self.most * (dimension - 1))


@dataclass(frozen=True)
class WeightSettings:
    """Importance weights, and the estimates from them (`correction`, `moments`).

    A factor of effective draws is the geometric mean of their number in 16 thorough estimates over that with
    the values here, from the last surrogates of eight runs: Rosenbrock 2, lumpy 2, Himmelblau, the half plane
    and cigar 4 from values, Rosenbrock 2 and 4 and cigar 4 with gradients (seed 1101). Log evidences then
    differ by the noise of the draws.
    """

    wide: float = 0.25
    """The share of the proposal that is q widened."""
    widening: float = 1.7
    """The factor by which the scales of q are widened."""
    resampled: int = 256
    """The number of draws at which the covariance of f is computed."""
    rounds: int = 4
    """The number of rounds of population Monte Carlo."""
    tail: float = 10.0
    """The largest depth of evaluated points that count as a tail, in nats below the top beyond D / 2."""
    lacking: float = 2.0
    """The least deficit of q's density there, in nats, for an additional component of the proposal."""
    beside: int = 8
    """The largest number of such components."""
    longer: float = 3.0
    """The scales of their second copies over those of q's component."""
    covered: float = 0.9
    """The effective share of the draws above which the proposal is not adapted any further."""
    best_known: float = 0.05
    """The share of the draws of least variance, from which the reference level of the variance is taken."""
    whole: float = 2.0
    """The scale of the Gaussian with the moments of all of q: thin curved tails lie along this Gaussian, not
    along any component."""
    blended: float = 200.0
    """The number of effective draws below which the posterior's moments are blended with those of q."""
    first_draws: int = 512
    """The number of draws by which the deficits of q and of its proposal are found. With half and with twice
    no estimate differs."""
    first_wide: float = 0.4
    """The share of q widened in the first proposal of the thorough estimate. With half and with twice the
    factor of effective draws is 1.00 +- .01."""
    first_whole: float = 0.05
    """The share, in the same proposal, of the Gaussian with the moments of all of q. With half and with twice
    1.00."""
    first_beside: float = 0.1
    """The share, in the same proposal, of the additional components, where there are any. With half and with
    twice 1.00."""
    renewed: float = 0.1
    """The share of a wide part in an adapted proposal, which thus extends beyond earlier draws. With half
    1.02, with twice .96."""
    renewed_wide: tuple[float, float] = (0.5, 2.0)
    """The share of q widened in this wide part, and the factor by which it is widened. With half and 1.5
    times the share 1.01 and 1.00, with 1.5 and 3 times the scales 1.01 and .99."""
    renewed_whole: float = 0.3
    """The share, in the wide part, of the Gaussian with the moments of all of q. With half 1.01, with twice
    .99."""
    renewed_beside: float = 0.3
    """The share, in the wide part, of the additional components. With half 1.01, with twice 1.00."""
    round_draws: int = 4
    """The number of draws of the estimate over that of a round. With half 1.01, in 1.2 times the time; with
    twice 1.00, in .84 times."""
    least_round: float = 10.0
    """The effective draws of a round for each dimension, below which the proposal is not adapted further.
    With half and with twice no estimate differs."""


@dataclass(frozen=True)
class LocalSettings:
    """Gaussians at evaluated points where a proposal lacks density (`local_proposal`).

    They were chosen on the ring in boxes 2000 to 2002 of `experiments.vbmc.hard`, and on five unimodal
    targets, where at most four such Gaussians were found, after 6 to 49 evaluations.
    """

    shallow: float = 7.0
    """The largest depth of such a point below the top, in nats beyond D / 2."""
    lacking: float = 1.0
    """The least excess of the density there over the proposal's, in nats."""
    apart: float = 1.0
    """The least squared distance of such Gaussians from each other, in their standard deviations."""
    least: int = 6
    """The least number of Gaussians for which a proposal is made."""
    most: int = 60
    """The largest number of Gaussians of a proposal."""
    mass: float = 0.1
    """The least mass of all these Gaussians, as a share of the evidence, for which a proposal is made; also
    the largest mass that q may lack and still count as covering the posterior."""
    uncovered: float = 2.0
    """The excess of the posterior's density over the proposal's, in nats, from which q lacks the mass there.
    This was .25 of the mass of a ring, and at most .07 for two shells, Rosenbrock-Gaussian 6 and tilted 20,
    whose evidences were right."""
    share: float = 0.7
    """The share of these Gaussians in the first proposal of the thorough estimate."""
    shortest: int = -8
    """The lengths are powers of two from this one to 2^0, in the frame's units. In ten thorough estimates on
    the ring (160 values, seeds 1104 to 1108) the factor of effective draws is .5 +- .3 with -6, and no
    estimate differs with -10."""
    fall: float = 0.5
    """The least fall of the density over a length, in nats. In the same estimates .95 +- .04 with half and
    .93 +- .13 with twice."""
    bend: tuple[float, float] = (1.0, 4.0)
    """The bounds of twice the fall that counts as a parabola's; a larger fall is due to a bend."""


@dataclass(frozen=True)
class NodeSettings:
    """The choice of the next points (`next_points`, `steps`)."""

    targets: int = 160
    """The number of draws by which the criterion is integrated."""
    candidates: int = 256
    """The number of draws that are candidates for an evaluation."""
    most: float = 20.0
    """The largest standard deviation of f in the interquantile range, in nats."""
    tempers: tuple[float, float] = (0.4, 0.75)
    """The lower bounds of the least and the usual power of the density in the integral of the criterion."""
    deeper: tuple[float, float] = (2.0, 0.75)
    """The largest excess depth of draws of a tempered density over those of the posterior, in sds of the
    depth, under the least and the usual power (`next_points`). The powers are larger than ``tempers`` beyond
    3 and 10 dimensions. They were chosen on tilted 20 with gradients, boxes 8001, 8002 and 9500: with the
    powers .4 and .75 evaluations were 30 to 50 nats deep, draws 10, and runs took 119 to 152 evaluations;
    with these bounds 102 to 124."""
    uncertain: float = 0.01
    """The share of the mass at the edge of the feasible region from which a step has an evaluation there."""
    known: float = 0.01
    """The variance of f, nats squared, below which another evaluation is of little use."""
    determined: float = 1e-6
    """The share of its variance, given the pending points, below which a value counts as determined, as the
    remaining variance is rounding."""
    quantile: float = 0.6744897501960817
    """The standard normal's quantile of .75: the range is that between quartiles, as in Acerbi (2020)."""
    widest: float = 50.0
    """The largest half of the range, in nats, so that its hyperbolic sine does not overflow."""
    least_variance: float = 1e-12
    """The least variance of f at a target, nats squared, by which other quantities are divided."""


@dataclass(frozen=True)
class ComponentSettings:
    """Components of q (`variational`, `learning`)."""

    lowest_logit: float = -9.0
    """The least logit of a weight."""
    smallest: float = 5e-3
    """The least scale of a component, in the frame's units."""
    largest: float = 4.0
    """The largest scale of a component, in the frame's units."""
    shallow: float = 7.0
    """The largest depth of an evaluated point that q must cover, in nats below the top beyond D / 2."""
    unseen: float = 4.0
    """The least excess of the density at such a point over that at the draws, in nats."""
    longer: float = 1.5
    """The largest number of components, over n^(2/3), where the posterior extends beyond q, or evaluations
    show that q lacks mass. On the ring in boxes 9810, 9811 and 9813 errors after 400 evaluations were .02,
    .07 and .64 with 1, and at most .05 with 1.5."""
    beyond_variance: float = 1.0
    """The largest variance of f, nats squared, at points beyond q's draws where q is given components. On the
    ring, clusters and Himmelblau after 160, 120 and 80 values (layouts 2032 and 2033 of
    `experiments.vbmc.hard`) the geometric mean of errors was .015 with a half, .014 with twice and .030 with
    this value. Of six errors one is .43 of a ring that is not found yet with this value, and .03 and .01 with
    the others; the others differ little. For ``lacking`` the three were .018, .016 and .030, for
    ``lacking_at_most`` .031, .020 and .030, for ``beyond_mass`` .028, .024 and .030, and for ``compared``
    .031, .024 and .030: no difference beyond the noise of the ring."""
    lacking: float = 2.0
    """The least excess of the surrogate's density over that of q and q widened there, in nats."""
    lacking_at_most: float = 10.0
    """The excess, in nats, beyond which all such points are treated alike."""
    beyond_mass: float = 0.02
    """The least share of the evidence at these points for which q is given components there."""
    pairs: int = 20
    """The number of pairs of steps and gradients that L-BFGS keeps. The factor of one step is 1.01 +- .01
    with half, and no step differs with twice, as an ascent has 16 steps."""
    compared: int = 40
    """The number of draws of the largest ratio, for each added component, among which it is placed; compared
    with others as said at ``beyond_variance``."""
    narrower: float = 0.7
    """The scales of an added component over those of the component that explains the draw. The factor of one
    step is .99 +- .02 with .5 and 1.01 +- .01 with 1."""
    share: float = 0.5
    """The weight of an added component over the average weight. The factor of one step is .99 +- .01 with
    half and 1.00 +- .01 with twice."""
    first_places: float = 0.2
    """The distance of the first two components from the middle of the frame, along its diagonal. The factor
    of one step is 1.03 +- .03 with half and 1.01 +- .01 with twice."""
    first_scale: float = 0.7
    """The scale of the first two components. The factor of one step is 1.05 +- .03 with half and 1.03 +- .03
    with twice."""
    represented: float = 0.3
    """The effective share of the draws in the last record above which its q represents the posterior. An
    ascent from such a q is doubted where its end has an ELBO far below the log evidence."""
    doubted: float = 0.5
    """The excess of the log evidence over the ELBO, in nats, above which the end of such an ascent is
    compared with its start, and the q of higher ELBO is kept. On the bounded banana with 16 workers that are
    never idle the error stayed below .1 from 35 evaluations on by the median without this comparison (seeds
    300 to 329), and from 31 on with it (30.5 on seeds 342 to 369); no other value was tried."""
    dropped: float = 0.003
    """The weight below which a component is removed after an ascent. The factor of one step is 1.00 with half
    and 1.03 +- .03 with twice."""
    samples: int = 32
    """The least number of points by which the entropy of a component is estimated. It acts on q of more than
    31 components; no step differs with half and twice."""
    draws: int = 512
    """The number of draws by which the deficits of q are found. The factor of one step is 1.00 with half and
    twice."""
    covered: float = 0.7
    """The effective share of these draws above which q lacks nothing. The factor of one step is 1.00 with .5
    and 1.01 +- .01 with .85, with 3 % more components."""
    added: int = 3
    """The largest number of components that a step adds. On the ring from values, boxes 1000 to 1009, with
    one at a time where evaluations show that q lacks mass, 9 of 10 errors were below .1 and 5 runs converged;
    with three 10 of 10 and 7."""
    added_with_gradients: int = 1
    """The same where evaluations show that q lacks mass and there are gradients. On a turned funnel with 60
    evaluations, seeds 0 to 3, errors were 7 to 14 with one and 5 to 12 with three, which does not decide."""
    floor: float = 5.0
    """The largest deficit of q's density against the proposal's there, in nats, that counts. The factor of
    one step is 1.00 with half and twice."""
    margins: tuple[float, float] = (0.5, 1.0)
    """The largest distances of the means of components, and of the mode, from the evaluated points, in the
    frame's units. The factor of one step is 1.00 with half and twice."""


@dataclass(frozen=True)
class PooledSettings:
    """Draws beyond those of q (`pooled_draws`).

    They were chosen on the ring in boxes 9810, 9811, 9813, 9822 and 9823 of `experiments.vbmc.hard`. 42
    unimodal runs (seeds 60 to 62) took 3,246 evaluations, and 3,436 without such draws.
    """

    wider: float = 4.0
    """The factor of q's scales."""
    draws: int = 256
    """The number of draws of each of the two proposals."""
    places: int = 64
    """The number of points at each of which the second proposal has a Gaussian."""
    temper: float = 0.75
    """The power of the density by which these points are chosen."""
    known: float = 10.0
    """The largest standard deviation of f, in nats, at a draw that is kept."""
    uncertain: float = 1.0
    """The standard deviation of f, in nats, above which a draw counts for the rise of the evidence."""
    feasible: float = 0.5
    """The least probability of feasibility of a draw that counts for this rise."""
    highest: float = 50.0
    """The largest logarithm of a weight, so that its exponential does not overflow."""


@dataclass(frozen=True)
class RestartSettings:
    """New starts of q (`learning`, `annealing`, `laplace`)."""

    least_effective: float = 20.0
    """The least number of effective draws, below which q starts again."""
    kept_effective: float = 0.02
    """The effective share of the draws in the last record above which q is kept for a further step: new
    components of q lower the share for a step, and would be lost in a new start."""
    poor: float = 0.1
    """The effective share of the draws below which a run with gradients tries Laplace's approximation again,
    and the frame along its axes. Two of six correlated Gaussians in twenty dimensions stayed in a frame along
    the coordinates, with an effective share of .02 to .07 and an exact surrogate, for 200 evaluations and
    120 s."""
    draws: int = 256
    """The number of draws of a round of annealed population Monte Carlo."""
    rounds: int = 10
    """The largest number of such rounds."""
    widening: float = 1.3
    """The standard deviations of the proposal over those of the Gaussian."""
    flattest: float = 1e-2
    """The curvature of the mean below which it counts as having no maximum."""
    tries: int = 12
    """The largest number of Newton steps to that maximum."""
    difference: float = 1e-3
    """The step, in the frame's units and to either side, of the differences of gradients from which the
    curvature of the mean is computed. The factor of one step is 1.00 with half and with twice."""
    cooling: float = 0.7
    """The ratio of successive powers of the density that are tried. The factor of one step is .98 +- .02 with
    .5 and 1.00 +- .01 with .84 (nine states of three Gaussians 4 with gradients)."""
    powers: int = 120
    """The number of powers that are tried. None of 33 adaptations in runs on 20 problems reached the last."""
    required_draws: tuple[float, float, float] = (0.2, 4.0, 0.5)
    """The effective draws that are required: this share of all, or this number for each dimension up to the
    last share. At the states of ``cooling`` the factor is .97 +- .07 with halves of the first two and .95 +-
    .03 with twice these."""
    rounder: float = 1e-3
    """The share of its mean variance that is added in every direction. At these states 1.00 with half and .99
    with twice."""

    @property
    def ascent(self) -> Search:
        """The settings of the search for the mode."""
        return Search(iterations=self.tries, halvings=8, longest=inf, settled=1e-9, gained=1e-3)


@dataclass(frozen=True)
class ModeSettings:
    """The definition of modes (`modes`)."""

    along: int = 7
    """The number of points of a segment between two components at which a dip is tested."""
    neighbours: int = 3
    """The number of nearest components with which each is compared first; it changes no result."""
    dip: float = 1.0
    """The least dip below the lower end of the segment, in nats, that separates two modes."""
    inside: float = 4.0
    """The region of a mode, in sds of |x|^2 under N(0, I) beyond its mean D."""
    least_divergence: float = 0.7
    """The divergence KL(q_r || Gaussian), in nats, above which a mode is represented by its components. It
    was 1.8 to 1.9 on two rings, at most .44 on clusters and three Gaussians, .9 to 1.2 on Rosenbrock. Over 42
    unimodal runs it made no difference; components for every mode took .5 % more evaluations."""
    draws: int = 512
    """The number of draws of a mode from which the divergence is computed."""


@dataclass(frozen=True)
class FeasibilitySettings:
    """The probability that a point can be evaluated (`feasibility`)."""

    sharpness: float = 6.0
    """The factor p of the logit (:mod:`bqvi.variational_bmc.feasibility`)."""
    least: float = 1e-12
    """The least distance, as its logarithm is taken."""
    alone: float = 0.7
    """The largest ratio of the distances of an isolated failure to the nearest good and the nearest failed
    evaluation."""
    in_hull: float = 1e-6
    """The residual of a point as a mean of others, below which it is in their convex hull. Of 2000 residuals
    of points about Gaussian samples (D = 1 to 8, seeds 1100 to 1119) 809 were 0 and the others above 1e-4."""
    logits: tuple[float, float] = (-60.0, 69.0)
    """The bounds of minus the logit, with which probabilities are above 0."""


@dataclass(frozen=True)
class PredictionSettings:
    """Errors of the surrogate's predictions (`state`)."""

    remembered: int = 30
    """The number of latest predictions that count."""
    largest_error: float = 25.0
    """The largest squared standardised error that a prediction counts as."""
    largest_gap: float = 20.0
    """The largest excess of a value over its prediction (`total_variation`), in nats, without overflow."""
    first_error: float = 1.0
    """The possible error of the first record, in nats, before any prediction. On the centred schools with
    gradients, boxes 22000, 22001, 23000 and 23001, its ELBO exceeded the log evidence by .09 to .37, with sds
    of .02 to .13."""
    unsettled: float = 1.0
    """The divergence between successive posteriors above which the posterior has not been found."""
    covering: float = 0.05
    """The effective share of the draws above which the posterior has been found. No run differs with half and
    twice (seven problems of two to four dimensions, values and gradients, seed 1101)."""


@dataclass(frozen=True)
class ComparisonSettings:
    """Draws of the posterior that are evaluated before convergence (`comparison`).

    They were chosen on three pharmacokinetic posteriors and two of an epidemic (D = 4, curved ridges in
    logarithms, errors of the log evidence -.05 to -.29 at stated sds of .04): there the estimate from five
    such draws had a median of .08 to .17, and a tenth percentile of .04 to .07. On logistic 5, Rosenbrock 6
    and lumpy 2, whose errors were below .012, it had a median of .02 to .026, and a ninetieth percentile of
    .035 to .055. Draws of the density itself separate the two groups less well, the power .4 about as well.
    ``total_variation`` was chosen
    on lumpy 4 and ten other unimodal targets in boxes 1 and 2; boxes 3 to 5 had been seen before as
    well. On lumpy 4, whose errors were below .07, the estimate was .07 to .14 from 108 to 193 evaluations on;
    with half this share allowed, runs took up to twice the evaluations. For four evidences in D = 4 and 10
    that were wrong by .16 to .22 it was .13 to .28. Draws do not show tails in which there are none: on a
    thin ridge in the plane the estimate was below .002 where the error was -.11.
    """

    draws: int = 5
    """The number of draws of a posterior with one mode."""
    draws_each: int = 3
    """The number of draws in each of several modes."""
    temper: float = 0.6
    """The power of the density of which draws are made."""
    total_variation: float = 0.1
    """The share of the mass that may differ, or the tolerance where that is larger."""
    of_modes: float = 0.05
    """The same where there are several modes, with more draws in all. On clusters (layouts 3, 6, 8, 10, 54
    and 1045) the errors of the log evidence were at most .042 with this share and at most .070 with .1, after
    184 and 158 evaluations on average."""
    again: float = 1.1
    """The growth of the evaluations after which draws are compared again."""

    def allowed(self, draws: int) -> float:
        """The share of the mass that may differ by a comparison at that many draws."""
        return self.of_modes if draws > self.draws else self.total_variation


@dataclass(frozen=True)
class ConvergenceSettings:
    """The conditions of convergence (`stopping`)."""

    steady: int = 4
    """The number of latest records on which the conditions are tested."""
    divergence: float = 0.03
    """The largest divergence between successive posteriors, in nats, beyond that expected from draws."""
    shape: float = 0.7
    """The largest Pareto k."""
    effective: float = 0.1
    """The least effective share of the draws."""
    uniform: float = 0.9
    """The effective share above which Pareto k is not tested."""
    unseen: float = 0.1
    """The largest number of nats that unseen modes may be expected to add. It was at most .03 in runs on
    clusters, three Gaussians and Himmelblau that had found all modes, and .75 or more on eggboxes of 18
    modes."""
    prediction_error: float = 9.0
    """The largest mean squared standardised error of predictions."""
    missed: float = 0.1
    """The median error of predictions, in nats, below which their standardised errors are not tested. On the
    centred eight schools with gradients, box 20003, the log evidence was right to .01 from 45 evaluations on,
    and the errors of predictions were .1 nats or less with sds of .01; the run had not converged after 149
    evaluations, and does with this after 110."""
    again: float = 1.1
    """The growth of the evaluations after which a thorough estimate without convergence is made again."""


@dataclass(frozen=True)
class ResultSettings:
    """Conditions on the final result (`vbmc_run`)."""

    needed: int = 2
    """The least number of good evaluations at the beginning."""
    tolerance: float = 0.05
    """The sd of the log evidence, in nats, by which convergence is judged where the user gives none."""
    corrected: float = 100.0
    """The number of effective draws from which the posterior is corrected by its weights."""
    usable: float = 1.0
    """The Pareto k above which the posterior is not corrected, as the weights have no mean."""
    even: float = 0.5
    """The effective share above which it is corrected for any k: then no draw of 8192 has more than 1.1 %."""
    located: float = 1.0
    """The sd of the log evidence, in nats, below which the posterior may suggest plausible intervals."""


@dataclass(frozen=True)
class ExplorationSettings:
    """Sobol points and climbs before convergence (`exploration`).

    They were chosen on three Gaussians in boxes of 2, 4 and 6 dimensions and on 20 Gaussians in the plane.

    Attributes
    ----------
    least, each, several, rounds : the number of explored points is ``least + each D`` where one mode is
        known, and ``several`` times this where several are; up to ``rounds`` times as many are explored while
        further modes are expected (on eggbox, box 23002, a run that had found seven of 18 modes used the
        remaining 110 evaluations of 400 in known regions, with a final error of .9). Over 427 layouts of
        three Gaussians in D = 4, none of 16 points showed a mode that was left out in 5 %, none of 32 in 1.4
        %, about as often as by the rule of succession.
    share, margin : a value is explained where it exceeds the known modes' density by less than this share of
        its depth and these nats. With a share of .3 a narrow mode beside a wide one was missed.
    cosine : a gradient is explained where its cosine with that of the known modes is above this.
    ranked, ordered : with at least ``ranked`` points outside of the known modes, values rise with the density
        of these where Spearman's rank correlation is at least ``ordered``. It was .76 to 1 in 14 runs on
        Rosenbrock, cigar and logistic targets of 2 to 6 dimensions (seeds 50 and 51), .66 or more on
        clusters, three Gaussians, Himmelblau and shells once most of their modes were known, and .28 on an
        eggbox of which only a narrow mode in a corner was known (layouts 1000 + 9810 and 9811).
    without_mode : the number of climbs without a mode, one more for each known mode beyond the first, after
        which no further climb is begun; points from which no climb was begun count like those from which one
        was.
    gain : the nats that a climb has to gain in its last steps to continue.
    risen : the least rise of a climb with gradients that leads to a mode, as a share of its start's depth; on
        the log-concave slopes of tilted 20 it was .47 to .58.
    most_with_gradients : the largest number of points of a climb with gradients.
    relevant : the largest depth of a mode whose mass could matter, in nats below the highest value beyond D /
        2.
    located : with half of the budget spent a run explores although it is not about to converge, if its sd of
        the log evidence is below these nats and the sd of the noise of a value. Modes that are known too
        badly explain few points, and exploration then used all that was left: in runs that were continued
        with budgets of 15, 25, 40, 65, 95 and 120 to 160 (four seeds each, median errors at 65 and 95) errors
        were 6.5 and 1.0 on logistic 5, .68 and .026 with ``located``; 1.2 and .31 on Rosenbrock 6, .65 and
        .23. With .3 in the place of 1 they were .38 and .017, and .54 and .25.
    """

    least: int = 8
    each: int = 2
    several: int = 4
    rounds: int = 8
    share: float = 0.1
    margin: float = 3.0
    cosine: float = 0.9
    ranked: int = 8
    ordered: float = 0.5
    without_mode: int = 3
    gain: float = 0.3
    risen: float = 0.3
    most_with_gradients: int = 15
    relevant: float = 7.0
    located: float = 1.0

    def count(self, dimension: int, modes: int = 1) -> int:
        """The number of points that are explored where this number of ``modes`` is known."""
        return (self.least + self.each * dimension) * (1 if modes == 1 else self.several)

    def most(self, dimension: int, modes: int, left: int) -> int:
        """The largest number of explored points, where ``left`` evaluations remain.

        It is at most half of these, but up to twice the number of points where one mode is known.
        """
        return min(self.rounds * self.count(dimension, modes), max(left // 2, 2 * self.count(dimension)))


@dataclass(frozen=True)
class FirstClimbSettings:
    """The climb with which a run with gradients begins (`climbing`)."""

    gain: float = 0.3
    """The nats that a step has to gain for the climb to continue."""
    most: tuple[int, int] = (3, 5)
    """The largest number of evaluations, 3 D + 5; not compared."""
    same: float = 0.05
    """The singular value of the directions of all steps below which a direction counts as without a step. On
    a funnel in D = 5, three Gaussians in D = 4 and the centred schools (layouts 2032 and 2033 of
    `experiments.vbmc.hard`) six runs were the same with a half, and five with twice: the sixth had an error
    of -.003 in the place of .005."""
    longest: float = 0.5
    """The largest step in a new direction, in half widths of the plausible box. On Gaussian 6 and funnel 5
    (two seeds each) one of four runs differs with half, and none with twice."""


@dataclass(frozen=True)
class ClockSettings:
    """The time that is reserved for the thorough estimate (`clock`)."""

    thorough: float = 10.0
    """The time of the thorough estimate over that of a step without its calls: 6 to 12 on posteriors of 2 to
    10 dimensions."""


@dataclass(frozen=True)
class FreshStartSettings:
    """New starts without gradients (`fresh_start`).

    They were chosen on the funnel (D = 5) and both parametrisations of the eight schools, one seed each.
    """

    wrong: float = 12.0
    """The mean squared standardised error of the predictions above which a run may start again. It was 14 to
    22 on the funnel, and at most 9.3 on non-centred schools."""
    predictions: int = 10
    """The least number of predictions for this."""
    each: int = 3
    """The number of the run's own evaluations for each dimension before which it does not start again. On
    tilted 20 the error was 12 at 31 evaluations, with an error of the log evidence of .2. On funnel 5, boxes
    7100 to 7107, which were not chosen on, the median run takes 103 evaluations, where it took 226 before
    this constant and the steps in new directions, and as many results, seven of eight, are right."""
    missed: float = 0.3
    """The median error of the latest predictions, in nats, above which a run may start again. With three
    Gaussians in D = 4, layout 300, the standardised error was 17 for predictions with errors of hundredths,
    which do no harm."""
    covered: float = 0.5
    """The effective share of the draws, in one of the latest records, above which a settled run
    (`state.settled`) does not start again, as predictions may be bad where there is no mass. With three
    Gaussians in D = 6, layout 9500, and on tilted 20, box 9503, the mean squared error was above 12 when the
    log evidence was right to .1; from values alone the final errors of the log evidence were .1 to .5. By the
    last record alone, tilted 20, box 23002, started again at a share of .43 after .63 to .68, with a final
    error of .28."""
    hardly: float = 0.02
    """The effective share of the draws below which hardly any draw carries weight."""
    following: int = 5
    """The number of latest records in all of which this holds in a run that starts again."""


@dataclass(frozen=True)
class DiagnosticSettings:
    """Agreement of runs, and warnings (`diagnostics`)."""

    unbounded: float = 100.0
    """The standard deviation of q, in half widths of the plausible interval, from which the posterior counts
    as unbounded: along the flat direction of -x_0^2 in D = 2 it was 1e8 after 60 evaluations."""
    near_mmtv: float = 0.2
    """The mean marginal total variation below which posteriors agree (Acerbi 2018)."""
    near_gskl: float = 0.125
    """The Gaussianised symmetric KL below which posteriors agree, in nats."""
    near_sds: float = 3.0
    """The number of standard deviations within which two log evidences agree."""
    beside: float = 0.01
    """The share of a bounded interval that counts as beside a bound."""
    beside_sds: float = 0.25
    """The distance from a bound, in standard deviations of the posterior, that counts as beside it where it
    is less than ``beside``: a posterior of sd .0014 whose mean is four sds above a bound of the interval [0,
    1] is not at that bound; of a half normal at a bound 12 % of the mass is."""
    mass: float = 0.05
    """The share of the posterior's mass there from which a warning is given."""
    draws: int = 20_000
    """The number of draws of each posterior for the distances."""
    bound_draws: int = 4096
    """The number of draws for the mass at bounds."""
    failures: float = 0.2
    """The share of failed evaluations, or of missing gradients, from which a warning is given. This constant
    and the next three affect messages only."""
    off: float = 2.0
    """The distance of the mean from the plausible interval's centre, in half widths beyond one sd, from which
    a warning is given."""
    wide: float = 3.0
    """The sd of the posterior, in half widths, above which the interval was too narrow."""
    narrow: float = 0.02
    """The sd of the posterior, in half widths, below which the interval was too wide."""
    interval: tuple[float, float] = (0.05, 0.95)
    """The quantiles that are suggested as a better interval."""


SHAPING, FITTING, FRAMES, WEIGHTS = ShapingSettings(), FittingSettings(), FrameSettings(), WeightSettings()
GRADIENT_SCALINGS, NOISE = GradientScalingSettings(), UndeclaredNoiseSettings()
SCALINGS, LOCAL, POOLED = ScalingSettings(), LocalSettings(), PooledSettings()
NODES, COMPONENTS, RESTARTS, MODES = NodeSettings(), ComponentSettings(), RestartSettings(), ModeSettings()
FEASIBILITY, PREDICTIONS, CONVERGENCE = FeasibilitySettings(), PredictionSettings(), ConvergenceSettings()
RESULT, FRESH_START, DIAGNOSTICS = ResultSettings(), FreshStartSettings(), DiagnosticSettings()
COMPARISON = ComparisonSettings()
CLIMBING, CLOCK, EXPLORATION = FirstClimbSettings(), ClockSettings(), ExplorationSettings()
CHEAP = CheapSettings()
