"""Constants of the calls that affect results: what each is, and what it was chosen on.

"Not studied" says that no other value was compared, or that no figures of a comparison were kept.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "AT_THE_MODE",
    "CHECK",
    "CLIMB",
    "DENSITY",
    "INTERVALS",
    "PLAUSIBLE",
    "ROUNDING",
    "SELECTION",
    "PlausibleSearch",
]


@dataclass(frozen=True)
class ClimbSettings:
    """A climb of the log joint (:mod:`climb`).

    Figures are of the boxes that :mod:`plausible_search` finds on 30 posteriors (Gaussians of equal scales,
    of scales .01 to 10, and correlated, log-gammas and Student t's; D = 2, 4, 6; two layouts each):
    evaluations, and the mean squared error of the centres, in standard deviations, and of the logarithms of
    the widths, both over those with the values here.
    """

    worst: float = 1e10
    """The objective of the optimiser at a point where the log joint failed, in nats; not studied."""
    first_radius: float = 0.25
    """The first radius of COBYQA's trust region, an eighth of the width of the plausible box [-1, 1]^D. With
    .125 1.05 and 1.2, with .5 .99 and 1.3."""
    most_of_values: tuple[int, int] = (8, 10)
    """A climb from values alone visits 8 D + 10 points at most. With half as many .94 and 1.6, with twice as
    many no box differs."""
    patience: int = 1
    """The number of points that, if they gain little, end a climb with gradients. With 2 1.20 and .5; errors
    are small with both, .011 and .002 by the median."""
    least: int = 2
    """The number of points before that criterion is applied. With 1 .97 and 1.0, with 4 1.15 and .3."""
    patience_of_values: tuple[int, int] = (1, 2)
    """D + 2 points that gain little end a climb from values alone; COBYQA's model has 2 D + 1 points. With D
    points .92 and 2.0, with 2 D + 2 1.13 and 1.2."""
    least_of_values: tuple[int, int] = (2, 2)
    """2 D + 2 points are visited before that criterion is applied. With D + 2 .69 and 10, with 3 D + 2 1.01
    and 1.0."""


@dataclass(frozen=True)
class GradientCheckSettings:
    """The check that given gradients are those of the values (:mod:`gradient_check`)."""

    fewest: int = 6
    """The least number of pairs whose median is taken; with fewer, one pair could determine it."""
    consistent: float = 0.9
    """The share of pairs whose difference lies between the slopes that a correct gradient is assumed to have.
    It was .98 to 1 for the correct gradients of funnels, both forms of eight schools, a Rosenbrock function
    and a logistic regression, and .1 to .7 with a wrong sign."""
    chance: float = 1e-5
    """The probability that a run with a correct gradient is stopped, if pairs are independent and each is
    consistent with probability ``consistent``."""
    large: float = 0.1
    """The least difference, in nats, that counts towards stopping a run, as smaller ones may be errors of a
    solver; not studied, like the constants that follow."""
    large_share: float = 0.05
    """As ``large``, for a function that is no log density, as a share of the range of its values."""
    every: int = 8
    """The number of evaluations between two checks of the gradients."""
    last: int = 72
    """The number of evaluations after which gradients are no longer checked."""
    disagrees: float = 0.3
    """The median relative disagreement of gradients and differences above which a warning is given."""
    one_multiple: float = 0.2
    """Ratios whose interquartile range is below this share of their median count as one number."""
    rounding: float = 1e-6
    """Differences below this share of the largest value, or of one, count as rounding."""
    sign: float = 0.1
    """A multiple within this distance of -1 is reported as a wrong sign."""


@dataclass(frozen=True)
class PlausibleSearch:
    """Settings of the search, chosen on Gaussians (scales 1 to 1000, correlated) and funnels, D = 2 to 6.

    Attributes
    ----------
    reach : half the width of the box, in standard deviations of Laplace's Gaussian.
    gain, gain_of_values : the nats that a climb has to gain in its latest steps to continue, with gradients
        and without.
    past_overshoots : whether a climb with gradients continues after a point that gains little. It need not
        where q is optimised afterwards: with 200 evaluations, 'bq' on the eight schools, whose mode is no
        typical point, has an sd of .26 where the climb ends there and of 1.2 where it continues; on a
        regression there is no difference. The measure of quadrature is not optimised, and its climb
        continues (:data:`AT_THE_MODE`).
    first_step : the first step for a curvature, in half widths of the first box: where that box is the
        posterior's, the log joint falls by half a nat over such a step.
    low, high : the least and the largest fall of the log joint, in nats, over a step whose curvature is used.
    tries : the number of steps that are tried for a curvature. shorter : the factor of the step after one
        that failed. longer : the factor after one without curvature. shortest : the least factor in other
        cases. On the posteriors of `ClimbSettings` about half and twice these values change no box.
    beyond : the number of Sobol points besides D. boxes : the half widths of the boxes in which as many
        points more are evaluated while all have failed. Without any besides D evaluations are .8 times those
        here with gradients and .9 times from values, and errors .9 and 1.05 times; with 8 1.3 and 1.1, 1.2
        and 1.2. They are there for other modes. ``boxes`` were not studied.
    visits, visits_beside : a climb with gradients visits at most 3 D + 15 points. With 2 D and with 6 D, and
        with 8 and 30 in the place of 15, no box differs.
    share, margin : a climb is begun from a point that exceeds Laplace's quadratic by more than this share of
        its depth and these nats, as in VBMC's exploration.
    relevant : the nats below the mode, beyond D / 2, up to which another mode is included in the box.
    climbs : the number of climbs after the first.
    elsewhere : the nats below Laplace's evidence from which mass outside of the box counts.
    flat : the curvature, per squared half width of the first box, below which the log joint counts as flat.
        longest : the largest step for a curvature, in half widths of the first box. With 1e-11, 1e-5,
        and 100 no box differs.
    of_budget : the share of the budget that a search may use. each : the search uses at most this number of
        evaluations times D + 2.
    """

    reach: float = 2.5
    gain: float = 0.1
    gain_of_values: float = 0.5
    past_overshoots: bool = False
    first_step: float = 0.5
    low: float = 0.05
    high: float = 4.0
    tries: int = 4
    shorter: float = 0.2
    longer: float = 4.0
    shortest: float = 0.01
    beyond: int = 3
    boxes: tuple[float, ...] = (0.3, 3.0, 1.0)
    visits: int = 3
    visits_beside: int = 15
    share: float = 0.1
    margin: float = 3.0
    relevant: float = 7.0
    climbs: int = 2
    elsewhere: float = 3.0
    flat: float = 1e-8
    longest: float = 1e3
    of_budget: float = 0.4
    each: int = 15

    def most(self, budget: int | None, dimension: int) -> int:
        """The largest number of evaluations of a search within ``budget``; None for no limit."""
        usual = self.each * (dimension + 2)
        return usual if budget is None else min(usual, int(self.of_budget * budget))


@dataclass(frozen=True)
class IntervalSettings:
    """The defaults of plausible intervals (:mod:`bounds`, :mod:`target_model`); not studied."""

    margin: float = 0.01
    """The distance by which a plausible bound is moved off the hard bound that it lies on, in widths."""
    inner: float = 0.1
    """The share at either end by which the default plausible interval is shorter than a bounded interval."""
    reach: float = 2.0
    """The default half width of a plausible box: Stan itself starts within 2 of 0."""


@dataclass(frozen=True)
class DensitySettings:
    """The test whether a log joint returns the density itself (:mod:`logarithm`)."""

    least: int = 4
    """The least number of values that are tested; not studied."""
    small: float = 0.01
    """The share of the largest value below which a value counts as small; not studied."""
    share: float = 0.25
    """The share of small values from which the values are taken to be a density's. It is reached by none of
    210 first designs of VBMC on 21 problems of the studies and by 1 of 20,000 quadratics with random
    constants, and by the exponentials of 205 of those 210 designs."""


@dataclass(frozen=True)
class SelectionSettings:
    """The choice of the evaluations that a run begins with (:mod:`selection`)."""

    rows: int = 500
    """The largest number of rows; not studied, like all but ``tempering``."""
    numbers: int = 1500
    """The largest number of values and derivatives together."""
    failed: float = 0.1
    """The largest share of failed rows among those chosen."""
    tempering: float = 1.0
    """The constant c of the tempering, chosen from 1 and 2 on a Student t with D = 5 and 10,000 rows."""
    shallow: float = 2.0
    """The largest depth, in units of D nats, of the rows whose moments define the units."""
    fewest: int = 10
    """The least number of rows, for each dimension, whose moments are taken."""
    lengthscale: float = 1.0
    """The lengthscale of the kernel, in units of sqrt(D)."""
    jitter: float = 1e-6
    """The variance added to that of each row, and to those of standardised coordinates."""
    held_out: int = 200
    """The largest number of rows that are held out."""


@dataclass(frozen=True)
class RoundingSettings:
    """The rounding of the log joint of another package's model (:mod:`rounded`)."""

    digits: int = 34
    """The number of binary digits that are kept. The values of PyMC, NumPyro and Stan on the eight schools
    differ from the 49th digit on. Not studied."""


CHECK, CLIMB, PLAUSIBLE = GradientCheckSettings(), ClimbSettings(), PlausibleSearch()
INTERVALS, DENSITY, SELECTION = IntervalSettings(), DensitySettings(), SelectionSettings()
ROUNDING = RoundingSettings()
AT_THE_MODE = PlausibleSearch(past_overshoots=True)
