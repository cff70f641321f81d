"""Whether a run has converged: predictions, comparisons, and noise.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.convergence.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """The possible error of the first record, in nats, before any prediction."""
    unsettled: float = 1.0
    """The divergence between successive posteriors above which the posterior has not been found."""


@dataclass(frozen=True)
class ComparisonSettings:
    """Draws of the posterior that are evaluated before convergence (`refutation`), and the next test."""

    draws: int = 5
    """The number of draws of a posterior with one mode."""
    draws_each: int = 3
    """The number of draws in each of several modes."""
    total_variation: float = 0.1
    """The share of the mass that may differ, or the tolerance where that is larger."""
    of_modes: float = 0.05
    """The same where there are several modes, with more draws in all."""
    grown: float = 1.5
    """The growth of the sd of the log evidence with which the result does not stand."""

    def allowed(self, draws: int) -> float:
        """The share of the mass that may differ by a comparison at that many draws."""
        return self.of_modes if draws > self.draws else self.total_variation


@dataclass(frozen=True)
class ConvergenceSettings:
    """The conditions of convergence (`stopping`)."""

    tolerance: float = 0.05
    """The sd of the log evidence, in nats, where the user gives none."""
    steady: int = 3
    """The number of latest records on which the conditions are tested."""
    divergence: float = 0.03
    """The largest divergence between successive posteriors, in nats, beyond that expected from draws."""
    effective: float = 0.1
    """The least effective share of the draws."""
    unseen: float = 0.1
    """The largest number of nats that unseen modes may be expected to add."""
    again: float = 1.1
    """The growth of the evaluations after which a thorough estimate without convergence is made again."""


@dataclass(frozen=True)
class UndeclaredNoiseSettings:
    """The test whether values that were declared exact are noisy (`undeclared_noise`)."""

    at: float = 1.0 / 3.0
    """The share of the budget that is spent when it may be made, unless the run is about to converge
    before."""
    excluded: float = -5.0
    """The gain of evidence by a noise, in nats, below which it is not made."""


PREDICTIONS = PredictionSettings()
COMPARISON = ComparisonSettings()
CONVERGENCE = ConvergenceSettings()
NOISE = UndeclaredNoiseSettings()
