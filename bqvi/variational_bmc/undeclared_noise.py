"""A test whether values that were declared exact are noisy.

The hyperparameters are fitted once more, with a noise common to all values among them. The prior of the noise
expects some tenths of a nat, so that the evidence of exact values that a stationary kernel fits well
decreases. That of exact values with a poor fit increases, but in general by far less for each evaluation than
that of noisy values. The sds of .1, .3 and 1 on Rosenbrock 2 were estimated as .10, .30 and 1.04 after 50 to
60 evaluations; 30 evaluations with sd 1 were too few.

A noise also absorbs the misfit of lengthscales that vary over space (several modes), or of a search that
ended at a poor maximum. Exact values are therefore fitted again from the lengthscales that were found with
the noise. Further, the values with the closest neighbours are examined: with those lengthscales the other
values determine them to a small part of the noise, so that an interpolation of exact values predicts them,
while the error of an interpolation of noisy values is at least the noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.variational_bmc.settings import FITTING
from bqvi.variational_bmc.surrogate import Data, Surrogate, fit

_MEDIAN = 0.6744897501960817
"""The median of |x|, x ~ N(0, 1)."""


def looks_noisy(sd: float) -> str:
    """The warning on undeclared noise of the standard deviation ``sd``."""
    return (
        f"Values that were said to be exact look noisy, with a standard deviation of {sd:.2g}: give noise_sd "
        '(a number, a function or "unknown"). If they are exact, they vary more finely than was evaluated.'
    )


def undeclared_noise(surrogate: Surrogate) -> float | None:
    """The standard deviation of the noise of values, nats; None where they seem exact.

    None is also returned where noise was declared or is already fitted, and where there are gradients.
    """
    data = surrogate.data
    if data.noise_fitted or data.gradients is not None:
        return None
    start = np.append(surrogate.psi, np.log(FITTING.first_noise))
    psi, noisy = fit(replace(data, noise_fitted=True), start)
    least = max(FITTING.least_noise_gain, FITTING.noise_gain * len(data.values))
    exact = surrogate.psi
    for begin in (exact, psi[:-1]):  # the second start is for a first fit that ended at another maximum
        exact, evidence = fit(data, begin)
        if noisy - evidence < least:
            return None
    sd = float(np.exp(0.5 * psi[-1]))
    misses = np.abs(Surrogate.of(data, exact).given.left_out()[_determined(data, psi[:-1]), 0])
    return sd if float(np.median(misses)) > FITTING.noise_share * _MEDIAN * sd else None


def _determined(data: Data, psi: np.ndarray) -> np.ndarray:
    """The rows of values that, if exact, the others determine best, given hyperparameters psi (P,)."""
    variances = 1.0 / Surrogate.of(data, psi).given.precisions[:, 0, 0]
    unshaped = np.flatnonzero(data.log_slopes == 0.0)
    order: np.ndarray = unshaped[np.argsort(variances[unshaped], kind="stable")]
    return order[: max(len(order) // 4, 1)]
