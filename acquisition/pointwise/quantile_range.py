"""Interquantile ranges of a density whose logarithm is observed: VIQR and IMIQR.

For f ~ GP the logarithm of a density, exp f(t) is log-normal, and half the distance between its quantiles p
and 1 - p is exp(mean) sinh(u sd), u the normal quantile. Once f is seen at x (with noise), sd(t) becomes

    sd(t; x) = sqrt(v(t) - c(x, t)^2 / (v(x) + noise))

for every value. The score of a point is the remaining integral of that range over t (Acerbi 2020,
"Variational Bayesian Monte Carlo with noisy likelihoods", Eqs 7 and 8), a weighted sum over points t_s,

    VIQR     sum_s w_s sinh(u sd(t_s; x)),   t_s drawn from the variational posterior,
    IMIQR    the same with weights exp(mean(t_s)) / density that t_s was drawn from.
"""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, namespace

_HIGHEST = 50.0
"""Upper limit of u sd in sinh."""


def log_remaining_range(
    variances: Array, log_weights: Array, signals: Array, predictive_variance: Array, quantile: float
) -> Array:
    """Return the logarithm of the range left by an observation at each of m points, (m,).

    Parameters
    ----------
    variances, log_weights : the variance of f at each target, and the logarithm of its weight, (S,).
    signals : covariances of f at the points with f at the targets, (m, S).
    predictive_variance : the variances of observations at the points, (m,).
    quantile : the normal quantile u.
    """
    xp = namespace(signals)
    remaining = variances[None, :] - signals**2 / predictive_variance[:, None]
    sd = xp.sqrt(xp.clip(remaining, 1e-12, None))
    argument = xp.clip(quantile * sd, None, _HIGHEST)
    terms = log_weights[None, :] + argument + xp.log1p(-xp.exp(-2.0 * argument)) - np.log(2.0)
    top = xp.max(terms, axis=1)
    return top + xp.log(xp.sum(xp.exp(terms - top[:, None]), axis=1))
