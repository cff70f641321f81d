"""Whether values that were said to be exact look noisy.

The hyperparameters are fitted once more, with a noise common to all values as one of them. Its prior expects
noise of some tenths of a nat, so that exact values that a stationary kernel fits well lose evidence by it.
Values that it does not fit gain some, but far less for each evaluation than noise does. The sds of .1, .3
and 1 on Rosenbrock 2 were found as .10, .30 and 1.04 after 50 to 60 evaluations; 30 with sd 1 were too few.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.variational_bmc.settings import FITTING
from bqvi.variational_bmc.surrogate import Surrogate, fit


def looks_noisy(sd: float) -> str:
    """What to tell of undeclared noise of the standard deviation ``sd``."""
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
    _, exact = fit(data, surrogate.psi)
    psi, noisy = fit(replace(data, noise_fitted=True), np.append(surrogate.psi, np.log(FITTING.first_noise)))
    least = max(FITTING.least_noise_gain, FITTING.noise_gain * len(data.values))
    return float(np.exp(0.5 * psi[-1])) if noisy - exact > least else None
