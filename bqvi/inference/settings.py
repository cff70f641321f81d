"""Constants of `bqvi.fit` that decide results, with the problems on which each was chosen.

The studies behind them are rows of `experiments/studies/bqvi.inference.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DefaultSettings:
    """Defaults where the caller gives no value (`choices`, `choices`)."""

    rate: float = 0.05
    """The rate of Adam."""
    decay: float = 0.01
    """Decay of Adam's rate where gradients are noisy (`Adam`)."""
    network_rate: float = 1e-3
    """The rate of Adam for the weights of networks."""
    records: float = 0.1
    """The most evaluations of the records of a mini-batch run before its end, as a share of its steps'."""
    tolerance: float = 1e-6
    """Change of an exact ELBO between two records below which a run ends, nats."""


@dataclass(frozen=True)
class GainSettings:
    """The test whether a further step would gain anything (`convergence`)."""

    tolerance: float = 0.1
    """The gain in nats above which a run without a tolerance warns."""
    warns: float = 1.0
    """Standard errors by which the gain has to be below it."""
    claims: float = 2.0
    """Standard errors by which it has to be below a share of a tolerance, for a run to end as converged."""
    of_tolerance: float = 0.5
    """That share."""
    first: int = 100
    """The steps before the first test of a run with a tolerance; each time that they have doubled there is
    another."""
    share: float = 0.05
    """Evaluations of a test, as a share of those of the steps before it."""


@dataclass(frozen=True)
class AscentSettings:
    """The maximisation of a surrogate's ELBO (`steps`)."""

    faster: float = 1.5
    """Factor of rho after such a step."""
    divergence: float = 0.6
    """The largest KL over the squared norm of the natural gradient at q; a step of 1 on a quadratic has about
    1/2."""
    variance_weight: float = 0.1
    """Weight of the variance of the gradient, by which ``divergence`` is reduced where the gradient is within
    its error bars, which are wide."""


@dataclass(frozen=True)
class FlatSettings:
    """Whether the log joint has curvature over the width of q, and no slope at its mean (`convergence`)."""

    near: float = 5.0
    """The largest distance from q, in its standard deviations, of evaluations that are used."""
    share: float = 0.05
    """Share of the precision of q below which the log joint has no curvature."""
    falls: float = 0.15
    """Share of the outward slope at the optimum, -u at u, below which the log joint does not decrease
    outwards."""
    sides: int = 3
    """The fewest evaluations in the outer half of each side."""
    latest: tuple[int, int] = (2, 4)
    """The slope at q is that of the latest 2 D + 4 evaluations."""
    rises: float = 2.5
    """Slope, in nats over a standard deviation of q, less `EngineSettings.sds` standard errors, above which q
    still moves."""
    outside: tuple[float, float] = (25.0, 4.0)
    """An evaluation at u is outside of q where u^T u exceeds D + 25, and its value is high where it is at
    most 4 nats below the highest value inside, which under q it would be by 13 or more."""


ASCENT, DEFAULTS, FLAT = AscentSettings(), DefaultSettings(), FlatSettings()


@dataclass(frozen=True)
class SettlingSettings:
    """Whether a run of 'bq' has converged (`convergence`)."""

    growth: float = 1.25
    """The factor by which evaluations grow from one judgement to the next."""
    still: float = 0.1
    """The share of the tolerance by which q may have moved since the last judgement, in nats, and the ELBO at
    evaluations that test it, if not its sd."""
    drawn: int = 6
    """Draws of q among the evaluations that test a claim."""


@dataclass(frozen=True)
class BeginningSettings:
    """The beginning of a run (`beginning`).

    Attributes
    ----------
    near : the median over the first nodes of |y|^2 / D below which q counts as near the posterior; y is zero
        at a Gaussian posterior, and N(0, I) where the log joint is flat.
    flat : the slope of y in u from which q counts as too narrow, by a factor of 3 in scale.
    near_of_values : the variance of f - ln q over D / 2, from values alone, where q counts as near.
    of_budget, of_budget_of_values : the share of the budget that the first nodes and the search may use, with
        gradients and from values alone.
    gain : the least gain of a step for a climb to go on, in standard deviations sqrt(D / 2) that the log
        joint has under a Gaussian posterior.
    rows, rows_a_dimension : rows of the part of the data on which a method that samples climbs, the second
        for each dimension.
    sds : the length of a difference for the curvature by which such a method starts, in standard deviations.
    gain_of_rows : the nats that a Newton step with all the data has to gain.
    """

    near: float = 3.0
    flat: float = 0.9
    near_of_values: float = 500.0
    of_budget: float = 0.85
    of_budget_of_values: float = 0.5
    gain: float = 0.5
    rows: int = 2000
    rows_a_dimension: int = 20
    sds: float = 0.1
    gain_of_rows: float = 0.05


BEGINNING, SETTLING = BeginningSettings(), SettlingSettings()
GAIN = GainSettings()
