"""Constants of the calls that decide results: what each is, and what it was chosen on.

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
    """A climb of the log joint (:mod:`climb`); not studied."""

    worst: float = 1e10
    """Objective at a point where the log joint failed, nats."""
    first_radius: float = 0.25
    """First radius of COBYQA's trust region, an eighth of the plausible box [-1, 1]^D."""
    most_of_values: tuple[int, int] = (8, 10)
    """A climb from values alone visits 8 D + 10 points at most."""
    patience: int = 1
    """Number of points that, if they gain little, end a climb with gradients."""
    least: int = 2
    """Number of points before that criterion is applied."""
    patience_of_values: tuple[int, int] = (1, 2)
    """D + 2 points that gain little end a climb from values alone; COBYQA's model has 2 D + 1 points."""
    least_of_values: tuple[int, int] = (2, 2)
    """2 D + 2 points are visited before that criterion is applied."""


@dataclass(frozen=True)
class GradientCheckSettings:
    """Whether given gradients are those of the values (:mod:`gradient_check`)."""

    fewest: int = 6
    """Least number of pairs of which a median is taken; with fewer a single rough place could decide it."""
    consistent: float = 0.9
    """Share of the pairs whose difference lies between the slopes. It was .98 to 1 for the right gradients of
    funnels, both forms of eight schools, a Rosenbrock function and a logistic regression, and .1 to .7 with a
    wrong sign."""
    chance: float = 1e-5
    """Probability of stopping a run whose gradient is right, were each pair consistent independently with
    probability ``consistent``."""
    large: float = 0.1
    """Nats: smaller differences do not count towards stopping a run, as they may be errors of a solver; not
    studied, like the constants that follow."""
    large_share: float = 0.05
    """The same for a function that is no log density, as a share of the range of its values."""
    every: int = 8
    """Number of evaluations from which gradients are checked."""
    last: int = 72
    """Number of evaluations up to which gradients are checked."""
    disagrees: float = 0.3
    """Median relative disagreement of gradients and differences above which a warning is given."""
    one_multiple: float = 0.2
    """Ratios whose interquartile range is below this share of their median count as one number."""
    rounding: float = 1e-6
    """Differences below this share of the largest value, or of one, count as rounding."""
    sign: float = 0.1
    """A multiple within this distance of -1 is reported as a wrong sign."""


@dataclass(frozen=True)
class PlausibleSearch:
    """Settings, chosen on Gaussians (scales 1 to 1000, correlated) and funnels of 2 to 6 dimensions.

    Attributes
    ----------
    reach : half the box's width, in Laplace's standard deviations.
    gain, gain_of_values : nats that a climb has to gain in its latest steps to go on, with gradients and
        without.
    past_overshoots : whether a climb with gradients goes on after a point that gains little. A q that moves
        need not: with 200 evaluations 'bq' has on the eight schools, whose mode is no typical point, an sd of
        .26 where the climb ends there, and of 1.2 where it goes on, and on a regression the same either way.
        Quadrature's measure stays where it is (:data:`AT_THE_MODE`).
    first_step : for a curvature, in half widths of the first box: where that box is the posterior's, the log
        joint falls by half a nat.
    low, high : nats that the log joint has to fall by over the step from which a curvature is taken.
    tries : of steps for it. shorter : factor of the step after one that failed, longer : after one without
        curvature, shortest : least factor otherwise. Not studied.
    beyond : Sobol points looked at, besides D. boxes : half widths of those in which as many more are looked
        at while all have failed. Not studied.
    visits, visits_beside : a climb with gradients visits at most 3 D + 15 points. Not studied.
    share, margin : a point is explained where it exceeds Laplace's quadratic by less than this share of its
        depth and these nats, as in VBMC's exploration.
    relevant : nats below the mode, beyond D / 2, of a mode that could matter.
    climbs : beside the first.
    elsewhere : nats below Laplace's evidence from which mass beside it counts.
    flat : curvature, per squared half width of the first box, below which there is none. longest : step for
        a curvature, in half widths of the first box. Neither was studied.
    of_budget : share of the budget that a search may take. each : evaluations for each dimension and two
        more, which it takes at most.
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
        """Evaluations of a search within ``budget``; None: no limit."""
        usual = self.each * (dimension + 2)
        return usual if budget is None else min(usual, int(self.of_budget * budget))


@dataclass(frozen=True)
class IntervalSettings:
    """Plausible intervals that are not given (:mod:`bounds`, :mod:`target_model`); not studied."""

    margin: float = 0.01
    """How far a plausible bound is moved off the hard bound that it lies on, in widths."""
    inner: float = 0.1
    """A bounded parameter without plausible bounds has all of its interval but this share at either end."""
    reach: float = 2.0
    """Half the width of a plausible box of which nothing is known: Stan itself starts within 2 of 0."""


@dataclass(frozen=True)
class DensitySettings:
    """Whether a log joint returns the density itself (:mod:`logarithm`)."""

    least: int = 4
    """Least number of values that are judged; not studied."""
    small: float = 0.01
    """Share of the largest value, below which a value is small beside it; not studied."""
    share: float = 0.25
    """Share of small values from which all are taken for a density's. None of 210 first designs of VBMC on 21
    problems of the studies has as many, and 1 of 20,000 quadratics with random constants; of the exponentials
    of those 210 designs 205 do."""


@dataclass(frozen=True)
class SelectionSettings:
    """How many of the evaluations made before a run begins it, and which (:mod:`selection`)."""

    rows: int = 500
    """The most rows; not studied, like all but ``tempering``."""
    numbers: int = 1500
    """The most values and derivatives together."""
    failed: float = 0.1
    """Largest share of failed rows among those taken."""
    tempering: float = 1.0
    """c, chosen of 1 and 2 on a Student t with D = 5 and 10,000 rows."""
    shallow: float = 2.0
    """Depth, in units of D nats, of the rows whose moments give the units."""
    fewest: int = 10
    """The moments are taken of at least this many rows for each dimension."""
    lengthscale: float = 1.0
    """Lengthscale of the kernel, in units of sqrt(D)."""
    jitter: float = 1e-6
    """Variance added to each row's, and to those of standardised coordinates."""
    held_out: int = 200
    """The most rows to hold out."""


@dataclass(frozen=True)
class RoundingSettings:
    """The log joint of a model of another package (:mod:`rounded`)."""

    digits: int = 34
    """Binary digits that are kept: the values of PyMC, NumPyro and Stan on the eight schools differ in the
    49th and later ones. Not studied."""


CHECK, CLIMB, PLAUSIBLE = GradientCheckSettings(), ClimbSettings(), PlausibleSearch()
INTERVALS, DENSITY, SELECTION = IntervalSettings(), DensitySettings(), SelectionSettings()
ROUNDING = RoundingSettings()
AT_THE_MODE = PlausibleSearch(past_overshoots=True)
