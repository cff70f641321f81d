"""The tail of importance weights, or of any positive values: generalised Pareto fits, and smoothing by them.

Beyond a high threshold t values are distributed nearly as P(y - t > z) = (1 + k z / sigma)^(-1/k), whose
moments of order 1/k and above are infinite. The shape k is the posterior mean of Zhang and Stephens (2009),
shrunk towards 1/2 by a prior that counts as ten draws (Vehtari et al. 2024, "Pareto smoothed importance
sampling"). `psis` replaces the largest weights by the expected order statistics of the fitted tail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import effective_size


@dataclass(frozen=True)
class ParetoSettings:
    """Numbers of Vehtari et al. (2024)."""

    good: float = 0.5
    """Shape below which an average has a variance."""
    unusable: float = 0.7
    """Shape above which an average is not to be used."""
    least_tail: int = 5
    """The smallest number of values to which a tail is fitted."""
    prior_draws: int = 10
    """The number of draws as which the prior on the shape counts."""
    prior_shape: float = 0.5
    """The shape towards which that of few values is shrunk."""
    least: float = 1e-290
    """The least excess over the threshold, as a share of the largest value; its inverse is finite."""


PARETO = ParetoSettings()


def pareto_shape(values: Any) -> float:
    """Return the shape k of the tail of values (n,) >= 0: the largest min(n / 5, 3 sqrt n), at least five.

    It is -inf where there is no tail, as too few values exceed the threshold and hold little of the sum, or n
    is five or less, and inf where fewer than five values hold more than half of the sum.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    size = max(PARETO.least_tail, int(min(np.ceil(n / 5), np.ceil(3 * np.sqrt(n)))))
    if n <= size or not ordered[-1] > 0:
        return -np.inf
    above = _exceedances(ordered / ordered[-1], size)
    return pareto_fit(above)[0] if len(above) >= PARETO.least_tail else _shape_of_few(above, ordered)


def _exceedances(ordered: np.ndarray, size: int) -> np.ndarray:
    """The excesses over the threshold of those of the ``size`` largest values that differ from it."""
    threshold = ordered[-size - 1]
    above: np.ndarray = ordered[-size:] - threshold
    return above[above > max(1e-12 * threshold, PARETO.least)]


def _shape_of_few(above: np.ndarray, ordered: np.ndarray) -> float:
    """The shape where fewer than five values exceed the threshold, which determines no other number."""
    return math.inf if above.sum() > 0.5 * (ordered / ordered[-1]).sum() else -math.inf


def pareto_fit(y: Any) -> tuple[float, float]:
    """Return shape k and scale sigma of exceedances y > 0 in increasing order, at least five."""
    n = len(y)
    points = 30 + int(np.sqrt(n))
    ratios = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    b = 1 / y[-1] + ratios / (3 * y[int(n / 4 + 0.5) - 1])
    shapes = np.mean(np.log1p(-b[:, None] * y), axis=1)
    log_likelihood = n * (np.log(-b / shapes) - shapes - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    rate = float(b @ weights / weights.sum())
    found = float(np.mean(np.log1p(-rate * y)))
    return (n * found + PARETO.prior_draws * PARETO.prior_shape) / (n + PARETO.prior_draws), -found / rate


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Importance weights after Pareto smoothing.

    Attributes
    ----------
    log_weights : (n,), normalised: their exponentials sum to one.
    shape : k of the tail before smoothing; -inf where the values of the tail are equal, inf where fewer than
        five hold more than half of the sum, and for fewer than 21 weights, which are too few for a fit.
    """

    log_weights: np.ndarray
    shape: float

    @property
    def effective_sample_size(self) -> float:
        """1 / sum of the squared weights."""
        return float(effective_size(np.exp(self.log_weights)))


def psis(log_weights: np.ndarray) -> Smoothed:
    """Pareto smoothed importance weights.

    Parameters
    ----------
    log_weights : (n,), up to a constant; -inf for draws without density.

    Raises
    ------
    ValueError
        ``log_weights`` is no vector, or has NaN or +inf, or every weight is zero.
    """
    given = np.asarray(log_weights, float)
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"log_weights has shape {given.shape}; it must be (n,) with n >= 1")
    if np.isnan(given).any() or (given == np.inf).any() or (given == -np.inf).all():
        raise ValueError(
            "log_weights has NaN or inf, or is -inf throughout; at least one weight must be positive"
        )
    logs = given - given.max()
    n = len(logs)
    size = int(min(np.ceil(n / 5), np.ceil(3 * np.sqrt(n))))
    if size < PARETO.least_tail:
        return Smoothed(logs - logsumexp(logs), math.inf)
    order = np.argsort(logs)
    tail, ordered = order[-size:], np.exp(logs[order])
    # The smallest positive number keeps the logarithm finite where the threshold has weight zero.
    threshold = max(float(logs[order[-size - 1]]), math.log(np.finfo(float).tiny))
    above = _exceedances(ordered, size)
    if len(above) < PARETO.least_tail:
        return Smoothed(logs - logsumexp(logs), _shape_of_few(above, ordered))
    shape, scale = pareto_fit(above)
    levels = (np.arange(size) + 0.5) / size
    expected = np.expm1(-shape * np.log1p(-levels)) * scale / shape if shape else -scale * np.log1p(-levels)
    smooth = logs.copy()
    smooth[tail] = np.minimum(np.log(expected + math.exp(threshold)), 0.0)
    return Smoothed(smooth - logsumexp(smooth), shape)
