"""Constants of the calls that affect results: what each is, and what it was chosen on.

The studies behind them are rows of `experiments/studies/bqvi.calls.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GradientCheckSettings:
    """The check that given gradients are those of the values (:mod:`faults`)."""

    consistent: float = 0.9
    """The share of pairs whose difference lies between the slopes that a correct gradient is assumed to
    have."""
    chance: float = 1e-5
    """The probability that a run with a correct gradient is stopped, if pairs are independent and each is
    consistent with probability ``consistent``."""
    large_share: float = 0.05
    """The least difference that counts towards stopping a run, of a function that is no log density: a share
    of the range of its values."""
    multiple: float = 0.1
    """The difference of an entry's coefficient from 1 above which it is reported, if also ``left``."""
    left: float = 0.2
    """The share of the squared residuals that wrong entries leave; right gradients of 54 runs left .33."""
    away: float = 0.1
    """The distance, in units of the plausible box, from an evaluation to the point of the comparison."""
    apart: float = 10.0
    """How many times the difference between two quotients the derivative has to be away from them."""
    rounding_of_slopes: float = 0.01
    """A derivative within this share of the quotient's is that of the values."""


@dataclass(frozen=True)
class LaplaceSearchSettings:
    """Settings of the search for Laplace's Gaussian (:mod:`climb`)."""

    gain: float = 0.1
    """The nats that a climb with gradients has to gain in its latest steps to continue."""
    sds: float = 1.0
    """The step of a curvature, in standard deviations along the axis. Over one the log joint falls by half a
    nat, and from values alone a shorter one loses digits; with gradients a shorter one leaves out less of the
    curvature's change on the way, and its first length is by the curvature of the climb."""
    boxes: tuple[float, ...] = (0.3, 3.0, 1.0)
    """The half widths of the boxes in which points are evaluated while all have failed."""


@dataclass(frozen=True)
class IntervalSettings:
    """The defaults of plausible intervals (:mod:`coordinates`, :mod:`target_model`)."""

    margin: float = 0.01
    """The distance by which a plausible bound is moved off the hard bound that it lies on, in widths."""
    half_width: float = 2.0
    """The default half width of a plausible box: Stan itself starts within 2 of 0."""


@dataclass(frozen=True)
class DensitySettings:
    """The test whether a log joint returns the density itself (:mod:`returned`)."""

    share: float = 0.25
    """The share of small values from which the values are taken to be a density's."""


@dataclass(frozen=True)
class SelectionSettings:
    """The choice of the evaluations that a run begins with (:mod:`given`)."""

    numbers: int = 1500
    """The largest number of values and derivatives together."""
    shallow: float = 2.0
    """The largest depth, in units of D nats, of the rows whose moments define the units."""


@dataclass(frozen=True)
class CliffSettings:
    """Values to which a log joint falls at once (:mod:`table`)."""

    shallowest: float = 15.0
    """The depth r at which a level may be a cliff, in nats beyond D / 2, the mean depth of a Gaussian's
    draws."""
    steeper: float = 4.0
    """The least ratio of the largest slope across a cliff to the largest on either side of it."""
    above: int = 4
    """The least number of values above a cliff."""
    above_a_floor: int = 2
    """The least number above a cliff below which values are about equal."""


CHECK, LAPLACE = GradientCheckSettings(), LaplaceSearchSettings()
INTERVALS, DENSITY, SELECTION = IntervalSettings(), DensitySettings(), SelectionSettings()
CLIFFS = CliffSettings()
