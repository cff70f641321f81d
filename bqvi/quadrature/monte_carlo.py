"""Simple Monte Carlo and importance sampling (thesis Eqs 7.10, 7.11, 7.19 and 7.20).

    Z = (1/n) sum_i f(x_i),   x_i ~ p          sd(Z)^2 = Var(f) / n,
    Z = (1/n) sum_i w_i f(x_i),   x_i ~ q,   w = p/q,

with Var(f) = sum_i (f(x_i) - Z)^2 / (n - 1) (7.19 with the square that its print lacks). The second is
the first for the integrand f p/q, and is computed as such. The effective sample size (sum w)^2 / sum w^2
(Kong 1992) is approximately the number of draws from p itself with the same variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import EvaluationError, Evaluations, Function
from bqvi.importance import effective_size, normalised

__all__ = [
    "SampleMean",
    "as_wide",
    "average",
    "effective_sample_size",
    "in_range",
    "shifted_back",
    "unlogged",
    "with_zeros",
]


_SMALLEST = 1e-120
"""Values between this and its reciprocal have squares whose sums are floating-point numbers."""
_EXPONENT = 300.0
"""e^x is a floating-point number for |x| up to twice this."""


@dataclass(frozen=True, eq=False)
class SampleMean:
    """mean (o,) and covariance (o, o) of an estimate, in units of e^shift."""

    mean: np.ndarray
    covariance: np.ndarray
    shift: float = 0.0


def average(values: np.ndarray) -> SampleMean:
    """Return the mean of independent values (n, o), n >= 2, and its covariance."""
    n = len(values)
    mean = values.mean(axis=0)
    centred = values - mean
    return SampleMean(mean, centred.T @ centred / (n - 1) / n)


def unlogged(logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return exp(logs - shift), (n, o), and the shift that makes the largest value 1."""
    shift = float(np.max(logs, initial=-np.inf))
    shift = shift if np.isfinite(shift) else 0.0
    return np.exp(logs - shift), shift


def in_range(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return values e^-shift (n, o) and the shift, which is 0 unless squares would over- or underflow."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0 or _SMALLEST < largest < 1 / _SMALLEST:
        return values, 0.0
    return values / largest, float(np.log(largest))


def shifted_back(values: np.ndarray, shift: float) -> np.ndarray:
    """Return values e^shift; infinite where that is beyond the range of numbers, and 0 where it is below."""
    if abs(shift) <= _EXPONENT:
        return np.exp(shift) * values
    with np.errstate(divide="ignore", over="ignore"):
        return np.sign(values) * np.exp(np.log(np.abs(values)) + shift)


def with_zeros(function: Function, made: Evaluations) -> Evaluations:
    """Return evaluations in which f counts as zero where it failed, if ``function.errors`` says so."""
    if function.errors != "infeasible" or not made.failed.any():
        return made
    values = np.where(made.failed[:, None], -np.inf if function.logarithmic else 0.0, made.values)
    return replace(made, values=values, failed=np.zeros(len(made), dtype=bool))


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


def effective_sample_size(log_weights: np.ndarray) -> float:
    """Return the effective sample size of weights e^log_weights (n,); 0 if all are zero."""
    return float(effective_size(normalised(log_weights)))
