"""A test whether a log joint returns the density itself, because the logarithm was forgotten.

A log joint may have any value, and its values on the first design differ by nats around their mean. A density
is nowhere negative, varies by orders of magnitude over that design, and underflows to 0 on most data.
"""

from __future__ import annotations

import numpy as np

from bqvi.calls.settings import DENSITY

__all__ = ["not_logarithms"]


def not_logarithms(values: np.ndarray) -> str:
    """A message why values (n,) of a log joint look like those of a density; "" where they do not.

    They do if none is negative and a quarter of them or more is below a hundredth of the largest, or if all
    are 0 (which is also true of the logarithm of a uniform density without its constant).
    """
    if len(values) < DENSITY.least or not np.isfinite(values).all() or (values < 0.0).any():
        return ""
    largest = float(values.max())
    small = int((values <= DENSITY.small * largest).sum())
    if small < DENSITY.share * len(values):
        return ""
    seen = (
        f"is 0 at each of {len(values)} points, as a density that underflows is"
        if largest == 0.0
        else f"is nowhere negative at {len(values)} points, and at {small} of them below a hundredth of the "
        f"largest value, {largest:.3g}, as a density is"
    )
    return (
        f"The log joint {seen}: return the logarithm of prior times likelihood, summed term "
        "by term, as the exponential of such a sum underflows. If it is a logarithm already, its sign may be "
        "wrong: the log density is wanted, and not its negative."
    )
