"""The constants of Bayesian quadrature of the gradient that decide results, and what they were chosen on.

"The six targets" are those of `experiments.problems.gradient_targets` at 50 evaluations. A figure for them is
the geometric mean of the ratio of gaps with the other value to gaps with this one, over 96 runs (seeds 20 to
35), 36 runs (seeds 20 to 25) or 24 runs (seeds 20 to 23), and one standard error to either side. For
constants without a figure none was kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gp.search import Search


@dataclass(frozen=True)
class NoiseSettings:
    """The noise of an observation over s^2 (`observation_noise`, `whitened`)."""

    jitter: float = 1e-6
    """Near q. 1e-4 costs an order of magnitude where gradients are exact."""
    near: float = 4.0
    """|u|^2 / D below which there is no more than the jitter."""
    fading: float = 0.5
    """By how much |u|^2 / D rises while the noise grows e-fold beyond ``near``."""
    left_out: float = 12.0
    """|u|^2 / D beyond which points are left out: their noise would be e^16 jitters, more than the process'
    own variance."""
    least: float = 1.5
    """|u|^2 / D below which the residual of a linear fit adds no noise."""
    allowed: float = 5.0
    """Squared residuals, in multiples of the typical one, that add no noise at |u| = 0."""
    growth: float = 0.6
    """Rise of the logarithm of what is allowed with |u|^2 / D: smooth functions are less linear farther
    out."""
    power: float = 4.0
    """Of a squared residual beyond what is allowed: thirty times that takes the noise from the jitter to the
    process' own variance."""
    steepest: float = 10.0
    """Most that the logarithm of the noise by residuals rises with |u|^2 / D beyond ``least``."""
    most: float = 60.0
    """Largest logarithm of the noise by distance and residual over the jitter."""
    farthest: float = 25.0
    """Largest logarithm of the noise by distance alone over the jitter. The six targets (24 runs): with 10
    gaps are 1.0 times as large."""
    ridge: float = 1.0
    """Of the linear fit whose residuals these are: a slope is a priori about as large as y (`linear_fit`)."""
    large: float = 4.0
    """Squared y, in multiples of the typical one, that halves a point's weight in that fit."""


@dataclass(frozen=True)
class SearchSettings:
    """The search of hyperparameters (`surrogates`, by `gp.search`)."""

    points: int = 100
    """Points, the most recent, that the evidence is of."""
    noisy_points: int = 400
    """The same where evaluations are noisy: with 100, gaps of a Student t in D = 5 at 300 evaluations
    are twice to three times as large, for noise of sd .3 and 1."""
    scale_sd: float = 3.0
    """Prior standard deviation of ln s^2, where noise of known variance makes it a
    hyperparameter: a factor of twenty either way."""
    rows: int = 300
    """Rows of K that the evidence of a process with several numbers a point is of."""
    iterations: int = 8
    """Most Newton steps. Fits are repeated as data come in, each from where the last one ended; even so,
    with 3 steps four runs in forty on a hierarchical model diverge."""
    length: float = 2.0
    """Lengthscale, over sqrt(D), at the centre of the prior. The six targets (96 runs): with 1 gaps are 1.0
    (.9 to 1.1) times as large, with 4 1.1 (1.0 to 1.3)."""
    part: float = 0.1
    """The same of each b, but for the quadratic part of a separable process: D times that one. The six
    targets (96 runs): with .03 gaps are .9 (.8 to 1.0) times as large, with .3 1.1 (1.0 to 1.2)."""
    sds: tuple[float, ...] = (0.7, 3.0, 2.0, 2.0)
    """Prior standard deviations of ln l and of ln b for each b."""
    ends: tuple[float, float] = (5.0, 4.0)
    """Of the search, in these standard deviations below and above the centre. The six targets (96 runs): with
    (3, 3) gaps are 1.0 times as large; with (8, 8) 1.1, and one run has a gap above 10 nats."""
    simple: tuple[float, ...] = (3.0, 3.5, 3.5, -4.0)
    """Hyperparameters, in these from the centre, with which little but a quadratic log joint is likely: one
    is found exactly."""
    settled: float = 0.15
    """Least expected gain in nats of the next step."""
    gained: float = 0.3
    """Nats that a step must have gained for another one."""
    longest: float = 1.0
    """Most that a step changes a log hyperparameter."""
    halvings: int = 5
    """Of a step that gains nothing."""

    @property
    def search(self) -> Search:
        """These, as `gp.search` takes them."""
        return Search(
            iterations=self.iterations,
            settled=self.settled,
            gained=self.gained,
            longest=self.longest,
            halvings=self.halvings,
        )

    @property
    def noisy_search(self) -> Search:
        """The same where evaluations are noisy: from both starts, since all is flat where s^2 is small.

        From one, runs on a Student t in D = 3 stay 40 nats below the highest evidence.
        """
        return replace(self.search, climbs=2, iterations=2 * self.iterations)


@dataclass(frozen=True)
class CacheSettings:
    """When a process is made anew (`process_cache`)."""

    divergence: float = 0.02
    """Nats that q may be from the q in whose units a process is."""
    refit_growth: float = 1.2
    """Hyperparameters are fitted again when the evaluations have grown by this factor; with 1.3 a few runs
    diverge."""
    refit_error: float = 4.0
    """They are also fitted when the mean squared standardised error of new evaluations is larger."""
    spare: int = 10
    """One in so many of the points is left out when a full process is made anew, as room for the next."""
    missed: float = 0.01
    """Share of the squares of new evaluations that predictions may miss (`prediction_check`). With .1 one
    run in ten on non-centred schools, begun with q ten times too narrow, jumps to where the log joint is
    steep, and has a gap of 1e3 at 300 evaluations; with .01 none does."""


@dataclass(frozen=True)
class FaultSettings:
    """Where evaluations fail (`feasibility`, `designs`, `memory`)."""

    prior_variance: float = 4.0
    """Variance of a coefficient a priori, in units whitened by q. With planes that cut 0.6 and 16 % off the
    mass of the first q, on three log joints (D = 2, 5 and 10), 1, 4 and 16 end 2, 2 and 4 of 48 runs;
    without a model of feasibility 24 end."""
    steps: int = 8
    """Newton steps to the mode."""
    nearest: float = 1.5
    """Where the nearest evaluation failed, and a good one is at least so many times as far, none succeeds."""
    least: float = 0.5
    """Probability with which the evaluation at a candidate, and at the mean of q, has to succeed."""
    patience: int = 5
    """Rounds in a row without one good evaluation that end a run."""


@dataclass(frozen=True)
class ProcessSettings:
    """Which process is used where the caller leaves it open (`bayesian_quadrature`)."""

    affordable: int = 400
    """Numbers, nodes times D, up to which the process on derivatives is used where nothing is remembered."""
    speed: float = 5e9
    """Floating-point operations a second of a Cholesky factor, on one core."""


@dataclass(frozen=True)
class ImportanceSettings:
    """Error bars of the importance-weighted bound (`importance_quadrature`)."""

    draws: int = 32
    """Of the log joint: a standard deviation from so many is known to an eighth."""
    features: int = 256
    """Random Fourier features of each."""


@dataclass(frozen=True)
class DesignSettings:
    """Designs without a process (`designs`)."""

    blur: float = 0.35
    """Standard deviation of what is added to nodes u, -u, on which every odd function is linear."""
    iterations: int = 60
    """Of the search of a minimum-variance design."""
    candidates: int = 64
    """Of which a design that follows the process chooses its nodes, where the caller says nothing. The six
    targets (36 runs): with 32 gaps are 1.3 (1.1 to 1.7) times as large, with 128 1.2 (1.0 to 1.5)."""
    spread: float = 1.5
    """Their standard deviation, in units of q's. The same: with 1 gaps are 1.1 (.9 to 1.3) times as large."""


@dataclass(frozen=True)
class MixtureSettings:
    """q a mixture (`mixture_quadrature`, `mixture_evidence`)."""

    growth: float = 1.15
    """Hyperparameters are fitted again when the memory has grown by this factor."""
    spread: float = 1.5
    """Standard deviation of candidates, in units of their component."""
    entropy_pairs: int = 128
    """Antithetic pairs of each component for an entropy that has no closed form (`stratified`)."""
    short: float = 0.25
    """Lengthscale, over sqrt(D), that a search starts from, shorter than any that is likely: from below it
    climbs to the oscillations. On two mixtures with 8 to 25 nodes a dimension .2 and .35 found the highest
    maximum
    of eight starts; .5 fell short of it by 80 to 250 nats in one fit of four, 2 in nearly all."""


@dataclass(frozen=True)
class EvidenceSettings:
    """The ELBO and the evidence past q (`remembered_elbo`, `remembered_evidence`).

    Chosen at 60 evaluations and three seeds on a banana, a
    funnel, Student's t, log-gamma densities, a Gaussian, logistic, Poisson and linear regressions, a Gaussian
    process and eight schools, centred and not, for which the evidence is known.
    """

    rows: int = 600
    """Numbers, values and entries of gradients, that the process is conditioned on at most, half of them
    values where there are gradients. Chosen with ``reach`` and ``apart``, at 60 to 400 evaluations and two or
    three seeds, on the targets of `experiments.problems.gradient_targets`, a Student t, a funnel, a logistic
    regression on breast cancer data and Gaussians. Beside 1200 rows with all gradients of the latest
    evaluations, in half the time, median errors of the ELBO are .005 for .031 (centred schools, 200), .009
    for .027 (400), .004 for .30 (schools not centred, 200), .03 for 1.6 (400), .04 for .08 (wine, 100), .04
    for .002 (breast cancer, 100) and .0005 for .0001 (mixture, 100). Gradients along random directions at
    all points have errors of .2 on breast cancer; gradients of evaluations spread over all distances, of 2
    on schools not centred."""
    reach: float = 6.0
    """|u|^2 / D beyond which evaluations are not used, unless fewer than 2 D + 2 are nearer. With 12 the
    standard deviation on breast cancer at 100 is .4 in the place of .05, with 4 that on a banana at 100 is
    four times as large."""
    apart: float = 30.0
    """Nats by which phi at an evaluation may differ from its median at the nearer half of the evaluations,
    unless fewer than 2 D + 2 differ by less. Schools not centred, 200 evaluations, seeds 0, 1, 2 and 4 from
    the prior's box: standard deviations of the ELBO are .05 to .15 with 30 nats and .13 to 7 without a
    limit; 10 nats give the same there, and leave more of what q lacks unseen."""
    draws: int = 4096
    """Of q, widened in part. With 1024 the errors of a regression, a mixture and a Gaussian process are
    .0017, .006 and .004, those of the draws; with 4096 .0001, .001 and .001."""
    first: int = 1024
    """Of the draws, those that the process' own standard deviation is of: it takes their square in time."""
    wide: float = 0.25
    """Share of them that is widened."""
    widening: float = 1.7
    """By how much."""
    blocks: int = 8
    """Of the draws, whose spread is their standard deviation. That of independent draws, 1 / effective draws
    less 1 / draws, is 2 to 6 times as large, and on posteriors near a Gaussian most of the whole."""
    infeasible: float = 0.02
    """Share of q where evaluations fail, from which on there is a warning."""
    share: float = 0.25
    """Of the correction of the ELBO, that is standard deviation. On the ten posteriors that it was chosen
    on errors are up to a third of it, half where it is small. On fifteen others, at 50 to 200 evaluations,
    all of 270 runs with gradients are within two standard deviations, as with .5; 42 of 45 with values."""
    heavy: tuple[float, float] = (0.5, 0.7)
    """Pareto k from which, and up to which, the share rises."""
    heavy_share: float = 1.5
    """The share beyond. Centred schools, where q lacks the funnel and k is .5 to 1, miss .7 to 1 nats where
    the correction is .3 to .5: with a share of .5 throughout 12 of 18 runs are outside of two standard
    deviations, with this 2."""
    earlier: float = 0.8
    """Share of the evaluations without whose successors the evidence is estimated again. On a model with a
    simplex and correlations in the box of its prior, at 40, 60 and 100 evaluations, of 8 seeds each .75, .8
    and .85 were looked at; medians of the sd stay .029 on a regression and go from .252 to .253 on eight
    schools."""

    def share_at(self, shape: float) -> float:
        """The share of the correction that is standard deviation where the weights have this Pareto k."""
        return float(np.interp(shape, self.heavy, (self.share, self.heavy_share)))


@dataclass(frozen=True)
class StochasticSettings:
    """The rate (t + delay)^-power of stochastic natural gradients, and of stochastic passes (`memoised`)."""

    delay: float = 10.0
    """No comparison was kept of it, or of the next."""
    power: float = 0.7


STOCHASTIC = StochasticSettings()
NOISE = NoiseSettings()
SEARCH = SearchSettings()
CACHE = CacheSettings()
FEASIBILITY = FaultSettings()
DESIGN = DesignSettings()
MIXTURE = MixtureSettings()
EVIDENCE = EvidenceSettings()
PROCESS, IMPORTANCE = ProcessSettings(), ImportanceSettings()
