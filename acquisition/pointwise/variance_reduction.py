"""The information of an observation of f(x) about the integral: variance reduction, mutual information.

Let S be the posterior variance of the integral and c(x) its posterior covariances with f(x). An observation
of f(x) with noise changes S, whatever its value:

    S  ->  S - c^2 / (v + noise),

    reduction       c^2 / (v + noise)                 expected variance, thesis Eq. 7.17
    information     -log(1 - reduction / S) / 2       mutual information of f(x) + e and the integral, in nats
"""

from __future__ import annotations

from dataclasses import dataclass

from acquisition.pointwise.criterion import Moments, Partials
from gp.arrays import Array, at_most, namespace, positive

_MOST_CORRELATED = 1e-12
"""The smallest 1 - reduction / S; smaller ones are rounding."""


@dataclass(frozen=True)
class IntegralVarianceReduction:
    """c^2 / (v + noise): the reduction of the variance of the integral (thesis Eq. 7.17)."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        return namespace(at.variance).log(_reduction(at))

    def partials(self, at: Moments) -> Partials:
        return Partials(
            variance=-1 / at.predictive_variance, signals=2 * at.signals / positive(at.signals**2)
        )


@dataclass(frozen=True)
class MutualInformation:
    """-log(1 - c^2 / (S (v + noise))) / 2: the information of f(x) about the integral, in nats."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        xp = namespace(at.variance)
        return xp.log(-0.5 * xp.log1p(-_correlation(at)))

    def partials(self, at: Moments) -> Partials:
        """Return the partials of log correlation times d log(information) / d log(correlation)."""
        xp, inner = namespace(at.variance), IntegralVarianceReduction().partials(at)
        correlation = _correlation(at)
        factor = correlation / ((correlation - 1) * xp.log1p(-correlation))
        return Partials(variance=factor * inner.variance, signals=factor * inner.signals)


def _reduction(at: Moments) -> Array:
    """c^2 / (v + noise), c^2 raised above zero where rounding or symmetry makes it vanish, (m,)."""
    return positive(at.signals**2) / at.predictive_variance


def _correlation(at: Moments) -> Array:
    """The squared correlation of f(x) + e and the integral, below 1 by more than rounding, (m,)."""
    if not bool(at.integral_variance > 0):
        raise ValueError("the integral has no variance left, so nothing can be learnt about it: stop")
    correlation = positive(_reduction(at) / at.integral_variance)
    slack = max(_MOST_CORRELATED, 10 * float(namespace(correlation).finfo(correlation.dtype).eps))
    return at_most(correlation, 1 - slack)
