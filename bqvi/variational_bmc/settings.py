"""Constants of VBMC that affect results; those that a caller may change are in `state.Settings`.

They stand in the order in which a step uses them: the data of a surrogate, its hyperparameters and a cheap
model; axes and scales; components of q, new starts and modes; importance weights; the next points,
feasible points and exploration; convergence. The studies behind them are rows of
`experiments/studies/bqvi.variational_bmc.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gp.search import Search


@dataclass(frozen=True)
class ShapingSettings:
    """The data of a surrogate (`surrogate`, `frame_selection`)."""

    rounding: float = 1e-11
    """The fraction of the prior variance at the origin that is added as noise; exact values have no other."""
    noise_beside_gradients: float = 1e-6
    """The noise variance of values and slopes where there are gradients, nats squared."""
    deep: float = 10.0
    """The first threshold, in nats below the best value for each dimension."""
    deepest: float = 1000.0
    """The largest threshold in nats, for any dimension."""


@dataclass(frozen=True)
class FittingSettings:
    """Hyperparameters (`surrogate`, `frame_selection`, `correction`)."""

    enough: int = 200
    """The number of observations to which hyperparameters are fitted where there are gradients."""
    top_variance: float = 100.0
    """The prior variance of f at the origin of the frame."""
    first_iterations: int = 6
    """The number of iterations after which a candidate that is behind the best (`EngineSettings.behind`) is
    not fitted any further."""
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
    cheap_scale: float = 0.5
    """The prior sd of the scale of a cheap model, whose prior mean is 1."""


@dataclass(frozen=True)
class FrameSettings:
    """Units and axes (`frame`)."""

    correlated: float = 6.0
    """The condition number of the correlations below which axes are not rotated."""


@dataclass(frozen=True)
class ScalingSettings:
    """Scales that depend on a coordinate (`scaling`, `frame_selection`, `learning`)."""

    change: float = 0.35
    """The change of the logarithms of the scales over a standard deviation of the leading coordinate, at
    which leading coordinates are compared."""
    steepest: float = 3.0
    """The largest change of these logarithms."""
    often: float = 1.4
    """The growth of the evaluations after which another map is tried."""
    unlike: float = 0.1
    """The change of the logarithm of a scale, as sd over draws, from which a further map is tried at once."""


@dataclass(frozen=True)
class ComponentSettings:
    """Components of q (`variational`, `correction`, `learning`)."""

    shallow: float = 7.0
    """The largest depth of a point that q must cover, or of a mode, in nats below the top beyond D / 2."""
    unseen: float = 4.0
    """The least excess of the density at such a point over that at the draws, in nats."""
    longer: float = 1.5
    """The largest number of components, over n^(2/3), where evaluations show that q lacks mass."""
    represented: float = 0.3
    """The effective share of the draws in the last record above which its q represents the posterior, and the
    end of an ascent whose ELBO is far below the log evidence is compared with its start."""
    added: int = 3
    """The largest number of components that a step adds."""
    added_with_gradients: int = 1
    """The same where evaluations show that q lacks mass and there are gradients."""


@dataclass(frozen=True)
class RestartSettings:
    """New starts of q (`learning`, `learning`)."""

    least_effective: float = 20.0
    """The least number of effective draws, below which q starts again."""
    kept_effective: float = 0.02
    """The effective share of the draws in the last record above which q is kept for a further step: new
    components of q lower the share for a step, and would be lost in a new start."""
    widening: float = 1.3
    """The standard deviations of the proposal over those of the Gaussian."""
    flattest: float = 1e-2
    """The curvature of the mean below which it counts as having no maximum."""

    @property
    def ascent(self) -> Search:
        """The settings of the search for the mode."""
        return Search(iterations=12, halvings=8, longest=inf, settled=1e-9, gained=1e-3)


@dataclass(frozen=True)
class WeightSettings:
    """Importance weights, and the estimates from them (`correction`)."""

    covered: float = 0.9
    """The effective share of draws above which no shape of their weights' tail prevents convergence."""
    corrected: float = 100.0
    """The number of effective draws from which the posterior is corrected by its weights."""
    blended: float = 200.0
    """The number of effective draws below which the posterior's moments are blended with those of q."""


@dataclass(frozen=True)
class PooledSettings:
    """Draws beyond those of q (`correction`)."""

    wider: float = 4.0
    """The factor of q's scales."""
    places: int = 64
    """The number of points at each of which the second proposal has a Gaussian, chosen by the usual power of
    the density (`NodeSettings.tempers`)."""
    known: float = 10.0
    """The largest standard deviation of f, in nats, at a draw that is kept."""


@dataclass(frozen=True)
class NodeSettings:
    """The choice of the next points (`next_points`)."""

    targets: int = 160
    """The number of draws by which the criterion is integrated."""
    most: float = 20.0
    """The largest standard deviation of f in the interquantile range, in nats."""
    tempers: tuple[float, float] = (0.4, 0.75)
    """The lower bounds of the least and the usual power of the density in the integral of the criterion."""
    deeper: tuple[float, float] = (2.0, 0.75)
    """The largest excess depth of draws of a tempered density over those of the posterior, in sds of the
    depth, under the least and the usual power (`next_points`)."""
    uncertain: float = 0.01
    """The share of the mass at the edge of the feasible region from which a step has an evaluation there."""
    known: float = 0.01
    """The variance of f, nats squared, below which another evaluation is of little use."""


@dataclass(frozen=True)
class FeasibilitySettings:
    """The probability that a point can be evaluated (`frame`)."""

    sharpness: float = 6.0
    """The factor a of the logit (:mod:`bqvi.variational_bmc.frame`)."""
    alone: float = 0.7
    """The largest ratio of the distances of an isolated failure to the nearest good and the nearest failed
    evaluation."""
    most_draws: float = 64.0
    """The largest number of draws for one between the bounds."""


@dataclass(frozen=True)
class ExplorationSettings:
    """Sobol points and climbs before convergence (`exploration`).

    Attributes
    ----------
    points : half of what is left of the budget may be explored, and this many points.
    share, margin : a value is explained where it exceeds the known modes' density by less than this share of
        its depth and these nats.
    without_mode : the number of climbs without a mode, one more for each known mode beyond the first, after
        which no further climb is begun, for each ``points`` points; points from which no climb was begun
        count like those from which one was.
    longest : the largest length of the first step of a climb, and of twice its first radius from values.
    most_with_gradients : the largest number of points of a climb with gradients.
    late : with half of the budget spent a run explores ``late`` points although it is not about to converge,
        if its sd but for unseen modes is below what these may add and the sd of the noise of a value. Modes
        that are known too badly explain few points, and climbs would use all that is left.
    """

    points: int = 24
    share: float = 0.1
    margin: float = 3.0
    without_mode: int = 3
    longest: float = 1.0
    most_with_gradients: int = 15
    late: int = 7

    def climbs(self, modes: int, points: int) -> int:
        """The number of climbs without a mode, from this number of explored ``points``."""
        return self.without_mode * max(points // self.points, 1) + modes - 1


@dataclass(frozen=True)
class PredictionSettings:
    """Errors of the surrogate's predictions (`state`)."""

    remembered: int = 30
    """The number of latest predictions that count."""
    largest_error: float = 25.0
    """The largest squared standardised error that a prediction counts as."""


@dataclass(frozen=True)
class ComparisonSettings:
    """Draws of the posterior that are evaluated before convergence (`stopping`), and the next test."""

    draws: int = 5
    """The number of draws of a posterior with one mode."""
    draws_each: int = 3
    """The number of draws in each of several modes."""
    total_variation: float = 0.1
    """The share of the mass that may differ, or the tolerance where that is larger."""


@dataclass(frozen=True)
class ConvergenceSettings:
    """The conditions of convergence (`stopping`)."""

    steady: int = 3
    """The number of latest records on which the conditions are tested."""
    divergence: float = 0.03
    """The largest divergence between successive posteriors, in nats, beyond that expected from draws."""
    effective: float = 0.1
    """The least effective share of the draws."""
    unseen: float = 0.1
    """The largest number of nats that unseen modes may be expected to add."""
    again: float = 1.1
    """The growth of the evaluations after which what is made before a claim (a thorough estimate, another map
    of scales, a test) is made again."""


@dataclass(frozen=True)
class UndeclaredNoiseSettings:
    """The test whether values that were declared exact are noisy (`stopping`)."""

    at: float = 1.0 / 3.0
    """The share of the budget that is spent when it may be made, unless the run is about to converge
    before."""
    excluded: float = -5.0
    """The gain of evidence by a noise, in nats, below which it is not made."""


SHAPING = ShapingSettings()
FITTING = FittingSettings()
FRAMES = FrameSettings()
SCALINGS = ScalingSettings()
COMPONENTS = ComponentSettings()
RESTARTS = RestartSettings()
WEIGHTS = WeightSettings()
POOLED = PooledSettings()
NODES = NodeSettings()
FEASIBILITY = FeasibilitySettings()
EXPLORATION = ExplorationSettings()
PREDICTIONS = PredictionSettings()
COMPARISON = ComparisonSettings()
CONVERGENCE = ConvergenceSettings()
NOISE = UndeclaredNoiseSettings()
