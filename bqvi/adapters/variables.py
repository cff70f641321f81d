"""What the adapters share: models that compile functions, and the box and the start of a prior."""

from __future__ import annotations

from typing import Any

import numpy as np

PRIOR_DRAWS = 200
"""The number of draws from the prior that define the plausible box. The widths of boxes of 50, 100, 200 and
400 draws of a Gaussian are off by 8, 6, 6 and 4 %."""


class Compiled:
    """Models that compile functions when they are first called, which are no part of what is pickled."""

    def __getstate__(self) -> dict[str, Any]:
        made = {name for name in vars(self) if hasattr(getattr(type(self), name, None), "func")}
        return {name: x for name, x in vars(self).items() if name not in made}


def box_of_draws(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends (P,), (P,) of a plausible box from draws of a prior (n, P): their central 95 %.

    Entries that are not finite are left out; a parameter that is constant over the draws gets a width of 1.
    """
    low, high = np.nanquantile(np.where(np.isfinite(draws), draws, np.nan), [0.025, 0.975], axis=0)
    narrow = ~(high - low > 1e-8 * (1.0 + np.abs(low)))
    return np.where(narrow, low - 0.5, low), np.where(narrow, high + 0.5, high)


def start_within(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The start (P,) in the box of a prior (P,), (P,): 0, or the middle of an interval without 0.

    For Stan's programs, which do not report their priors, the start is 0. The same model then has the same
    start in all packages, except for parameters whose prior is far from 0.
    """
    return np.where((low < 0.0) & (high > 0.0), 0.0, 0.5 * (low + high))
