"""What the estimators share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

SHAPES = {"full": "full", "tied": "tied", "diag": "diagonal", "spherical": "spherical"}
"""scikit-learn's names of covariances, and those of `bqvi.models`."""


def generator_of(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn takes for ``random_state``; None for other numbers each time."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng(int(check_random_state(random_state).randint(2**31 - 1)))


def require_enough(n_components: int, n: int) -> None:
    """At most as many components as rows."""
    if n_components > n:
        raise ValueError(f"n_components is {n_components}, but n_samples = {n}; it must be at most that")


def warn_unsettled(converged: bool, tol: float, max_iter: int) -> None:
    """Warn where the bound still rose."""
    if not converged:
        warnings.warn(
            f"the bound still rose by more than tol = {tol:g} nats after max_iter = {max_iter} "
            "iterations; raise either",
            ConvergenceWarning,
            stacklevel=3,
        )
