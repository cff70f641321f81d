"""Constants of quadrature that decide results: what each is, and what it was chosen on.

Unless it says otherwise, a constant was chosen on `experiments.problems.integrands` with seeds 0 to 3, at 20
to 160 nodes, by errors beside those of scrambled Sobol and by how often the truth was within two standard
deviations. None was chosen on `experiments.problems.unseen_integrands`, on which they are reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = [
    "CREDIBILITY",
    "DESIGN",
    "PEAKS",
    "PRECISE",
    "PRODUCTS",
    "ROUGHLY",
    "SEARCH",
    "TAILS",
    "Effort",
]


@dataclass(frozen=True)
class NodeDesignSettings:
    """Which nodes are evaluated."""

    checks: float = 0.25
    """At least this share of the nodes is of the Sobol sequence, which does not depend on the surrogate: they
    show whether a surrogate that chooses the other nodes overlooks something."""
    growth: float = 1.3
    """Nodes are added, and hyperparameters refitted, when there are 30 % more."""
    first: tuple[int, int] = (8, 4)
    """Nodes before the first fit: so many, or 2 D and so many more if that is more. On eleven integrands with
    seeds 20 to 23, (4, 2) has errors 1.8 (1.4 to 2.3) times as large at n = 20 and .8 (.6 to 1.0) at n = 60,
    (12, 8) 1.2 (.9 to 1.5) and 1.3 (1.0 to 1.5)."""
    least: int = 4
    """Nodes that a surrogate can be fitted to."""
    explore: int = 4
    """One node in so many of a warped surrogate is where it is most uncertain."""
    pool: int = 512
    """Candidates for a node."""
    stretch: float = 1.5
    """Half of the candidates for a measure without bounds lie so many times as far out."""
    largest_pool: int = 2000
    """Points of a finite measure that are candidates."""
    draws: int = 24
    """Draws of hyperparameters for the final integral."""


@dataclass(frozen=True)
class CandidateSettings:
    """The search for hyperparameters, and the candidates."""

    lengthscales: tuple[float, float] = (np.log(0.2), np.log(12.0))
    """Where the prior on a log lengthscale is flat, in standard deviations of the measure."""
    shoulder: float = 0.5
    """Standard deviation of that prior beyond the flat part."""
    bounds: tuple[float, float] = (np.log(0.05), np.log(50.0))
    """How far a log lengthscale is searched."""
    least_noise: float = 1e-13
    """Of tau: some 450 rounding errors of a variance of 1, with which covariance matrices have a factor."""
    least_noise_of_root: float = 1e-9
    """The same for the square root of an integrand: quadratic functionals of the weights lose twice the
    digits that linear ones do."""
    least_noise_of_node: float = 1e-12
    """Of the observation at a candidate, over the prior variance."""
    most_noise: float = 1.0
    """Of tau, for exact values."""
    most_noise_of_noisy: float = 1e4
    """Of tau, for values with noise."""
    known_sd: float = 0.02
    """Of the logarithm of s tau about a noise that is known."""
    starting_lengthscales: tuple[float, ...] = (0.7, 1.5, 4.0)
    """Over D^(1/4), of starting points: from below to above the spread of the measure. On eleven integrands
    with seeds 20 to 23 errors at n = 20 are 1.4 (1.2 to 1.7) times as large with 1.5 alone, and 1.1 (1.0 to
    1.3) with five from .35 to 8."""
    starting_noises: tuple[float, ...] = (1e-10, 1e-3)
    """Of tau, of starting points. On the same, either alone does as well: 1.1 (1.0 to 1.3) and 1.0 (.9 to
    1.1) at n = 20, 1.1 (1.0 to 1.2) and .8 (.6 to .9) at n = 60."""
    starting_noises_of_noisy: tuple[float, ...] = (1e-3, 1e-1)
    """The same for values with noise."""
    apart: float = 0.3
    """Two starting points are others if a log lengthscale differs by more."""
    gradient: float = 1e-2
    """A climb ends where no derivative is larger, in nats."""
    longest: float = 2.0
    """Step of a log hyperparameter."""
    damping: float = 0.1
    """Of the curvature of a climb, in nats: a hyperparameter that hardly matters moves little. On five
    integrands a climb from the average information, corrected by its gradients, takes .7 of the evaluations
    of one by L-BFGS-B."""
    behind: float = 10.0
    """A candidate so many nats behind the best is left out of every other fit. To leave it out of two from 5
    nats on, with 55 % more nodes between fits, was tried and given up: errors at n = 40 were 1.3 (1.0 to 1.6)
    times as large, on unseen integrands."""
    negligible: float = 1e-3
    """Weight below which a candidate has no part in the integral."""
    pairs: float = 0.15
    """Variance of functions of two coordinates over that of functions of one, a priori."""
    edge: float = 1e-9
    """Probability beyond which a point of the cube has no place in the standard coordinates."""
    many: int = 6
    """Dimensions from which functions of few coordinates are a candidate of their own."""
    least_draws: int = 4
    """Draws of the hyperparameters of one candidate."""
    difference: float = 0.02
    """Step of a log hyperparameter to either side, for the curvature of the log posterior."""
    prior_precision: float = 0.25
    """Of a hyperparameter that the data do not determine, on the log scale."""
    heaviest: float = 3.0
    """Logarithm of a draw's weight beside that of the optimum, at most: a larger one says that Laplace's
    approximation is too narrow; not compared, like the next two."""
    longest_turned: float = 10.0
    """Ratio of two lengthscales on turned axes, where a fit begins, at most."""
    least_slope: float = 1e-12
    """Mean squared slope along an axis, over that along the steepest, at least."""


@dataclass(frozen=True)
class Effort:
    """How long hyperparameters are searched.

    Attributes
    ----------
    climbs : from so many starting points.
    iterations : of a climb, at most. precision : relative gain of the log evidence by the last of them.
    settled : a Newton step that promises no more nats is not made.
    screens : whether the starting points of a first fit are tried beside where the last one ended.
    """

    climbs: int
    iterations: int
    precision: float
    settled: float
    screens: bool

    @property
    def again(self) -> Effort:
        """The same where an earlier fit says where to start."""
        return replace(self, climbs=1)


@dataclass(frozen=True)
class CredibilitySettings:
    """Whether a surrogate's estimate is used (:mod:`credibility`)."""

    explained: float = 0.5
    """Share of the variance at the Sobol nodes that has to be predicted from the other nodes."""
    inflated: float = 1.5
    """Factor of the standard deviation from which on the reason names it; for words only."""
    chooses: float = 0.7
    """The same from which a surrogate chooses the nodes; 1 - 1 / D if that is more. On eleven integrands with
    seeds 20 to 23, .5 and .9 have errors 1.1 (1.0 to 1.2) and 1.2 (1.1 to 1.4) times as large at n = 20, and
    the same at n = 60."""
    least_gain: float = 2.0
    """Nats of evidence over independent values."""
    growth_nats: float = 0.9
    """Nats for each node by which growth in the tails has to be ahead of all other candidates."""
    resolved: float = 0.99
    """Share explained from which the exponent of the growth is looked at."""
    most_reassured: float = 10.0
    """Nodes that are predicted better than their sd says count as at most so many."""
    well_known: float = 3.0
    """Nodes for each hyperparameter; with fewer a share of the jackknife is added."""
    unchosen: float = 0.9
    """Share of nodes of the sequence from which errors of nodes left out are like those at points drawn."""
    heaviest: float = 0.8
    """Heavier Pareto tails are taken for one of this shape: what lies beyond them cannot be told from a few
    values."""
    prior_count: float = 2.0
    """Increments that the scale of the standard deviation is drawn to, and"""
    prior_square: float = 2.0
    """the mean of their squares."""


@dataclass(frozen=True)
class TailSettings:
    """Heavy tails, and growth (:mod:`tails`)."""

    fastest: float = 0.9
    """Exponent of growth beyond the nodes: there is an integral below 1."""
    most_of_one: float = 0.5
    """Share of a sum that one point may carry."""
    outermost: int = 4
    """One node in so many is among the outermost."""
    slower: float = 0.8
    """Of the exponent before; between quarters of nodes that of exp(a.u) falls to .6 to .8; of |u|^p
    to .3."""


@dataclass(frozen=True)
class PeakSettings:
    """Peaks between the nodes (:mod:`tails`); chosen on Gaussian ones in D = 1 to 5."""

    missed_share: float = 3.0
    """Volumes per node: a peak that is larger has a node in it."""
    most_rise: float = 3.0
    """Of what is usual from the largest value to the top of a peak."""
    rises: float = 2.0
    """Nats: by so much more than the largest value the top of a peak has to be for a surrogate that predicts
    the nodes to lose its credibility. No unseen integrand (33, two seeds, n = 20 to 80) lost its credibility
    by it."""
    steep: float = 20.0
    """Nats by which the few values that are not zero have to differ for the others to have underflowed."""
    lone: float = 1e-20
    """A value below it, where all others are zero: they have underflowed. It is no size in usual units."""
    exact: float = 1e-3
    """Nats, root mean square: what logarithms leave of a Gaussian whose top is taken as found."""
    rounder: float = 0.1
    """Of what a peak of one width leaves, for one of several widths to be taken."""


@dataclass(frozen=True)
class ProductSettings:
    """Variances of integrals of squares (:mod:`warped`); not studied."""

    rounding: float = 1e-15
    """Of a variance over |w|^2, w the weights: what is left where it cancels."""


DESIGN = NodeDesignSettings()
PRODUCTS = ProductSettings()
SEARCH = CandidateSettings()
CREDIBILITY = CredibilitySettings()
TAILS = TailSettings()
PEAKS = PeakSettings()
PRECISE = Effort(climbs=2, iterations=40, precision=1e-5, settled=1e-5, screens=True)
"""Of the last fit."""
ROUGHLY = Effort(climbs=1, iterations=20, precision=1e-4, settled=1e-2, screens=False)
"""Where more data are to come. A second climb took 1 to 32 % of all evaluations of the evidence."""
