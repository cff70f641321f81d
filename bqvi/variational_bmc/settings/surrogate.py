"""The data of a surrogate, its hyperparameters, and a cheap model as its prior mean."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHEAP", "FITTING", "SHAPING", "CheapSettings", "FittingSettings", "ShapingSettings"]


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
    most_rows: int = 1200
    """The number of observations beyond which only the gradients at the points of highest density stay. On a
    hierarchy of counts, D = 9, the log evidence of 200 evaluations is .006 off at an sd of .010, and .003 at
    .023 with all gradients (one seed). With 400, standard deviations after 120 are .46 and .031, and .049 and
    .018 with 1,200 (two seeds)."""
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
    gain_with_gradients: float = 0.05
    """This gain where a step takes long. On logistic 5, lumpy 4, Rosenbrock 4 and 6 and cigar 6 (seeds 1450
    to 1459) runs took 55, 64, 65, 94 and 40 evaluations on average with .01, 56, 64, 60, 88 and 40 with .05,
    with errors and standard deviations equal within their spread, in .85 of the time."""
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
    turn_with_gradients: int = 2
    """The number of growths by ``often`` in one of which they are fitted where there are gradients and
    ``many`` observations. On lumpy 4 and cigar 6 (seeds 1410 to 1413) runs with 1, 2 and 4 are the same and
    take 1.06, 1 and .88 of the time; on Rosenbrock 6 they took 155, 133 and 88 evaluations, with equal
    errors."""
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
    densities. In twenty dimensions with logistic-like coordinates (tilted 20, box 24010, 114 evaluations) the
    error of the log evidence was -.107 without this term. With lengthscales of 1/2 and shares of the variance
    of .0003, .003 and .03 it was -.050, -.023 and -.044, with 1/3 and .0001, .001 and .01 -.013, -.008 and
    -.043. With the term from the first step, funnels that are turned were recognised later as not to be
    fitted with gradients."""
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


SHAPING = ShapingSettings()
FITTING = FittingSettings()
CHEAP = CheapSettings()
