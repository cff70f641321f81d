"""Interquantile ranges of a density whose logarithm is observed: VIQR and IMIQR.

For f ~ GP the logarithm of a density, exp f(t) is log-normal, and half the distance between its quantiles p
and 1 - p is exp(mean) sinh(u sd), u the normal quantile. Once f is seen at x (with noise), sd(t) becomes

    sd(t; x) = sqrt(v(t) - c(x, t)^2 / (v(x) + noise))

for every value. The score of a point is the remaining integral of that range over t (Acerbi 2020,
"Variational Bayesian Monte Carlo with noisy likelihoods", Eqs 7 and 8), a weighted sum over points t_s,

    VIQR     sum_s w_s sinh(u sd(t_s; x)),   t_s drawn from the variational posterior,
    IMIQR    the same with weights exp(mean(t_s)) / density that t_s was drawn from.

The score is minus the logarithm of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise.criterion import Moments, Partials, Targets
from gp.arrays import Array, as_like, namespace
from gp.observations import Functional

__all__ = ["InterquantileRange", "log_remaining_range"]

_HIGHEST = 50.0
"""Upper limit of u sd in sinh."""


@dataclass(frozen=True, eq=False)
class InterquantileRange:
    """1 / sum_s exp(log_weights_s) sinh(u sd(t_s; x)).

    Attributes
    ----------
    targets : values of f at t (S, D), ``gp.Values(t)``.
    variances : (S,), posterior variances of f at t.
    log_weights : (S,), log w_s.
    quantile : u; by default that of .75.
    """

    targets: Functional
    variances: Array
    log_weights: Array
    quantile: float = 0.6744897501960817

    logarithmic = True
    relative = False

    def combination(self, targets: Targets) -> Array:
        """Return the identity: the signals are covariances of f(x) with each f(t_s)."""
        xp = namespace(targets.like)
        return xp.eye(len(targets), dtype=targets.like.dtype)

    def score(self, at: Moments) -> Array:
        """Return minus the log of what is left, (m,)."""
        return -self._log_left(at)[0]

    def partials(self, at: Moments) -> Partials:
        """Return the derivatives in the variance and the signals."""
        xp = namespace(at.variance)
        log_left, terms, sd = self._log_left(at)
        share = xp.exp(terms - log_left[:, None])
        argument = self.quantile * sd
        # d log sinh(u sd) / d sd^2 = u coth(u sd) / (2 sd)
        slope = share * self.quantile / (2.0 * sd * xp.tanh(argument))
        ratio = at.signals / at.predictive_variance[:, None]
        return Partials(variance=-xp.sum(slope * ratio**2, axis=1), signals=2.0 * slope * ratio)

    def _log_left(self, at: Moments) -> tuple[Array, Array, Array]:
        variances, log_weights = as_like(self.variances, at.variance), as_like(self.log_weights, at.variance)
        return log_remaining_range(variances, log_weights, at.signals, at.predictive_variance, self.quantile)


def log_remaining_range(
    variances: Array, log_weights: Array, signals: Array, predictive_variance: Array, quantile: float
) -> tuple[Array, Array, Array]:
    """Return the logarithm of the range left by an observation at each of m points, with its parts.

    Parameters
    ----------
    variances, log_weights : the variance of f at each target, and the logarithm of its weight, (S,).
    signals : covariances of f at the points with f at the targets, (m, S).
    predictive_variance : the variances of observations at the points, (m,).
    quantile : the normal quantile u.

    Returns
    -------
    The logarithm of the sum over the targets, (m,); those of its terms, (m, S); the sd of f at each target
    given each observation, (m, S).
    """
    xp = namespace(signals)
    remaining = variances[None, :] - signals**2 / predictive_variance[:, None]
    sd = xp.sqrt(xp.clip(remaining, 1e-12, None))
    argument = xp.clip(quantile * sd, None, _HIGHEST)
    terms = log_weights[None, :] + argument + xp.log1p(-xp.exp(-2.0 * argument)) - np.log(2.0)
    top = xp.max(terms, axis=1)
    return top + xp.log(xp.sum(xp.exp(terms - top[:, None]), axis=1)), terms, sd
