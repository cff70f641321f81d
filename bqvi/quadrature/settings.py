"""Constants of quadrature that decide results, with the problems on which each was chosen.

The studies behind them are rows of `experiments/studies/bqvi.quadrature.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NodeDesignSettings:
    """Which nodes are evaluated."""

    checks: float = 0.25
    """The smallest share of nodes from the Sobol sequence; that of tests; and, of a warped surrogate, that of
    nodes where its variance is largest."""
    growth: float = 1.3
    """Factor of the number of nodes from one fit of hyperparameters to the next."""
    first: tuple[int, int] = (8, 4)
    """Nodes before the first fit: the first number, half of which a surrogate needs, or 2 D plus the second
    if that is more."""
    outermost: float = 0.3
    """Share of the distance from the outermost node to a face of a box at which a further node lies."""
    draws: int = 24
    """Draws of hyperparameters for the final integral."""


@dataclass(frozen=True)
class CandidateSettings:
    """The search for hyperparameters, and the candidates."""

    lengthscales: tuple[float, float] = (np.log(0.2), np.log(12.0))
    """The range in which the prior on a log lengthscale is flat, in standard deviations of the measure."""
    falloff: float = 0.5
    """Standard deviation of that prior beyond the flat part."""
    bounds: tuple[float, float] = (np.log(0.05), np.log(50.0))
    """Bounds of the search of a log lengthscale."""
    most_noise_of_noisy: float = 1e4
    """The largest tau for values with noise."""
    starting_lengthscales: tuple[float, ...] = (0.7, 1.5, 4.0)
    """Lengthscales of starting points, over D^(1/4): from below to above the spread of the measure."""
    short_lengthscale: float = 0.1
    """A further one by 'wsabi-l' and 'wsabi-m', which have one candidate, and where nodes are closer."""
    starting_noises: tuple[float, ...] = (1e-10, 1e-3)
    """tau of starting points."""
    starting_noises_of_noisy: tuple[float, ...] = (1e-3, 1e-1)
    """tau of starting points for values with noise."""
    longest: float = 2.0
    """The largest step of a log hyperparameter."""
    damping: float = 0.1
    """Damping of the curvature of a climb, in nats, which shortens steps in hyperparameters of little
    effect."""
    pairs: float = 0.15
    """Variance of functions of two coordinates over that of functions of one, a priori."""
    many: int = 6
    """The number of dimensions from which sums of functions of few coordinates are a candidate."""
    prior_precision: float = 0.25
    """Precision of a hyperparameter that the data do not determine, on the log scale."""


@dataclass(frozen=True)
class Effort:
    """The effort of a search of hyperparameters.

    Attributes
    ----------
    climbs : the number of starting points from which climbs are made, of at most 20 iterations each for one
        and of 40 for two. With more than one the starting points of a first fit are tried in addition to the
        last optimum.
    settled : a Newton step with a smaller expected gain, in nats, is not made.
    """

    climbs: int
    settled: float


@dataclass(frozen=True)
class CredibilitySettings:
    """Whether a surrogate's estimate is used (:mod:`credibility`)."""

    explained: float = 0.7
    """Share of the variance at the Sobol nodes that has to be predicted from the other nodes for a surrogate
    to be credible, and, or 1 - 1 / D if that is more, for it to choose the nodes."""
    allowed: float = 0.2
    """The error of the log integral by the tests, in nats, up to which an answer may be credible."""


@dataclass(frozen=True)
class TailSettings:
    """Heavy tails, and growth (:mod:`credibility`)."""

    most_of_one: float = 0.5
    """The largest share of a sum that may be due to one point."""
    slower: float = 0.8
    """Ratio of the exponents in successive quarters of nodes below which growth slows down."""


@dataclass(frozen=True)
class PeakKernelSettings:
    """The kernel of functions with narrow peaks, and the search of the peaks (:mod:`peaks`)."""

    rounder: float = 0.1
    """Ratio of residual squares below which a peak of several widths is preferred to one of a single one."""
    width: float = 2.0
    """w, the squared width of the factor that vanishes away from a peak, in squared widths of the peak."""
    lengthscales: tuple[float, ...] = (np.log(0.5), np.log(12.0), 0.5, np.log(0.2), np.log(50.0))
    """Limits of ln l (:class:`families.KernelFamily`), in widths of the peak."""
    smooth_lengthscales: tuple[float, ...] = (np.log(0.7), np.log(12.0), 0.5, np.log(0.3), np.log(50.0))
    """Limits of ln L, in standard deviations of the measure."""
    variances: tuple[float, ...] = (np.log(1e-10), 0.0, 0.5, np.log(1e-12), np.log(10.0))
    """Limits of ln b."""
    starting_lengthscales: tuple[float, float] = (2.0, 1.5)
    """l and L of starting points, over D^(1/4)."""
    starting_variances: tuple[float, float] = (1e-6, 1e-1)
    """b of starting points."""
    widest: float = 0.25
    """The largest share of the measure of a peak, |I + A^T A|^(-1/2)."""
    scaled: tuple[float, float] = (0.6, 1.6)
    """Factors of the width of a known peak that are tried."""
    unexplained: float = 3.0
    """Ratio of a value to that expected from the known peaks above which it may belong to another one."""
    plateau: float = 0.5
    """Ratio of the size at the nearest node to that at a node above which that is not the top of a peak."""
    jump: float = 0.2
    """Ratio of the smallest to the largest difference between the value at a node and those at its neighbours
    below which the node is beside a jump, and not the top of a peak."""
    nats: float = 0.5
    """Nats for each node by which the evidence for peaks has to exceed that of all other candidates."""


@dataclass(frozen=True)
class RiseSettings:
    """The surrogate of a logarithm (:mod:`rises`)."""

    within: float = 5.0
    """Nats below the largest value within which a mode may have a share of the integral."""
    open: float = 0.5
    """Standard deviations of ln f above this, in nats, are those of places that nodes do not determine."""
    centres: int = 8
    """The number of candidates about which there are further ones, and of processes of neighbours."""
    neighbours: int = 2
    """Neighbours to which such a process is fitted, for each coefficient of a quadratic function."""


DESIGN = NodeDesignSettings()
RISES = RiseSettings()
SEARCH = CandidateSettings()
CREDIBILITY = CredibilitySettings()
TAILS = TailSettings()
PEAK_KERNEL = PeakKernelSettings()
PRECISE = Effort(climbs=2, settled=1e-5)
"""Effort of the last fit."""
ROUGHLY = Effort(climbs=1, settled=1e-2)
"""Effort of other fits."""
