"""Whether a run has converged, or starts again: predictions, comparisons, noise, and time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CLOCK",
    "COMPARISON",
    "CONVERGENCE",
    "FRESH_START",
    "NOISE",
    "PREDICTIONS",
    "ClockSettings",
    "ComparisonSettings",
    "ConvergenceSettings",
    "FreshStartSettings",
    "PredictionSettings",
    "UndeclaredNoiseSettings",
]


@dataclass(frozen=True)
class PredictionSettings:
    """Errors of the surrogate's predictions (`state`)."""

    remembered: int = 30
    """The number of latest predictions that count."""
    largest_error: float = 25.0
    """The largest squared standardised error that a prediction counts as."""
    contradicted: float = 9.0
    """The mean squared standardised error from which held-out evaluations contradict a surrogate."""
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
    """Draws of the posterior that are evaluated before convergence (`refutation`), and the next test.

    They were chosen on three pharmacokinetic posteriors and two of an epidemic (D = 4, curved ridges in
    logarithms, errors of the log evidence -.05 to -.29 at stated sds of .04): there the estimate from five
    such draws had a median of .08 to .17, and a tenth percentile of .04 to .07. On logistic 5, Rosenbrock 6
    and lumpy 2, whose errors were below .012, it had a median of .02 to .026, and a ninetieth percentile of
    .035 to .055. Draws of the density itself separate the two groups less well, the power .4 about as well.
    ``total_variation`` was chosen on lumpy 4 and ten other unimodal targets in boxes 1 and 2; boxes 3 to 5
    had been seen before as well. On lumpy 4, whose errors were below .07, the estimate was .07 to .14 from
    108 to 193 evaluations on; with half this share allowed, runs took up to twice the evaluations. For four
    evidences in D = 4 and 10 that were wrong by .16 to .22 it was .13 to .28. Draws do not show tails in
    which there are none: on a thin ridge in the plane the estimate was below .002 where the error was -.11.
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
    """The growth of the evaluations after which there is another test."""
    grown: float = 1.5
    """The growth of the sd of the log evidence with which the result does not stand."""

    def allowed(self, draws: int) -> float:
        """The share of the mass that may differ by a comparison at that many draws."""
        return self.of_modes if draws > self.draws else self.total_variation


@dataclass(frozen=True)
class ConvergenceSettings:
    """The conditions of convergence (`stopping`)."""

    steady: int = 3
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
    """The largest number of nats that unseen modes may be expected to add."""
    again: float = 1.1
    """The growth of the evaluations after which a thorough estimate without convergence is made again."""


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
    understated: float = 4.0
    """The gain of evidence by a noise beside the one that is stated, in nats, from which the latter is too
    small. If it is right, twice the gain is 0 or chi-squared, each with probability 1/2, and exceeds 8 with
    probability .0024. On Gaussians, curved and bimodal densities and Student's t it was at most 2.8 in 400
    runs with noise of sd .01 to 2, and with a tenth of the sd stated above 4 in 94 % of runs with 100
    evaluations."""
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
class ClockSettings:
    """The time that is reserved for the thorough estimate (`clock`)."""

    thorough: float = 10.0
    """The time of the thorough estimate over that of a step without its calls: 6 to 12 on posteriors of 2 to
    10 dimensions."""


PREDICTIONS = PredictionSettings()
COMPARISON = ComparisonSettings()
CONVERGENCE = ConvergenceSettings()
NOISE = UndeclaredNoiseSettings()
FRESH_START = FreshStartSettings()
CLOCK = ClockSettings()
