"""Constants of VBMC that decide results: what each is, and what it was chosen on.

Unless it says otherwise, a constant was chosen when VBMC was built, on Rosenbrock, cigar and lumpy targets of
2 to 6 dimensions and the bounded banana (`experiments.problems.known_posteriors`) at 40 to 160 evaluations,
by the error of the log evidence, gsKL and time, a few seeds each; no study of it was kept. What a
caller may change stands in `state.Settings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gp.search import Search

__all__ = [
    "CHEAP", "CLIMBING", "CLOCK", "COMPARISON", "COMPONENTS", "CONVERGENCE", "DIAGNOSTICS", "EXPLORATION",
    "FEASIBILITY", "FITTING", "FRAMES", "FRESH_START", "GRADIENT_SCALINGS", "MODES", "NODES", "PREDICTIONS",
    "REACH", "RESTARTS", "SCALINGS", "SHAPING", "TRUST", "WEIGHTS",
]  # fmt: skip


@dataclass(frozen=True)
class ShapingSettings:
    """The data of a surrogate (`surrogate`, `frame_selection`)."""

    least_noise: float = 1e-6
    """Variance of an exact value, nats squared."""
    rounding: float = 1e-9
    """That fraction of the largest prior variance is noise. With 1e-11 variances of f on a thin ring, where
    the prior variance is 1e6, were known to .004 to .6 nats squared, and the acquisition followed the
    rounding; with 1e-9 to 1e-7. 42 unimodal runs (seeds 60 to 62) did not change by it."""
    rounding_with_gradients: float = 1e-11
    """The same. Gradients are taken for noisy too: on Rosenbrock 2 with 20 of them (12 seeds) errors of ln Z
    were .0048 by root mean square with 1e-11, .0105 with 1e-9."""
    steep: float = 0.1
    """Sd of a value beyond the threshold r, over r log(depth / r) (Acerbi 2020)."""
    unknown: float = 1e12
    """Noise of a derivative that could not be computed."""
    deep: float = 10.0
    """Nats below the best, for each dimension, to which values are left as they are at first. Deeper values
    are not used to locate the posterior."""
    deepest: float = 1000.0
    """Bound on this depth in nats, whatever the dimension."""
    shallowest: float = 15.0
    """Nats beyond D / 2, the mean depth of a Gaussian's draws, to which values are never changed."""
    slope_noise: float = 1e-8
    """Variance of an exact derivative, over its square; not compared, like the next."""
    nothing: float = 0.1
    """A variance of f below this many times ``least_noise`` counts as zero."""


@dataclass(frozen=True)
class FittingSettings:
    """Hyperparameters (`surrogate`, `frame_selection`, `hyperuncertainty`, `undeclared_noise`)."""

    enough: int = 200
    """Observations that hyperparameters are fitted to where there are gradients."""
    fewest: int = 10
    """Points, at least, whose gradients are among these observations."""
    top_variance: float = 100.0
    """Prior variance of f where the frame has its origin."""
    gain: float = 1e-3
    """Nats of evidence that a step of a fit has to gain for it to go on."""
    gain_with_gradients: float = 1e-2
    """The same where a step takes long. On logistic 5, cigar 4 and Rosenbrock 4, two seeds each, 1e-3 and
    1e-2 ended at the same errors (.0002 to .026 and .0002 to .013), the second in .85 of the time."""
    glance: int = 6
    """Iterations after which a candidate that is ``behind`` the best is not fitted any further. With
    ``gain_with_gradients``: .70 to .77 of the time on logistic 5 and cigar 4, the same number of evaluations
    and errors within seed noise (seeds 2 and 3)."""
    behind: float = 10.0
    """Nats of evidence by which such a candidate is worse than the best."""
    many: int = 100
    """Observations from which hyperparameters are fitted only when evaluations have grown by ``often``."""
    often: float = 1.08
    """Factor by which the evaluations have to grow for that."""
    sets: int = 8
    """Draws of the hyperparameters, for the standard deviation of the evidence due to them."""
    set_draws: int = 512
    """Draws of the posterior on which they are compared."""
    furthest: float = 2.0
    """Standard deviations from their mean to which hyperparameters are drawn."""
    noise_gain: float = 0.35
    """Nats of evidence for each evaluation from which values that were said to be exact count as noisy
    (`undeclared_noise`), and ``least_noise_gain`` nats in all. Noise of sd .1 to 1 on Rosenbrock 2 gained .48
    to 1.3 with 49 to 120 evaluations, the exact funnel (D = 5) and clusters of twenty Gaussians .10 to .22
    with 80 to 220, six exact targets lost."""
    least_noise_gain: float = 20.0
    noise_share: float = 0.65
    """And only where the quarter of the values with the closest neighbours is missed by that share of the
    noise, by the median of leave-one-out residuals. It was .75 to 4.5 in 21 of 23 data sets with noise of
    sd .1 to 1 on Rosenbrock in D = 2 and 4 that had gained enough, .11 to .55 on nine exact layouts of
    clusters. In 20 other layouts (2000 to 2019) three had gained enough, and none was called noisy."""
    first_noise: float = 0.1
    """Variance at which the search for such noise begins, nats squared."""
    lengthscale: tuple[float, float] = (2.0, 1.0)
    """Median of the prior of a lengthscale, and its sd on the scale of logarithms; of this prior and the next
    four no comparison was kept."""
    interaction: tuple[float, float] = (1.0, 1.5)
    """The same of the weight of interactions,"""
    variance: tuple[float, float] = (10.0, 4.0)
    """of the variance,"""
    quadratic: tuple[float, float] = (0.5, 4.0)
    """of the quadratic trend,"""
    noise: tuple[float, float] = (0.3, 2.0)
    """and of the noise, where it is fitted."""
    iterations: int = 40
    """Iterations of a fit, at most; not compared, like the next two."""
    longest: float = 2.0
    """Length of a step of a fit, in logarithms of hyperparameters, at most."""
    jitters: tuple[float, ...] = (0.0, 1e-9, 1e-7, 1e-5)
    """Fractions of the prior variances that are added, in turn, until the covariance has a factor."""


@dataclass(frozen=True)
class CheapSettings:
    """A cheap approximate model (`surrogate`, `cheap_first`)."""

    scale_sd: float = 0.5
    """Prior standard deviation of its scale, whose prior mean is 1."""
    iterations: int = 6
    """Iterations of the fit of the hyperparameters in a frame that is new to the cheap model."""
    beyond: int = 3
    """Evaluations of the first design of the log joint beyond D."""
    seconds: float = 0.5
    """Share of ``max_seconds`` that the run on the cheap model may take."""


@dataclass(frozen=True)
class FrameSettings:
    """Units and axes (`frame`).

    ``lost`` was chosen on correlated Gaussians of 20 dimensions, layouts 3000, 6000 and 6001, whose condition
    numbers are 14 to 15, where a Gaussian without correlations is 2.4 nats off.
    """

    correlated: float = 6.0
    """Condition number of the correlations below which the axes stay."""
    lost: float = 2.0
    """Nats by which a Gaussian without correlations differs, beyond which a run with gradients begins in
    turned axes."""
    thin: float = 50.0
    """The same, beyond which they are turned."""
    plausible: float = 0.25
    """Variance of the plausible box, two standard deviations to either side."""
    least_correlation: float = 1e-12
    """Eigenvalue of the correlations, at least; not compared, like the constants that follow."""
    pieces: int = 7
    """Parts of a component along a coordinate in which scales change,"""
    between: float = 0.8
    """and the share of its variance there that is between them."""
    elite: tuple[int, int] = (2, 2)
    """2 D + 2 evaluated points locate the posterior where nothing better is known,"""
    elite_effective: float = 0.5
    """of which that share carries the weight;"""
    elite_rounder: float = 0.05
    """the share of their mean variance that is added to every direction,"""
    elite_least: float = 1e-10
    """a variance that is added besides,"""
    elite_shallow: float = 1e-6
    """and their mean depth in nats, at least."""


@dataclass(frozen=True)
class ScalingSettings:
    """Scales that depend on a coordinate (`scaling`, `learning`).

    Chosen on the funnel (D = 5) from values, in boxes 300 to 302 of `experiments.vbmc.hard`, and on exact
    draws of funnel, centred schools and five other posteriors. After 185 to 246 evaluations the errors of
    ln Z were 0, 0 and -.006 with sds of .02 (with constant scales -.72, with a stated sd of .04, in the first
    box); in four boxes not chosen on, 1000 to 1003, 0, -.002, -.018 and -.004.
    """

    least_gain: float = 0.03
    """Nats a draw by which a variance that depends on another coordinate has to explain one better."""
    together: float = 0.3
    """The same, of all coordinates that one leads: less is not worth the evidences of other maps (the centred
    schools have .5, clusters in the plane less)."""
    beside: float = 0.25
    """The gain of one, as a share of the largest such gain by the same leading coordinate."""
    steepest: float = 2.0
    """Logarithm by which scales grow over a standard deviation of the leading coordinate, at most."""
    rounds: int = 6
    """Rounds of weighted least squares."""
    draws: int = 512
    """Draws of the posterior to which the map is fitted."""
    effective: float = 0.05
    """Effective share of these draws, at least."""
    further: float = 1.4
    """Factor of the rates that is tried too: from draws of a posterior that lacks its tails they are too
    small."""
    gain: float = 2.0
    """Nats of evidence, for each dimension, from which another map is taken."""
    often: float = 1.4
    """Growth of the evaluations after which one is looked for again."""
    before_convergence: float = 1.1
    """The same in a run that may soon converge: without it two funnels in five dimensions, boxes 2000 and
    3000, converged with the log evidence .18 and .11 too low."""
    least_spread: float = 1e-9
    """Share of the variances of the draws that is added to them."""
    unlike: float = 0.1
    """At once where the one that was taken changed the logarithm of a scale by as much, as sd over draws."""
    newton: int = 4
    """Newton steps of a scale's logarithm in each round; not compared, like the constants that follow."""
    longest: float = 0.5
    """Of such a step, at most."""
    ridge: float = 1e-6
    """Added to the diagonals of both regressions, for each draw."""
    least_square: float = 1e-12
    """Added to squared residuals of standardised coordinates."""
    cut: float = 30.0
    """Logarithm of a scale, at most."""


@dataclass(frozen=True)
class GradientScalingSettings:
    """The same, from gradients at evaluated points (`gradient_scaling`).

    Chosen on the points of the first climb on funnels (D = 5 and 8) and the centred eight schools, in three
    boxes each, and on runs on 17 posteriors with other shapes, in two boxes each, of 5 to 61 evaluations.
    """

    rates: int = 24
    """Rates of each sign that are compared at first."""
    refined: int = 6
    """Times that the best is refined, each to a fifth of the step before."""
    least_rate: float = 0.2
    """Logarithm by which scales grow over a standard deviation of the points, at least: at tiny rates the
    difference of the regression's two terms is bilinear in x_j and x_k, like the gradient of Rosenbrock 4."""
    steepest: float = 8.0
    """The same, at most."""
    rounds: int = 4
    """Of reweighted least squares."""
    ridge: float = 1e-20
    """Of it: with 1e-8, and 24 rates, slopes of the schools were off by 3e-4, with this by 6e-6."""
    spare: int = 2
    """Points beyond 2 D, at least."""
    range: float = 2.0
    """Logarithm by which the scales of each coordinate grow over the points, at least. It was 4.7 to 12 on
    the first climbs on funnels and schools (boxes 23000 to 23005 of `experiments.vbmc.hard`)."""
    floor: float = 1e-3
    """Of the mean squared residual."""
    beside: float = 0.25
    """The gain of a coordinate, as a share of the largest by the same leading coordinate, to be scaled at
    first."""
    each: float = 2.5
    """Nats of misfit by which the map is better than none, for each coordinate that is scaled. It was 3.0 to
    3.8 on the first climbs on funnels and schools in boxes 23000 to 23005 (2.5 in one case). Where several
    modes have points, gradients become affine by a step between them: it was 1.6 to 2.5 on three Gaussians in
    D = 4 and 6, layouts 0 to 19 and 23000 to 23005; on other posteriors .84 at most."""
    at_first: float = 0.3
    """The same, of the first set of coordinates, for others to be tried: .6 to 3 on funnels and schools."""
    better: float = 0.1
    """Nats of misfit by which another map, or one with a coordinate more or less, is better."""
    affine: float = 0.2
    """Mean squared residual below which the gradient of a coordinate counts as affine in it."""
    deepest: float = 1000.0
    """Nats below the top, for each dimension, of points that are used."""
    beyond: int = 30
    """Points beyond 2 D, at most."""


@dataclass(frozen=True)
class WeightSettings:
    """Importance weights, and what follows from them (`correction`, `moments`)."""

    wide: float = 0.25
    """Share of the proposal that is q widened."""
    widening: float = 1.7
    """Factor by which its scales are widened."""
    resampled: int = 256
    """Draws at which the covariance of f is computed."""
    rounds: int = 4
    """Rounds of population Monte Carlo."""
    tail: float = 10.0
    """Nats below the top, beyond D / 2, to which evaluated points are a tail."""
    lacking: float = 2.0
    """Nats that q lacks there, for a component of the proposal beside it."""
    beside: int = 8
    """Such components at most."""
    longer: float = 3.0
    """Scales of their second copies over those of q's component."""
    covered: float = 0.9
    """Effective share of the draws above which the proposal is not adapted any further."""
    best_known: float = 0.05
    """Share of the draws that are known best: the level of the variance that counts is theirs."""
    whole: float = 2.0
    """Scale of the Gaussian with the moments of all of q: thin curved tails lie along it, not along any
    component."""
    trusted: float = 200.0
    """Effective draws below which the posterior's moments are blended with those of q."""
    first_draws: int = 512
    """Draws from which it is found what q and its proposal lack; not compared, like the constants that
    follow."""
    first_wide: float = 0.4
    """Share of the first proposal of the thorough estimate that is q widened,"""
    first_whole: float = 0.05
    """and that is the Gaussian with the moments of all of q."""
    first_beside: float = 0.1
    """Share of the components beside q, where there are any."""
    renewed: float = 0.1
    """Share of an adapted proposal that is the wide one, so that it never ends where draws did:"""
    renewed_wide: tuple[float, float] = (0.5, 2.0)
    """q, with this share widened by this factor,"""
    renewed_whole: float = 0.3
    """the share of the Gaussian with the moments of all of q,"""
    renewed_beside: float = 0.3
    """and that of the components beside q."""
    round_draws: int = 4
    """A round has the draws of the estimate over this number."""
    least_round: float = 10.0
    """Effective draws of a round for each dimension, below which the proposal is not adapted any further."""


@dataclass(frozen=True)
class LocalSettings:
    """Gaussians at evaluated points that a proposal lacks (`local_proposal`).

    Chosen on the ring in boxes 2000 to 2002 of `experiments.vbmc.hard`, and on five unimodal targets, where
    at most four were lacking, after 6 to 49 evaluations.
    """

    shallow: float = 7.0
    """Depth of such a point below the top, in nats beyond D / 2, at most."""
    lacking: float = 1.0
    """Nats by which its density exceeds the proposal's."""
    apart: float = 1.0
    """Squared distance of such Gaussians from each other, in their standard deviations, at least."""
    least: int = 6
    """Gaussians that have to be found for there to be a proposal."""
    most: int = 60
    """Gaussians of a proposal, at most."""
    mass: float = 0.1
    """Mass of all of them, as a share of the evidence, for there to be a proposal; and mass that q lacks, at
    most, for q to cover the posterior."""
    uncovered: float = 2.0
    """Nats by which the posterior's density exceeds the proposal's where q lacks it. There was .25 of the
    mass of a ring, at most .07 of two shells, Rosenbrock-Gaussian 6 and tilted 20, whose evidences were
    right."""
    share: float = 0.7
    """Their share of the first proposal of the thorough estimate."""
    shortest: int = -8
    """Lengths are powers of two from this one to 2^0, in the frame's units; not compared, like the next."""
    fall: float = 0.5
    """Nats by which the density has to fall over a length."""
    bend: tuple[float, float] = (1.0, 4.0)
    """Twice the fall that counts as a parabola's: one of more than two nats is that of a bend."""


@dataclass(frozen=True)
class NodeSettings:
    """Where to evaluate next (`next_points`, `steps`)."""

    targets: int = 160
    """Draws that stand for the integral of the criterion."""
    candidates: int = 256
    """Draws that may be evaluated."""
    most: float = 20.0
    """Interquantile standard deviations are bounded by this, nats."""
    tempers: tuple[float, float] = (0.4, 0.75)
    """Least and usual power of the density under which the criterion is integrated, at least."""
    deeper: tuple[float, float] = (2.0, 0.75)
    """Sds of the depth by which the points of a tempered density may be deeper than draws of the posterior,
    under the least and the usual power (`next_points`). The powers are larger than ``tempers`` beyond 3 and
    10 dimensions. Chosen on tilted 20 with gradients, boxes 8001, 8002 and 9500: at the powers .4 and .75
    evaluations were 30 to 50 nats deep, draws 10, and runs took 119 to 152 evaluations; with these 102 to
    124."""
    uncertain: float = 0.01
    """Share of the mass at the edge of the feasible region from which on it gets an evaluation a step."""
    known: float = 0.01
    """Variance of f, nats squared, where another evaluation is of little use."""
    determined: float = 1e-6
    """Share of its variance, given the pending points, below which a value counts as determined: the rest is
    rounding."""
    quantile: float = 0.6744897501960817
    """The standard normal's quantile of .75: the range is that between quartiles, as in Acerbi (2020)."""
    widest: float = 50.0
    """Half of the range in nats, at most, for its hyperbolic sine not to overflow."""
    least_variance: float = 1e-12
    """Variance of f at a target, nats squared, at least: it is divided by."""


@dataclass(frozen=True)
class ComponentSettings:
    """Components of q (`variational`, `learning`)."""

    lowest_logit: float = -9.0
    """Logit of a weight, at least."""
    smallest: float = 5e-3
    """Scale of a component in the frame's units, at least."""
    largest: float = 4.0
    """Scale of a component in the frame's units, at most."""
    shallow: float = 7.0
    """Nats below the top, beyond D / 2, of an evaluated point that q must not miss."""
    unseen: float = 4.0
    """Nats by which the density at such a point exceeds that at the draws."""
    longer: float = 1.5
    """Factor by which components may become more than n^(2/3) where the posterior goes on beyond q. On the
    ring in boxes 9810, 9811 and 9813 errors after 400 evaluations were .02, .07 and .64 with 1, at most .05
    with 1.5."""
    beyond_variance: float = 1.0
    """Variance of f, nats squared, at most, at points beyond q's draws where q is given components; this and
    the next three were not studied."""
    lacking: float = 2.0
    """Nats by which the surrogate's density exceeds that of q and q widened there."""
    lacking_at_most: float = 10.0
    """Nats beyond which all such points are alike."""
    beyond_mass: float = 0.02
    """Share of the evidence that these points have, at least, for q to be given components there."""
    lightest: float = 1e-9
    """Weight where an ascent of q begins, at least; not compared, like the constants that follow."""
    gain: float = 1e-8
    """Relative change of the ELBO at which such an ascent ends,"""
    pairs: int = 20
    """and pairs of steps and gradients that it keeps."""
    looked_at: int = 40
    """Draws looked at for each component that is added: those of the largest ratio."""
    narrower: float = 0.7
    """Scales of an added component over those of the component that explains the draw."""
    share: float = 0.5
    """Weight of an added component, over that of the average one."""
    first_places: float = 0.2
    """Distance of the first two components from the middle of the frame, along its diagonal,"""
    first_scale: float = 0.7
    """and their scale."""
    dropped: float = 0.003
    """Weight below which a component is left out after an ascent."""
    samples: int = 32
    """Points by which the entropy of a component is estimated, at least."""
    draws: int = 512
    """Draws that show what q lacks,"""
    covered: float = 0.7
    """the effective share of them above which it lacks nothing,"""
    added: int = 3
    """components that a step adds, at most,"""
    added_variance: float = 25.0
    """variance of f, nats squared, at a draw where one is added, at most,"""
    floor: float = 5.0
    """and nats below the proposal's density to which that of q counts there."""
    margins: tuple[float, float] = (0.5, 1.0)
    """Distance from the evaluated points to which means of components, and the mode, may lie, in the frame's
    units."""


@dataclass(frozen=True)
class ReachSettings:
    """Draws beyond the reach of q (`reach`).

    Chosen on the ring in boxes 9810, 9811, 9813, 9822 and 9823 of `experiments.vbmc.hard`. 42 unimodal runs
    (seeds 60 to 62) took 3,246 evaluations where they took 3,436 without such draws.
    """

    wider: float = 4.0
    """Factor of q's scales."""
    draws: int = 256
    """Draws of each of the two proposals."""
    places: int = 64
    """Points at each of which the second proposal has a Gaussian."""
    temper: float = 0.75
    """Power of the density by which these points are chosen."""
    known: float = 10.0
    """Standard deviation of f at a draw that counts, nats, at most."""
    unsure: float = 1.0
    """Standard deviation of f above which it is hardly known,"""
    feasible: float = 0.5
    """and probability that it can be evaluated there, at least, for what it leaves open to count."""
    highest: float = 50.0
    """Logarithm of a weight, at most: its exponential must not overflow."""


@dataclass(frozen=True)
class RestartSettings:
    """Where q starts again (`learning`, `annealing`, `laplace`)."""

    least_effective: float = 20.0
    """Draws that have to carry the weight."""
    carried: float = 0.02
    """Effective share of the draws in the last record above which q is kept for a further step: components
    that q was given lower the share for a step, and a q that starts again has lost all of them."""
    draws: int = 256
    """Draws of a round of annealed population Monte Carlo."""
    rounds: int = 10
    """Rounds of it, at most."""
    widening: float = 1.3
    """Standard deviations of the proposal over the Gaussian's."""
    flattest: float = 1e-2
    """Curvature of the mean below which it has no maximum to expand about."""
    tries: int = 12
    """Newton steps to that maximum, at most."""
    difference: float = 1e-3
    """Step, in the frame's units, of the differences of gradients, to either side, that give the curvature of
    the mean; not compared, like the constants that follow."""
    cooling: float = 0.7
    """Ratio of successive powers of the density that are tried,"""
    powers: int = 120
    """and how many of them."""
    carriers: tuple[float, float, float] = (0.2, 4.0, 0.5)
    """Draws that have to carry the weight: this share of all, or so many a dimension up to the last share."""
    least_correlation: float = 1e-8
    """Eigenvalue of the correlations of the adapted Gaussian, at least,"""
    rounder: float = 1e-3
    """and the share of its mean variance that is added to every direction."""

    @property
    def ascent(self) -> Search:
        """How the mode is searched for."""
        return Search(iterations=self.tries, halvings=8, longest=inf, settled=1e-9, gained=1e-3)


@dataclass(frozen=True)
class ModeSettings:
    """What is a mode (`modes`)."""

    along: int = 7
    """Points of a segment between two components at which the surrogate is asked for a dip."""
    dip: float = 1.0
    """Nats below the lower of its ends that separate two modes."""
    inside: float = 4.0
    """A point is inside a mode up to that many sds of |x|^2 under N(0, I) beyond its mean D."""
    bent: float = 0.7
    """Nats of KL(q_r || Gaussian) above which a mode's components stand for it. It was 1.8 to 1.9 on two
    rings, at most .44 on clusters and three Gaussians, .9 to 1.2 on Rosenbrock. Over 42 unimodal runs it made
    no difference; components for every mode cost .5 % more evaluations."""
    draws: int = 512
    """Draws of a mode from which the divergence is computed."""


@dataclass(frozen=True)
class FeasibilitySettings:
    """The probability that a point can be evaluated (`feasibility`)."""

    sharpness: float = 6.0
    """The factor p of the logit (:mod:`bqvi.variational_bmc.feasibility`)."""
    least: float = 1e-12
    """Distance, at least: its logarithm is taken."""
    alone: float = 0.7
    """An accident is nearer to a good evaluation than to a failed one by this factor."""
    in_hull: float = 1e-6
    """Residual of a point as a mean of others, below which it lies among them; not compared."""
    logits: tuple[float, float] = (-60.0, 69.0)
    """Bounds of minus the logit, by which probabilities stay above 0."""


@dataclass(frozen=True)
class PredictionSettings:
    """How far the surrogate's predictions were off (`state`)."""

    remembered: int = 30
    """Latest predictions that count."""
    largest_error: float = 25.0
    """Squared standardised error that each counts as, at most."""
    largest_gap: float = 20.0
    """Nats by which a draw's value exceeds its prediction (`misplaced`), at most: more would overflow."""
    untested: float = 1.0
    """Nats by which the first record may be off, before any prediction. On the centred schools with
    gradients, boxes 22000, 22001, 23000 and 23001, its ELBO exceeded the log evidence by .09 to .37, with sds
    of .02 to .13."""
    unsettled: float = 1.0
    """Divergence between successive posteriors of a run that is still looking for it."""
    covering: float = 0.05
    """Effective share of the draws of a run that has found it; not compared."""


@dataclass(frozen=True)
class ComparisonSettings:
    """Draws of the posterior that are evaluated before convergence (`comparison`).

    Chosen on three pharmacokinetic posteriors and two of an epidemic (D = 4, bent ridges in logarithms,
    errors of the log evidence -.05 to -.29 at stated sds of .04): there the estimate from five such draws
    was .08 to .17 by the median, of .04 to .07 by the tenth percentile. On logistic 5, Rosenbrock 6 and lumpy
    2, whose errors were below .012, it was .02 to .026 by the median, of .035 to .055 by the ninetieth
    percentile. Draws of the density itself separate the two less well, the power .4 about as well.

    How much is allowed was chosen on lumpy 4 and ten other unimodal targets in boxes 1 and 2; boxes 3 to 5
    were seen before as well. On lumpy 4, whose errors were below .07, it was .07 to .14 from 108 to
    193 evaluations on; with half as much allowed it took up to twice the evaluations. For four evidences in D
    = 4 and 10 that were wrong by .16 to .22 it was .13 to .28. Draws do not show tails that they do not
    reach: on a thin ridge in the plane it was below .002 where the error was -.11.
    """

    draws: int = 5
    """Of a posterior of one mode."""
    draws_each: int = 3
    """In each of several modes."""
    temper: float = 0.6
    """Power of the density that is drawn from."""
    misplaced: float = 0.1
    """Share of the mass that may be misplaced, or the tolerance where that is larger."""
    again: float = 1.1
    """Growth of the evaluations after which draws are compared again."""


@dataclass(frozen=True)
class ConvergenceSettings:
    """When a run has converged (`stopping`)."""

    steady: int = 4
    """Records of which everything is asked."""
    divergence: float = 0.03
    """Nats between successive posteriors, beside what draws leave open."""
    shape: float = 0.7
    """Pareto k."""
    effective: float = 0.1
    """Effective share of the draws."""
    uniform: float = 0.9
    """Effective share above which Pareto k is not asked."""
    unseen: float = 0.1
    """Nats that an unseen mode would add on average, at most. It was at most .03 in runs on clusters, three
    Gaussians and Himmelblau that had found all modes, and .75 or more on eggboxes of 18 modes."""
    prediction_error: float = 9.0
    """Mean squared standardised error of predictions."""
    missed: float = 0.1
    """Nats by which predictions were off, by the median, below which their standardised errors do not matter.
    On the centred eight schools with gradients, box 20003, the log evidence was right to .01 from 45
    evaluations on, and predictions were off by .1 nats or less with sds of .01; the run had not converged
    after 149, and does after 110."""
    again: float = 1.1
    """Growth of the evaluations after which a thorough estimate that disagreed is made again."""


@dataclass(frozen=True)
class TrustSettings:
    """What the result is made of (`vbmc_run`)."""

    needed: int = 2
    """Good evaluations to begin with."""
    tolerance: float = 0.05
    """Sd of the log evidence, nats, by which convergence is judged where the user gives none."""
    corrected: float = 100.0
    """Effective draws from which the posterior is corrected by its weights."""
    usable: float = 1.0
    """Pareto k above which it is not: the weights have no mean."""
    even: float = 0.5
    """Effective share of the draws above which it is all the same: none of 8192 has more than 1.1 % then."""
    located: float = 1.0
    """Sd of the log evidence, nats, below which the posterior may say where plausible intervals should be."""


@dataclass(frozen=True)
class ExplorationSettings:
    """Sobol points and climbs before convergence (`exploration`).

    Chosen on three Gaussians in boxes of 2, 4 and 6 dimensions and on 20 Gaussians in the plane.

    Attributes
    ----------
    least, each, several, rounds : explored points are ``least + each D`` where one mode is known, and
        ``several`` times as many where several are; up to ``rounds`` times as many while further modes are to
        be expected (on eggbox, box 23002, a run that had found seven of 18 modes spent the remaining 110
        evaluations of 400 where everything was known, and was .9 off in the end). Over 427 layouts of three
        Gaussians in D = 4, none of 16 points showed a mode that was left out in 5 %, none of 32 in 1.4 %,
        about as often as the rule of succession has it.
    share, margin : a value is explained where it exceeds the known modes' density by less than this share of
        its depth and these nats. With a share of .3 a narrow mode beside a wide one was missed.
    cosine : a gradient is explained where its cosine with that of the known modes is above this.
    ranked, ordered : of that many points outside of the known modes or more, values rise with the density of
        these where Spearman's rank correlation is at least ``ordered``. It was .76 to 1 in 14 runs on
        Rosenbrock, cigar and logistic targets of 2 to 6 dimensions (seeds 50 and 51), .66 or more on
        clusters, three Gaussians, Himmelblau and shells once most of their modes were known, and .28 on an
        eggbox of which only a narrow mode in a corner was known (layouts 1000 + 9810 and 9811).
    in_vain : climbs that find no mode, one more for each known mode beyond the first, after which no more are
        begun; points from which none was begun lead nowhere.
    gain : nats that a climb has to gain in its last steps to go on.
    risen : share of its start's depth by which a climb with gradients that leads somewhere has risen; on the
        log-concave slopes of tilted 20 it was .47 to .58.
    most_with_gradients : points of a climb with gradients.
    relevant : nats below the highest value, beyond D / 2, of a mode whose mass could matter.
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
    in_vain: int = 3
    gain: float = 0.3
    risen: float = 0.3
    most_with_gradients: int = 15
    relevant: float = 7.0

    def count(self, dimension: int, modes: int = 1) -> int:
        """Return how many points are explored where so many modes are known."""
        return (self.least + self.each * dimension) * (1 if modes == 1 else self.several)

    def most(self, dimension: int, modes: int, left: int) -> int:
        """Return how many points are explored at most, where so many evaluations are left.

        No more than half of these, but up to twice as many points as where one mode is known.
        """
        return min(self.rounds * self.count(dimension, modes), max(left // 2, 2 * self.count(dimension)))


@dataclass(frozen=True)
class FirstClimbSettings:
    """The climb that a run with gradients begins with (`climbing`)."""

    gain: float = 0.3
    """Nats that a step has to gain for the climb to go on."""
    same: float = 0.05
    """Singular values of the directions of all steps below which a direction counts as left out; not
    studied."""
    longest: float = 0.5
    """Of a step in a new direction, half-widths of the plausible box; not studied."""


@dataclass(frozen=True)
class ClockSettings:
    """What a time limit has to leave room for (`clock`)."""

    thorough: float = 10.0
    """Time of the thorough estimate over that of a step without its calls: 6 to 12 on posteriors of 2 to 10
    dimensions."""


@dataclass(frozen=True)
class FreshStartSettings:
    """When a run begins anew without gradients (`fresh_start`).

    Chosen on the funnel (D = 5) and both parametrisations of the eight schools, one seed each.
    """

    wrong: float = 12.0
    """Mean squared standardised error of the predictions above which a run is lost. It was 14 to 22 on the
    funnel, at most 9.3 on non-centred schools."""
    predictions: int = 10
    """From which that is told."""
    each: int = 3
    """Evaluations for each dimension before which a run is not lost. On tilted 20 the error was 12 at 31
    evaluations, of a log evidence that was .2 off. On funnel 5, boxes 7100 to 7107, which were not chosen
    on, the median run takes 103 evaluations where it took 226 before this and the steps in new directions,
    and as many are right, seven of eight."""
    missed: float = 0.3
    """Nats by which they have to be off, by the median of the latest. With three Gaussians in D = 4, layout
    300, the error was 17 of predictions that missed by hundredths: nearly exact ones do no harm."""
    covered: float = 0.5
    """Effective share of the draws, in one of the latest records, above which no run is lost that has settled
    (`state.settled`): predictions may be bad where there is no mass. With three Gaussians in D = 6, layout
    9500, and on tilted 20, box 9503, the mean squared error was above 12 when the log evidence was right to
    .1; from values alone the log evidence was off by .1 to .5 in the end. By the last record alone, tilted
    20, box 23002, began anew at a share of .43 after .63 to .68, and was .28 off in the end."""
    hardly: float = 0.02
    """Effective share of the draws below which hardly any carries weight."""
    following: int = 5
    """The latest records, in all of which that is so in a run that is lost."""


@dataclass(frozen=True)
class DiagnosticSettings:
    """Whether runs agree, and what gives a warning (`diagnostics`)."""

    runaway: float = 100.0
    """Standard deviation of q, in halves of the plausible interval, from which nothing is taken to hold it:
    along the flat direction of -x_0^2 in D = 2 it was 1e8 after 60 evaluations."""
    near_mmtv: float = 0.2
    """Mean marginal total variation below which posteriors agree (Acerbi 2018)."""
    near_gskl: float = 0.125
    """Gaussianised symmetric KL below which they do, nats."""
    near_sds: float = 3.0
    """Standard deviations within which two log evidences agree."""
    beside: float = 0.01
    """Share of a bounded interval that is beside a bound,"""
    beside_sds: float = 0.25
    """and standard deviations of the posterior, if these are less: a posterior of sd .0014 whose mean is four
    of them above a bound of the interval [0, 1] is not at that bound; of a half normal at a bound 12 % of
    the mass is."""
    mass: float = 0.05
    """Share of the posterior's mass there from which on there is a warning."""
    draws: int = 20_000
    """Of each posterior, for the distances,"""
    bound_draws: int = 4096
    """and for the mass at bounds."""
    failures: float = 0.2
    """Share of the evaluations that failed, or of the gradients that are missing, from which on there is a
    warning; this and the next three are for words only and were not compared."""
    off: float = 2.0
    """Half-widths of the plausible interval, beyond one sd, by which the mean lies off it,"""
    wide: float = 3.0
    """and sds of the posterior, in the same unit, above and"""
    narrow: float = 0.02
    """below which the interval was too narrow or too wide."""
    interval: tuple[float, float] = (0.05, 0.95)
    """Quantiles that are named as a better one."""


SHAPING, FITTING, FRAMES, WEIGHTS = ShapingSettings(), FittingSettings(), FrameSettings(), WeightSettings()
GRADIENT_SCALINGS = GradientScalingSettings()
SCALINGS, LOCAL, REACH = ScalingSettings(), LocalSettings(), ReachSettings()
NODES, COMPONENTS, RESTARTS, MODES = NodeSettings(), ComponentSettings(), RestartSettings(), ModeSettings()
FEASIBILITY, PREDICTIONS, CONVERGENCE = FeasibilitySettings(), PredictionSettings(), ConvergenceSettings()
TRUST, FRESH_START, DIAGNOSTICS = TrustSettings(), FreshStartSettings(), DiagnosticSettings()
COMPARISON = ComparisonSettings()
CLIMBING, CLOCK, EXPLORATION = FirstClimbSettings(), ClockSettings(), ExplorationSettings()
CHEAP = CheapSettings()
