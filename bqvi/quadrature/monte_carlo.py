"""Simple Monte Carlo, importance sampling, and quasi-Monte Carlo (thesis Eqs 7.10, 7.11, 7.19 and 7.20).

    Z = (1/n) sum_i f(x_i),   x_i ~ p          sd(Z)^2 = Var(f) / n,
    Z = (1/n) sum_i w_i f(x_i),   x_i ~ q,   w = p/q,

with Var(f) = sum_i (f(x_i) - Z)^2 / (n - 1) (7.19 with the square that its print lacks). The second is
the first for the integrand f p/q, and is computed as such. The effective sample size (sum w)^2 / sum w^2
(Kong 1992) is approximately the number of draws from p itself with the same variance.

Quasi-Monte Carlo averages over the first n points of one scrambled Sobol sequence. Owen's scrambling makes
every point uniform and keeps the net, so the average of f is unbiased (Owen 1997). Its error is estimated
from the spread of the averages over R successive blocks of the sequence, each of which is a net as well:

    Z = (1/n) sum_i f(x_i),   sd(Z)^2 = sum_r (Z_r - Z)^2 / (R (R - 1)).

Errors of blocks cancel in part, so that it is about right where f is rough, and too large where it is smooth.
The spread has R - 1 degrees of freedom: the variance is multiplied by that of Student's t, (R - 1)/(R - 3).

Where all values are the same, it is that of one further node at which f differs by its size (`of_constants`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import EvaluationError, Evaluations, Function

LEAST_REPLICATES = 4
"""The smallest number of blocks, as fewer do not estimate their spread."""
_SMALLEST = 1e-120
"""Values between this and its reciprocal have squares whose sums are floating-point numbers."""
_EXPONENT = 300.0
"""e^x is a floating-point number for |x| up to twice this."""


@dataclass(frozen=True, eq=False)
class SampleMean:
    """mean (o,) and covariance (o, o) of an estimate."""

    mean: np.ndarray
    covariance: np.ndarray


def average(values: np.ndarray) -> SampleMean:
    """Return the mean of independent values (n, o), n >= 2, and its covariance."""
    n = len(values)
    mean = values.mean(axis=0)
    centred = values - mean
    return SampleMean(mean, centred.T @ centred / (n - 1) / n)


def over_blocks(values: np.ndarray, count: int) -> SampleMean:
    """Return the mean of f over a sequence, (n, o), and its covariance from ``count`` successive blocks."""
    mean = values.mean(axis=0)
    centred = np.array([block.mean(axis=0) - mean for block in np.array_split(values, count)])
    return SampleMean(mean, centred.T @ centred / (count * (count - 3)))


def of_constants(values: np.ndarray) -> np.ndarray:
    """Return the standard deviations (o,) for outputs whose n values (n, o) are all the same; 0 for others.

    By the rule of succession the next of n + 2 nodes would be the first at which f differs, by its size.
    """
    return np.where(np.ptp(values, axis=0) == 0, np.abs(values).max(axis=0), 0.0) / (len(values) + 2.0)


def unlogged(logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return exp(logs - shift), (n, o), and the shift that makes the largest value 1."""
    shift = float(np.max(logs, initial=-np.inf))
    shift = shift if np.isfinite(shift) else 0.0
    return np.exp(logs - shift), shift


def in_units(function: Function, returned: np.ndarray) -> tuple[np.ndarray, float]:
    """Return values f e^-shift (n, o) and the shift, from the values that the function returned.

    Of values of f the shift is 0 unless squares would over- or underflow.
    """
    if function.logarithmic:
        return unlogged(returned)
    largest = float(np.max(np.abs(returned), initial=0.0))
    if largest == 0 or _SMALLEST < largest < 1 / _SMALLEST:
        return returned, 0.0
    return returned / largest, float(np.log(largest))


def shifted_back(values: np.ndarray, shift: float) -> np.ndarray:
    """Return values e^shift; infinite where that is beyond the range of numbers, and 0 where it is below."""
    if abs(shift) <= _EXPONENT:
        return np.exp(shift) * values
    with np.errstate(divide="ignore", over="ignore"):
        return np.sign(values) * np.exp(np.log(np.abs(values)) + shift)


def with_zeros(function: Function, made: Evaluations) -> Evaluations:
    """Return evaluations in which f is zero where it failed, unless ``function.errors`` is "raise"."""
    return made if function.errors == "raise" else replace(made, failed=np.zeros(len(made), dtype=bool))


def as_wide(values: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values (n, o) of f at some nodes and (m, o) at others, with as many outputs each.

    One column of zeros, for nodes that all failed and count as zero, is extended to the number of outputs.

    Raises
    ------
    EvaluationError
        f returned another number of outputs than before.
    """
    outputs = max(values.shape[1], more.shape[1])
    found = []
    for part in (values, more):
        nothing = part.shape[1] == 1 and not (np.isfinite(part) & (part != 0.0)).any()
        if part.shape[1] != outputs and not nothing:
            raise EvaluationError(
                f"the integrand returned {more.shape[1]} numbers for a point, and {values.shape[1]} before; "
                "it must return as many everywhere"
            )
        found.append(part if part.shape[1] == outputs else np.repeat(part, outputs, axis=1))
    return found[0], found[1]
