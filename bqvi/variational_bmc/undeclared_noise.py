"""Whether values that were declared exact look noisy.

The hyperparameters are fitted once more, with a noise common to all values as one of them. Its prior expects
noise of some tenths of a nat, so that exact values that a stationary kernel fits well lose evidence by it.
Values that it does not fit gain some, but far less for each evaluation than noise does, as a rule. The sds of
.1, .3 and 1 on Rosenbrock 2 were found as .10, .30 and 1.04 after 50 to 60 evaluations; 30 with sd 1 were
too few.

Noise explains a misfit as well as short lengthscales that change from place to place do (several modes), and
a search that ended at a poor maximum. Exact values are therefore fitted again from the lengthscales that were
found beside the noise. Further, the values with the closest neighbours are examined: with those lengthscales
the others determine them to a small part of the noise, so that an interpolation of exact values predicts
them, and one of noisy values misses them by the noise at least.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.variational_bmc.settings import FITTING
from bqvi.variational_bmc.surrogate import Data, Surrogate, fit

_MEDIAN = 0.6744897501960817
"""Of |x|, x ~ N(0, 1)."""


def looks_noisy(sd: float) -> str:
    """The warning on undeclared noise of the standard deviation ``sd``."""
    return (
        f"Values that were said to be exact look noisy, with a standard deviation of {sd:.2g}: give noise_sd "
        '(a number, a function or "unknown"). If they are exact, they vary more finely than was evaluated.'
    )


def undeclared_noise(surrogate: Surrogate) -> float | None:
    """Return the standard deviation of the noise of values, nats, or None where they look exact.

    None too where noise was declared or is fitted already, and where gradients are in the surrogate.
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
    """Rows of the values that the others determine best, were they exact, under hyperparameters psi (P,)."""
    variances = 1.0 / Surrogate.of(data, psi).given.precisions[:, 0, 0]
    unshaped = np.flatnonzero(data.log_slopes == 0.0)
    order: np.ndarray = unshaped[np.argsort(variances[unshaped], kind="stable")]
    return order[: max(len(order) // 4, 1)]
