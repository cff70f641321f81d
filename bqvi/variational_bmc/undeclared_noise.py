"""Whether values that were said to be exact look noisy.

The hyperparameters are fitted once more, with a noise common to all values as one of them. Its prior expects
noise of some tenths of a nat, so that exact values lose evidence by it: 6 to 20 nats on six targets of 2 to 4
dimensions. Undeclared noise of sd .1, .3 and 1 on Rosenbrock 2 gained 42, 34 and 29 nats after 50 to 60
evaluations, and its sd was found as .10, .30 and 1.04; 30 evaluations with sd 1 were too few. In between lie
exact functions that a stationary kernel does not suit, the funnel and twenty Gaussians in clusters, at 12 to
18 nats.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.variational_bmc.surrogate import Surrogate, fit

_GAIN = 25.0
"""Nats of evidence from which values count as noisy."""
_FIRST = np.log(0.1)
"""Where the search for the log variance begins, nats squared."""


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
    psi, noisy = fit(replace(data, noise_fitted=True), np.append(surrogate.psi, _FIRST))
    return float(np.exp(0.5 * psi[-1])) if noisy - exact > _GAIN else None
