"""Tests whether values that were declared exact are noisy.

A repeated evaluation decides it: exact values are the same at the same point. It costs one evaluation, so
that it is made only where the values do not exclude noise by themselves, once, before convergence or when
a third of the budget is spent, at the point of the highest value. Where the two values differ, the noise is
fitted from then on, as with ``noise_sd="unknown"``.

A deterministic function that is rough, such as one with a seed for each point, returns the same value again.
Its values are therefore examined, too. The hyperparameters are fitted once more, with a noise common to all
values among them. The prior of the noise expects some tenths of a nat, so that the evidence of exact values
that a stationary kernel fits well decreases. That of exact values with a poor fit increases, but in general
by far less for each evaluation than that of noisy values. The sds of .1, .3 and 1 on Rosenbrock 2 were
estimated as .10, .30 and 1.04 after 50 to 60 evaluations; 30 evaluations with sd 1 were too few.

A noise also absorbs the misfit of lengthscales that vary over space (several modes), or of a search that
ended at a poor maximum. Exact values are therefore fitted again from the lengthscales that were found with
the noise. Further, the values with the closest neighbours are examined: with those lengthscales the other
values determine them to a small part of the noise, so that an interpolation of exact values predicts them,
while the error of an interpolation of noisy values is at least the noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.calls import Evaluations
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


def differing(made: Evaluations) -> tuple[float, float] | None:
    """Two values of one point that differ, though they were declared exact; None where there are none.

    Parameters
    ----------
    made : all evaluations, failed ones, too.
    """
    if made.noise_variance is not None:
        return None
    kept = made[~made.failed]
    _, first, place = np.unique(kept.points, axis=0, return_index=True, return_inverse=True)
    before = kept.values[first[place.reshape(-1)]]
    at = int(np.argmax(np.abs(kept.values - before))) if len(kept) else 0
    apart = len(kept) > 0 and abs(kept.values[at] - before[at]) > FITTING.same
    return (float(before[at]), float(kept.values[at])) if apart else None


def repeat(made: Evaluations, surrogate: Surrogate) -> np.ndarray | None:
    """The point (1, D) of the highest value, to be evaluated again; None if noise is excluded or it has been.

    Parameters
    ----------
    made : the evaluations, in the coordinates. surrogate : the surrogate that was fitted to them.
    """
    if made.noise_variance is not None or surrogate.data.noise_fitted:
        return None
    if len(np.unique(made.points, axis=0)) < len(made):
        return None
    _, noisy, exact = _with_noise(surrogate)
    if noisy - exact < FITTING.excluded:
        return None
    values = np.where(made.failed, -np.inf, made.values)
    return made.points[[int(np.argmax(values))]]


def differ(values: tuple[float, float], sd: float) -> str:
    """The warning on two ``values`` of one point, with the ``sd`` of the noise that was fitted, nats."""
    return (
        f"The log joint was {values[0]:.6g} and {values[1]:.6g} at the same point, although its values were "
        f"declared exact. A noise was therefore fitted, with a standard deviation of {sd:.2g}: give noise_sd "
        '(a number, a function or "unknown").'
    )


def undeclared_noise(surrogate: Surrogate) -> float | None:
    """The standard deviation of the noise of values, nats; None where they seem exact.

    None is also returned where noise was declared or is already fitted, and where there are gradients.
    """
    data = surrogate.data
    if data.noise_fitted or data.gradients is not None:
        return None
    psi, noisy, evidence = _with_noise(surrogate)
    least = max(FITTING.least_noise_gain, FITTING.noise_gain * len(data.values))
    if noisy - evidence < least:
        return None
    exact, evidence = fit(data, psi[:-1])
    if noisy - evidence < least:  # the first fit had ended at another maximum
        return None
    sd = float(np.exp(0.5 * psi[-1]))
    misses = np.abs(Surrogate.of(data, exact).given.left_out()[_determined(data, psi[:-1]), 0])
    return sd if float(np.median(misses)) > FITTING.noise_share * _MEDIAN * sd else None


def _with_noise(surrogate: Surrogate) -> tuple[np.ndarray, float, float]:
    """The hyperparameters (P + 1,) fitted with a noise, and the log evidences with it and without it."""
    data = surrogate.data
    start = np.append(surrogate.psi, np.log(FITTING.first_noise))
    psi, noisy = fit(replace(data, noise_fitted=True), start)
    return psi, noisy, fit(data, surrogate.psi)[1]


def _determined(data: Data, psi: np.ndarray) -> np.ndarray:
    """The rows of values that, if exact, the others determine best, given hyperparameters psi (P,)."""
    variances = 1.0 / Surrogate.of(data, psi).given.precisions[:, 0, 0]
    unshaped = np.flatnonzero(data.log_slopes == 0.0)
    order: np.ndarray = unshaped[np.argsort(variances[unshaped], kind="stable")]
    return order[: max(len(order) // 4, 1)]
