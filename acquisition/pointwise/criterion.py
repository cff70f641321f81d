"""The contract of a pointwise acquisition function: a criterion of the moments of f at a point.

    x  --predictor-->  moments of f(x)  --criterion-->  score  --search-->  the next x

The moments are those of f(x) under the Gaussian process before it is evaluated: mean m, variance v,
covariance s with the integral of f, and log p(x). A criterion is a formula in these, with its partial
derivatives, which are pulled back through the predictor; it depends on no kernel, no measure and no array
library. The score of a positive criterion is its *logarithm*, which does not underflow where p(x) does, and
allows joint ascents from points with very different values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gp.arrays import Array


class Moments(Protocol):
    """Posterior moments of f at m points before it is evaluated there."""

    @property
    def mean(self) -> Array:
        """Posterior mean, (m,)."""

    @property
    def variance(self) -> Array:
        """Posterior variance of f, (m,), plus rounding, so that it is positive."""

    @property
    def predictive_variance(self) -> Array:
        """Variance of the next observation, noise included, (m,)."""

    @property
    def signals(self) -> Array:
        """Covariances of f(x) with the integral of f against the measure, (m,)."""

    @property
    def integral_variance(self) -> Array:
        """Posterior variance of that integral, ()."""

    @property
    def log_density(self) -> Array:
        """log p(x), (m,)."""


@dataclass(frozen=True, eq=False)
class Partials:
    """Derivatives of a score in the moments; ``None`` for those that it does not depend on.

    Attributes
    ----------
    mean, variance, signals, log_density : (m,). The derivative in the variance includes that in the
        predictive variance, which is the variance plus noise.
    """

    mean: Array | None = None
    variance: Array | None = None
    signals: Array | None = None
    log_density: Array | None = None


@runtime_checkable
class Criterion(Protocol):
    """The gain of evaluating f at a point."""

    @property
    def logarithmic(self) -> bool:
        """Whether the score is the logarithm of the criterion."""

    def score(self, at: Moments) -> Array:
        """Return the criterion or its logarithm, (m,), from the moments ``at`` m points."""

    def partials(self, at: Moments) -> Partials:
        """Return the derivatives of the score in the moments, for those ``at`` m points."""
